"""The log against power loss, rot, full and failing disks on the simulated disk; threads on the real one."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.storage.disk import Disk, DiskFailed, DiskFull, RealDisk
from crdtstream.storage.log import FRAME_BYTES, Log, LogFailed, NotRetained, open_log
from crdtstream.storage.recovery import LogDamaged
from crdtstream.storage.segment import (
    HEADER_BYTES,
    FormatUnknown,
    Header,
    encode_frames,
    encode_header,
    segment_name,
    segment_names,
)
from simulations.disk import PAGE_BYTES, SimulatedDisk

SALT = 0x5EED5A17
SEGMENT_BYTES = 20_000
Kept = list[tuple[int, bytes]]


def opened(disk: Disk, segment_bytes_max: int = SEGMENT_BYTES, position_from: int = 1) -> tuple[Log, Kept]:
    kept: Kept = []

    def replay(position: int, kind: int, payload: bytes) -> None:
        assert position == position_from + len(kept)
        kept.append((kind, payload))

    log = open_log(disk, replay, salt=SALT, segment_bytes_max=segment_bytes_max, position_from=position_from)
    log.check()
    return log, kept


def read_all(log: Log, position: int, bytes_max: int) -> Kept:
    found: Kept = []
    while records := log.read(position, bytes_max):
        for number, kind, payload in records:
            assert number == position
            found.append((kind, payload))
            position += 1
    return found


def turn(count: int, size: int = 100, start: int = 0) -> Kept:
    return [((start + i) % 7, b"%d:" % (start + i) + b"p" * size) for i in range(count)]


# Appending and reading


def test_new_log_is_empty() -> None:
    log, kept = opened(SimulatedDisk())
    assert kept == []
    assert (log.first_position, log.last_position, log.synced_position) == (1, 0, 0)
    assert log.read(1, 1_000) == []
    assert log.append([]) == log.sync() == 0


def test_a_turn_is_one_write_and_the_position_its_last_record() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    writes = disk.writes
    assert log.append(turn(20)) == 20
    assert disk.writes == writes + 1
    assert (log.last_position, log.synced_position) == (20, 0)
    assert log.sync() == log.synced_position == 20
    syncs = disk.syncs
    assert log.sync() == 20 and disk.syncs == syncs


def test_records_are_replayed_after_a_reopen() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    records = [(0, b""), (2**32 - 1, b"x" * 9_000), (5, bytes(1_000))]
    log.append(records[:1])
    log.append(records[1:])
    log, kept = opened(disk)
    assert kept == records
    assert log.cut is None
    assert log.synced_position == log.last_position == 3
    assert log.append([(1, b"next")]) == 4
    assert log.read(4, 10) == [(4, 1, b"next")]


def test_what_a_kill_left_in_the_page_cache_is_synced_before_it_counts() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append(turn(300))
    log.append(turn(100))
    for seed in range(5):
        log, kept = opened(disk)
        assert log.synced_position == 400
        disk.crash(Random(seed))
    assert len(kept) == 400


@given(
    st.lists(st.lists(st.integers(0, 3_000), max_size=8), max_size=30),
    st.integers(0, 8_000),
    st.integers(1, 300),
    st.booleans(),
)
def test_every_position_can_be_read(sizes: list[list[int]], bytes_max: int, position: int, reopen: bool) -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk, 10_000)
    appended: Kept = []
    for row in sizes:
        records = [(size % 5, b"%d" % len(appended) + b"x" * size) for size in row]
        log.append(records)
        appended += records
        log.check()
    if reopen:
        log, _ = opened(disk, 10_000)
    assert read_all(log, position, bytes_max) == appended[position - 1 :]


def test_read_holds_its_limit_and_gives_at_least_one() -> None:
    log, _ = opened(SimulatedDisk())
    log.append(turn(50, 98))
    assert [row[0] for row in log.read(11, 350)] == [11, 12, 13]
    assert [row[0] for row in log.read(14, 0)] == [14]


def test_two_readers_go_on_where_each_stopped() -> None:
    log, _ = opened(SimulatedDisk(), 200_000)
    appended = turn(1_000)
    for record in appended:
        log.append([record])
    positions = [1, 500]
    for _ in range(20):
        for reader in (0, 1):
            for number, kind, payload in log.read(positions[reader], 1_000):
                assert appended[number - 1] == (kind, payload)
                positions[reader] = number + 1
            log.check()
    assert positions[1] - positions[0] in range(490, 510)


def test_a_turn_larger_than_a_segment_gets_one_of_its_own() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append([(1, b"small")])
    log.append([(2, b"x" * 50_000), (3, b"y")])
    log.append([(4, b"small")])
    log.check()
    assert [disk.size(name) for name in disk.names()] == [
        SEGMENT_BYTES,
        HEADER_BYTES + 2 * FRAME_BYTES + 50_001,
        20_000,
    ]
    assert [row[:2] for row in read_all(opened(disk)[0], 1, 10)] == [
        (1, b"small"),
        (2, b"x" * 50_000),
        (3, b"y"),
        (4, b"small"),
    ]


def test_a_first_turn_larger_than_a_segment_grows_the_empty_one() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append([(2, b"x" * 50_000)])
    log.check()
    assert disk.names() == [segment_name(1)]
    assert opened(disk)[1] == [(2, b"x" * 50_000)]


def test_truncate_before_deletes_whole_durable_segments() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    appended = turn(1_000)
    for record in appended:
        log.append([record])
    log.truncate_before(900)
    assert log.first_position == 1
    log.sync()
    log.truncate_before(500)
    log.check()
    first = log.first_position
    assert 1 < first <= 500
    with pytest.raises(NotRetained):
        log.read(first - 1, 100)
    assert read_all(log, first, 1_000) == appended[first - 1 :]
    disk.crash(Random(1))
    assert opened(disk, position_from=500)[1] == appended[499:]
    with pytest.raises(LogDamaged, match="missing"):
        opened(disk)


def test_bytes_from_a_position_are_what_lies_there_or_a_little_more() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    for start in range(0, 1000, 10):
        log.append(turn(10, start=start))
    log.sync()
    whole = sum(len(payload) + FRAME_BYTES for _, payload in turn(1000))
    assert log.bytes_from(1) == whole and log.bytes_from(1001) == 0
    for position in (2, 500, 999):
        exact = sum(len(payload) + FRAME_BYTES for _, payload in turn(1001 - position, start=position - 1))
        assert exact <= log.bytes_from(position) <= exact + 64 * (110 + FRAME_BYTES)
    log, _ = opened(disk, position_from=900)
    assert log.bytes_from(1) >= whole, "segments that were not read count with all their room"


def test_a_position_to_cut_at_leaves_so_many_bytes_at_most() -> None:
    log, _ = opened(SimulatedDisk())
    for start in range(0, 1000, 10):
        log.append(turn(10, start=start))
    log.sync()
    firsts = log.segment_firsts()
    assert len(firsts) > 5
    assert log.position_within(1) == firsts[-1], "the segment that is written is kept"
    assert log.position_within(1 << 30) == firsts[0]
    position = log.position_within(3 * SEGMENT_BYTES)
    assert position in firsts[1:-1]
    assert log.bytes_from(position) <= 3 * SEGMENT_BYTES < log.bytes_from(firsts[firsts.index(position) - 1]) + 1_000


def test_room_that_is_asked_for_begins_the_next_segment() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append(turn(100))
    assert log.has_room(1_000) and len(disk.names()) == 1
    assert log.has_room(15_000) and len(disk.names()) == 2
    log.check()
    assert log.has_room(100_000) and len(disk.names()) == 2
    log.check()
    log.append(turn(100))
    assert read_all(log, 1, 10_000) == turn(100) * 2


def test_room_that_is_asked_for_wastes_no_small_segment() -> None:
    """Every turn asks for more than such a segment holds: it grows, until it is half full of what was written."""
    disk = SimulatedDisk()
    log, _ = opened(disk, 16_384)
    for number in range(200):
        assert log.has_room(20_000)
        log.append(turn(1, start=number))
        log.check()
    assert len(disk.names()) <= 4
    assert read_all(log, 1, 1_000) == turn(200)
    log, kept = opened(disk, 16_384)
    assert kept == turn(200)


# Full and failing disks


def test_full_disk_refuses_before_anything_is_written() -> None:
    disk = SimulatedDisk(capacity_bytes=SEGMENT_BYTES + 1_000)
    log, _ = opened(disk)
    log.append(turn(100))
    writes = disk.writes
    assert not log.has_room(15_000)
    with pytest.raises(DiskFull):
        log.append(turn(110))
    log.check()
    assert disk.writes == writes and log.last_position == 100
    assert read_all(log, 1, 1_000) == turn(100)
    assert log.append(turn(1)) == 101 and log.sync() == 101
    disk.capacity_bytes = None
    assert log.has_room(15_000)
    assert log.append(turn(110)) == 211


def test_failed_append_ends_the_log() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append(turn(5))
    disk.fail_next_append()
    with pytest.raises(LogFailed):
        log.append(turn(5))
    for action in (lambda: log.append(turn(1)), log.sync, lambda: log.read(1, 1), lambda: log.has_room(1)):
        with pytest.raises(LogFailed, match="refuses all since"):
            action()
    assert opened(disk)[1][:5] == turn(5)


def test_failed_sync_is_never_retried() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append(turn(5))
    log.sync()
    log.append(turn(5))
    disk.fail_next_sync()
    with pytest.raises(LogFailed):
        log.sync()
    syncs = disk.syncs
    for action in (log.sync, lambda: log.append(turn(1)), lambda: log.truncate_before(1)):
        with pytest.raises(LogFailed):
            action()
    assert disk.syncs == syncs and log.synced_position == 5


def test_torn_tail_on_a_full_disk_can_still_be_read() -> None:
    disk = SimulatedDisk(capacity_bytes=SEGMENT_BYTES)
    log, _ = opened(disk)
    log.append(turn(20))
    log.append(turn(20))
    disk.flip_bit(segment_name(1), HEADER_BYTES + 30 * (FRAME_BYTES + 103))
    disk.capacity_bytes = 1_000
    log, kept = opened(disk)
    assert log.cut is not None and log.cut.position == len(kept) + 1
    assert read_all(log, 1, 1_000) == kept
    assert not log.has_room(1)
    disk.capacity_bytes = None
    assert log.has_room(1)
    log.append(turn(1))
    log.check()


# Rot and torn tails


class StaleDisk(SimulatedDisk):
    """Cuts without removing what was cut."""

    def truncate(self, name: str, size_bytes: int) -> None:
        pass


def rotten(
    synced: int, appended: int, record: int, disk_type: type[SimulatedDisk] = SimulatedDisk
) -> tuple[SimulatedDisk, int]:
    """Records of one size in one segment, one turn each; a bit flips in the middle of one. Returns its offset too."""
    disk = disk_type()
    log, _ = opened(disk, 1_000_000)
    for position in range(1, appended + 1):
        log.append([(1, b"%08d" % position * 10)])
        if position == synced:
            log.sync()
    offset = HEADER_BYTES + (record - 1) * (FRAME_BYTES + 80)
    disk.flip_bit(segment_name(1), offset + 50)
    return disk, offset


@pytest.mark.parametrize("record", [1, 7, 40])
def test_rot_in_what_was_synced_stops_the_start(record: int) -> None:
    disk, offset = rotten(synced=40, appended=60, record=record)
    with pytest.raises(LogDamaged, match=f"log-0+1 is damaged at byte {offset}: record {record} .* Restore") as caught:
        opened(disk, 1_000_000)
    assert (caught.value.file, caught.value.offset) == (segment_name(1), offset)


@pytest.mark.parametrize("record", [41, 50, 60])
def test_rot_in_what_was_not_synced_is_cut(record: int) -> None:
    disk, offset = rotten(synced=40, appended=60, record=record)
    log, kept = opened(disk, 1_000_000)
    assert len(kept) == record - 1
    assert log.cut is not None
    assert (log.cut.file, log.cut.offset, log.cut.position) == (segment_name(1), offset, record)


@pytest.mark.parametrize(("disk_type", "returned"), [(SimulatedDisk, 0), (StaleDisk, 10)])
def test_nothing_of_a_cut_tail_comes_back(disk_type: type[SimulatedDisk], returned: int) -> None:
    disk, _ = rotten(synced=40, appended=60, record=50, disk_type=disk_type)
    log, kept = opened(disk, 1_000_000)
    log.append([(2, b"x" * 80)])  # as large as the damaged one: old frame 51 would follow it
    log, again = opened(disk, 1_000_000)
    assert again[:50] == [*kept, (2, b"x" * 80)]
    assert len(again) == 50 + returned
    assert log.cut is None


@pytest.mark.parametrize("offset", range(HEADER_BYTES))
def test_rot_in_the_first_header_stops_the_start(offset: int) -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append(turn(5))
    disk.flip_bit(segment_name(1), offset)
    with pytest.raises((LogDamaged, FormatUnknown)):
        opened(disk)


def two_segments(sync_first: bool, sync_second: bool) -> tuple[SimulatedDisk, str, int]:
    """Returns the disk, the second segment's name, and its first record."""
    disk = SimulatedDisk()
    log, _ = opened(disk)
    while len(disk.names()) == 1:
        log.append(turn(10, start=log.last_position))
        if sync_first and len(disk.names()) == 1:
            log.sync()
    if sync_second:
        log.sync()
        log.append(turn(10, start=log.last_position))
    return disk, disk.names()[1], log.last_position


@pytest.mark.parametrize("whole", [True, False])
def test_damaged_header_of_a_later_segment(whole: bool) -> None:
    disk, name, _ = two_segments(True, whole)
    disk.flip_bit(name, 12)
    if whole:
        with pytest.raises(LogDamaged) as caught:
            opened(disk)
        assert (caught.value.file, caught.value.offset) == (name, 0)
        return
    log, kept = opened(disk)
    assert len(kept) == log.last_position == int(name[4:]) - 1
    assert disk.names() == [segment_name(1)]
    log.append(turn(200))
    assert len(opened(disk)[1]) == len(kept) + 200


def test_missing_segment_is_damage() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    while len(disk.names()) < 3:
        log.append(turn(10))
        log.sync()
    disk.delete(disk.names()[1])
    with pytest.raises(LogDamaged):
        opened(disk)


def test_missing_end_of_a_segment_is_damage_when_the_next_vouches_for_it() -> None:
    disk, name, _ = two_segments(True, False)
    disk.truncate(segment_name(1), 10_000)
    with pytest.raises(LogDamaged, match=f"record .* in {name} says"):
        opened(disk)


def test_unsynced_end_of_a_segment_is_cut_with_the_segments_behind_it() -> None:
    disk, _, _ = two_segments(False, False)
    disk.truncate(segment_name(1), 10_000)
    log, kept = opened(disk)
    assert 0 < len(kept) < 100
    assert disk.names() == [segment_name(1)]
    log.append(turn(300))
    log.sync()
    disk.crash(Random(3))
    assert opened(disk)[1] == kept + turn(300)


def test_segment_that_was_cut_off_stays_away() -> None:
    for seed in range(20):
        disk, name, _ = two_segments(False, False)
        disk.sync_directory()
        disk.truncate(segment_name(1), 10_000)
        log, kept = opened(disk)
        while log.last_position <= int(name[4:]):
            log.append([(1, b"")])
            kept.append((1, b""))
        assert disk.names() == [segment_name(1)]
        log.sync()
        disk.crash(Random(seed))
        assert opened(disk)[1] == kept


def test_overlapping_segments_are_damage() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append(turn(10))
    other = SimulatedDisk()
    log, _ = opened(other)
    log.append(turn(5))
    log.append(turn(1, SEGMENT_BYTES))
    name = other.names()[1]
    disk.create(name, SEGMENT_BYTES)
    disk.write(name, 0, other.read(name, 0, SEGMENT_BYTES))
    with pytest.raises(LogDamaged, match="begins at record 6"):
        opened(disk)


def test_position_that_the_caller_knows_durable_is_a_witness() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append(turn(10))
    assert opened(disk, position_from=8)[1] == turn(10)[7:]
    assert opened(disk, position_from=11)[1] == []
    with pytest.raises(LogDamaged):
        opened(disk, position_from=12)
    disk.flip_bit(segment_name(1), HEADER_BYTES + 5 * FRAME_BYTES)
    with pytest.raises(LogDamaged):
        opened(disk, position_from=11)


def test_other_format_is_refused_by_number() -> None:
    disk = SimulatedDisk()
    opened(disk)
    disk.write(segment_name(1), 8, (7).to_bytes(4, "little"))
    with pytest.raises(FormatUnknown, match="log format 7 and this release reads format 1"):
        opened(disk)


@pytest.mark.parametrize("written", range(HEADER_BYTES + 1))
def test_header_of_a_new_segment_may_be_torn_anywhere(written: int) -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append(turn(10))
    log.sync()
    name = segment_name(11)
    disk.create(name, SEGMENT_BYTES)
    disk.write(name, 0, encode_header(Header(SALT, 11, 10))[:written])
    log, kept = opened(disk)
    assert kept == turn(10) and log.last_position == 10


def test_payload_that_looks_like_a_frame_is_no_witness() -> None:
    """Behind a torn record lies one whose payload holds frames that vouch for it: copied, moved, of another salt."""
    disk = SimulatedDisk()
    log, _ = opened(disk, 100_000)
    log.append([(1, b"torn")])
    copied = encode_frames([(1, b"x")] * 5, 10, 9, SALT, 0)
    forged = [encode_frames([(1, b"x")], 10, 9, SALT ^ 1, offset) for offset in range(HEADER_BYTES, HEADER_BYTES + 600)]
    marks = SALT.to_bytes(4, "little") * 100
    log.append([(1, copied), (1, b"".join(forged)), (1, marks)])
    disk.flip_bit(segment_name(1), HEADER_BYTES + 33)
    log, kept = opened(disk, 100_000)
    assert kept == []
    assert log.cut is not None and log.cut.position == 1


def test_frame_behind_a_long_hole_is_found() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk, 10 << 20)
    log.append([(1, b"x" * (3 << 20))])
    log.sync()
    log.append([(1, b"witness")])
    disk.write(segment_name(1), HEADER_BYTES, bytes(FRAME_BYTES + (3 << 20)))
    with pytest.raises(LogDamaged, match="record 2 in"):
        opened(disk, 10 << 20)


# Power loss


class PowerLost(Exception):
    pass


class MortalDisk(SimulatedDisk):
    """Loses power before the operation that follows `operations_left` others."""

    operations_left = -1

    def live(self) -> None:
        self.operations_left -= 1
        if self.operations_left == -1:
            raise PowerLost

    def create(self, name: str, size_bytes: int) -> None:
        self.live()
        super().create(name, size_bytes)

    def reserve(self, name: str, size_bytes: int) -> None:
        self.live()
        super().reserve(name, size_bytes)

    def write(self, name: str, offset: int, data: bytes) -> None:
        self.live()
        super().write(name, offset, data)

    def sync(self, name: str) -> None:
        self.live()
        super().sync(name)

    def sync_directory(self) -> None:
        self.live()
        super().sync_directory()

    def truncate(self, name: str, size_bytes: int) -> None:
        self.live()
        super().truncate(name, size_bytes)

    def delete(self, name: str) -> None:
        self.live()
        super().delete(name)


class Run:
    """A log under random turns, syncs, kills and crashes, against a list of what was appended.

    With a MortalDisk the power also goes inside an append, a sync or a recovery.
    """

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.appended: Kept = []
        self.synced = 0
        self.serial = 0
        self.log, _ = opened(disk)

    def step(self, action: str, random: Random) -> None:
        if action == "append":
            self.append(random)
        elif action == "sync":
            self.synced = self.log.sync()
        elif action == "room":
            assert self.log.has_room(random.randrange(1, 2 * SEGMENT_BYTES))
        else:
            if action == "crash":
                self.disk.crash(random)
            self.reopen()
        self.log.check()
        self.disk.check()

    def append(self, random: Random) -> None:
        records = []
        for _ in range(random.randrange(1, 6)):
            self.serial += 1
            records.append((random.randrange(9), b"%d:" % self.serial + bytes(random.choice((0, 50, 3_000, 9_000)))))
        self.appended += records
        assert self.log.append(records) == len(self.appended)

    def reopen(self) -> None:
        self.log, kept = opened(self.disk)
        assert len(kept) >= self.synced, "a synced record is gone"
        assert kept == self.appended[: len(kept)], "what is read back was not appended like that"
        assert (self.log.last_position, self.log.synced_position) == (len(kept), len(kept))
        self.appended = kept
        self.synced = len(kept)
        assert read_all(self.log, 1, 20_000) == kept


ACTIONS = ("append", "append", "append", "sync", "room", "crash", "kill")


@settings(max_examples=150)
@given(st.lists(st.sampled_from(ACTIONS), max_size=40), st.integers(0, 2**32))
def test_synced_records_survive_and_the_rest_is_a_prefix(actions: list[str], seed: int) -> None:
    random = Random(seed)
    run = Run(SimulatedDisk())
    for action in [*actions, "crash"]:
        run.step(action, random)


@settings(max_examples=150)
@given(st.lists(st.sampled_from(ACTIONS), min_size=5, max_size=40), st.integers(0, 2**32))
def test_power_may_be_lost_between_any_two_operations(actions: list[str], seed: int) -> None:
    random = Random(seed)
    disk = MortalDisk()
    run = Run(disk)
    for action in actions:
        disk.operations_left = random.choice((-1, 0, 1, 2, 3, 5, 8))
        try:
            run.step(action, random)
        except PowerLost:
            disk.operations_left = -1
            run.step("crash", random)
    disk.operations_left = -1
    run.step("crash", random)


class ForgetfulDisk(SimulatedDisk):
    def sync(self, name: str) -> None:
        pass


class NamelessDisk(SimulatedDisk):
    def sync_directory(self) -> None:
        pass


def holds(disk_type: type[SimulatedDisk], seed: int) -> bool:
    random = Random(seed)
    try:
        run = Run(disk_type())
        for _ in range(30):
            run.step(random.choice(ACTIONS), random)
        run.step("crash", random)
    except (AssertionError, LogDamaged):
        return False
    return True


@pytest.mark.parametrize("disk_type", [ForgetfulDisk, NamelessDisk])
def test_the_property_fails_when_the_disk_lies(disk_type: type[SimulatedDisk]) -> None:
    assert all(holds(SimulatedDisk, seed) for seed in range(40))
    assert not all(holds(disk_type, seed) for seed in range(40))


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_a_flipped_bit_is_never_served(seed: int) -> None:
    """Wherever it lies: damage is named, or what is kept is a prefix that has all that a later record vouches for."""
    random = Random(seed)
    run = Run(SimulatedDisk())
    vouched = 0
    for _ in range(20):
        action = random.choice(("append", "append", "sync"))
        vouched = run.synced if action == "append" else vouched
        run.step(action, random)
    name = random.choice(segment_names(run.disk))
    run.disk.flip_bit(name, random.randrange(run.disk.size(name)), random.randrange(8))
    try:
        _, kept = opened(run.disk)
    except (LogDamaged, FormatUnknown):
        return
    assert len(kept) >= vouched
    assert kept == run.appended[: len(kept)]


def test_rot_is_not_served_to_readers() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append(turn(3))
    disk.flip_bit(segment_name(1), HEADER_BYTES + FRAME_BYTES + 102 + FRAME_BYTES + 5)
    assert [row[0] for row in log.read(1, 1_000)] == [1]
    assert log.read(2, 1_000) == []
    assert log.damages[0].record == 2


class UnreadableDisk(SimulatedDisk):
    """Some files answer with an error instead of bytes."""

    unreadable: frozenset[str] = frozenset()

    def read(self, name: str, offset: int, length: int) -> bytes:
        if name in self.unreadable:
            raise DiskFailed(errno.EIO, f"cannot read {name}: simulated")
        return super().read(name, offset, length)


def damaged(disk: UnreadableDisk, name: str, how: str) -> None:
    if how == "flipped":
        disk.flip_bit(name, HEADER_BYTES + 3 * (FRAME_BYTES + 102) + 50)
    elif how == "gone":
        disk.delete(name)
    else:
        disk.unreadable = frozenset({name})


@pytest.mark.parametrize("how", ["flipped", "gone", "unreadable"])
@pytest.mark.parametrize("replayed_from", [1, 101])
def test_a_log_begins_behind_what_cannot_be_read(how: str, replayed_from: int) -> None:
    """Also where the segment was not read at the start, so that nothing but its first record's place is known."""
    disk = UnreadableDisk()
    log, _ = opened(disk, 2_000)
    for start in range(0, 200, 10):
        log.append(turn(10, 90, start))
    log.sync()
    log, _ = opened(disk, 2_000, position_from=replayed_from)
    firsts = log.segment_firsts()
    damaged(disk, segment_name(firsts[2]), how)
    kept = read_all(log, 1, 500)
    if how == "flipped":
        assert firsts[2] - 1 < len(kept) < firsts[3] - 1, "what lies before the flipped bit is read"
    assert log.first_position == firsts[3]
    assert [damage.file for damage in log.damages] == [segment_name(firsts[2])]
    assert log.damages[0].through == firsts[3] - 1
    with pytest.raises(NotRetained):
        log.read(1, 100)
    assert len(read_all(log, firsts[3], 500)) == log.last_position - firsts[3] + 1
    log.check()
    log.truncate_before(log.first_position)
    assert segment_name(firsts[2]) not in disk.names() or how == "gone"
    assert log.segment_firsts() == firsts[3:]
    log.check()


@pytest.mark.parametrize("offset", [3, 9, 13, 20, 30])
@pytest.mark.parametrize("spoilt", [[0], [2], [0, 1, 2]])
def test_a_header_that_rotted_in_what_is_not_replayed_refuses_no_start(spoilt: list[int], offset: int) -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk, 2_000)
    for start in range(0, 200, 10):
        log.append(turn(10, 90, start))
        log.sync()
    firsts = log.segment_firsts()
    for place in spoilt:
        disk.flip_bit(segment_name(firsts[place]), offset)
    log, _ = opened(disk, 2_000, position_from=firsts[4])
    assert [damage.file for damage in log.damages] == [segment_name(firsts[place]) for place in spoilt]
    assert log.first_position == firsts[spoilt[-1] + 1]
    assert len(read_all(log, log.first_position, 500)) == log.last_position - log.first_position + 1
    log.truncate_before(log.first_position)
    log.check()
    with pytest.raises((LogDamaged, FormatUnknown)):
        disk.flip_bit(segment_name(firsts[4]), offset)
        opened(disk, 2_000, position_from=firsts[4])


@pytest.mark.parametrize("asked", [100, 900, 9_000])
def test_damage_in_the_last_segment_is_left_behind_by_the_next_turn(asked: int) -> None:
    disk = UnreadableDisk()
    log, _ = opened(disk)
    log.append(turn(20))
    log.sync()
    damaged(disk, segment_name(1), "flipped")
    assert len(read_all(log, 1, 10_000)) == 3
    assert log.first_position == 21 and log.read(21, 100) == []
    assert log.has_room(asked)
    log.append(turn(5))
    log.sync()
    log.check()
    assert log.segment_firsts() == [1, 21]
    assert read_all(log, 21, 10_000) == turn(5)
    log, kept = opened(disk, position_from=21)
    assert kept == turn(5)
    with pytest.raises(LogDamaged):
        opened(disk)


def test_damage_in_the_last_segment_of_a_full_disk() -> None:
    disk = UnreadableDisk(capacity_bytes=SEGMENT_BYTES)
    log, _ = opened(disk)
    log.append(turn(20))
    log.sync()
    damaged(disk, segment_name(1), "flipped")
    assert read_all(log, 1, 10_000)
    assert not log.has_room(100)
    with pytest.raises(DiskFull):
        log.append(turn(1))
    disk.capacity_bytes = None
    assert log.append(turn(1)) == 21
    log.check()


def test_first_start_that_loses_power_starts_again() -> None:
    for seed in range(30):
        disk = SimulatedDisk()
        disk.create(segment_name(1), SEGMENT_BYTES)
        disk.write(segment_name(1), 0, b"x" * PAGE_BYTES)
        disk.crash(Random(seed))
        if disk.names() and disk.read(segment_name(1), 0, 1) == b"x":
            continue
        log, kept = opened(disk)
        assert kept == [] and log.append(turn(3)) == 3


# The real disk


def test_sync_from_a_thread_while_the_loop_appends(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    log, _ = opened(disk, 4_096)
    done = threading.Event()
    covered: list[int] = []

    def sync() -> None:
        while not (covered and done.is_set()):
            before = log.last_position
            position = log.sync()
            assert position >= before
            covered.append(position)

    thread = threading.Thread(target=sync)
    thread.start()
    for start in range(0, 3_000, 10):
        log.append(turn(10, 50, start))
    done.set()
    thread.join()
    assert covered and covered == sorted(covered)
    assert log.sync() == 3_000
    log.truncate_before(1_000)
    log.check()
    disk.check()
    disk.close()
    disk = RealDisk(str(tmp_path))
    _, kept = opened(disk, 4_096, position_from=1_000)
    assert kept == turn(3_000, 50)[999:]
    disk.close()


def test_real_torn_tail_is_cut(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    log, _ = opened(disk)
    log.append(turn(10))
    with (tmp_path / segment_name(1)).open("r+b") as file:
        file.seek(HEADER_BYTES + 3 * (FRAME_BYTES + 102) + 40)
        file.write(b"?")
    log, kept = opened(disk)
    assert kept == turn(3)
    assert disk.size(segment_name(1)) == SEGMENT_BYTES
    log.append(turn(5))
    assert opened(disk)[1] == turn(3) + turn(5)
    disk.close()
