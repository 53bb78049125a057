"""Logs whose files were cut or changed behind their back: what stops a start, and what is left behind."""

from __future__ import annotations

import errno
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.storage.disk import DiskFailed, DiskFull
from crdtstream.storage.log import NotRetained
from crdtstream.storage.recovery import LogDamaged
from crdtstream.storage.segment import (
    FRAME_BYTES,
    HEADER_BYTES,
    FormatUnknown,
    Header,
    encode_header,
    frame_parts,
    segment_name,
    segment_names,
)
from simulations.disk import SimulatedDisk
from tests.storage.logs import SALT, SEGMENT_BYTES, Run, opened, read_all, turn

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
    disk.flip_bit(segment_name(1), HEADER_BYTES + 9 * (FRAME_BYTES + 102) + 50)
    with pytest.raises(LogDamaged):
        opened(disk, position_from=11)


def test_other_format_is_refused_by_number() -> None:
    disk = SimulatedDisk()
    opened(disk)
    disk.write(segment_name(1), 8, (7).to_bytes(4, "little"))
    with pytest.raises(FormatUnknown, match="log format 7, but this release reads format 1"):
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
    copied = b"".join(frame_parts([(1, b"x")] * 5, 10, 9, SALT, 0))
    offsets = range(HEADER_BYTES, HEADER_BYTES + 600)
    forged = [b"".join(frame_parts([(1, b"x")], 10, 9, SALT ^ 1, offset)) for offset in offsets]
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
    disk.flip_bit(segment_name(firsts[4]), offset)
    with pytest.raises((LogDamaged, FormatUnknown)):
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


class BadSectors(SimulatedDisk):
    """Of one file nothing but the header can be read."""

    file = ""

    def read(self, name: str, offset: int, length: int) -> bytes:
        if name == self.file and length > HEADER_BYTES:
            raise DiskFailed(errno.EIO, f"cannot read {name}: simulated")
        return super().read(name, offset, length)


@pytest.mark.parametrize("flipped", [True, False])
def test_a_log_goes_on_behind_a_segment_that_is_damaged_and_was_not_replayed(flipped: bool) -> None:
    disk = BadSectors()
    log, _ = opened(disk)
    log.append(turn(5))
    log.sync()
    if flipped:
        disk.flip_bit(segment_name(1), HEADER_BYTES + 3 * (FRAME_BYTES + 102) + 50)
    else:
        disk.file = segment_name(1)
    disk.create(segment_name(6), 4_096)
    log, _ = opened(disk, position_from=6)
    assert [damage.through for damage in log.damages] == [5] and log.first_position == 6
    assert log.has_room(100)
    log.append(turn(3, start=5))
    log.sync()
    assert log.segment_firsts() == [1, 6]
    assert read_all(log, 6, 1_000) == opened(disk, position_from=6)[1] == turn(3, start=5)


def flipped(disk: SimulatedDisk, record: int) -> None:
    """Flip a bit in a record of the first segment, whose records have 80 bytes each."""
    disk.flip_bit(segment_name(1), HEADER_BYTES + (record - 1) * (FRAME_BYTES + 80) + 50)


@pytest.mark.parametrize(
    ("records", "ends"), [([30], [30]), ([1, 20], [1, 20]), ([30, 31, 32], [32]), ([39, 40], [40])]
)
def test_rot_in_what_a_checkpoint_has_refuses_no_start(records: list[int], ends: list[int]) -> None:
    """In the segment that is replayed, too: peers get what follows, and the log goes on."""
    disk, _ = rotten(synced=60, appended=60, record=records[0])
    for record in records[1:]:
        flipped(disk, record)
    log, kept = opened(disk, 1_000_000, position_from=41)
    assert kept == [(1, b"%08d" % position * 10) for position in range(41, 61)]
    assert [damage.through for damage in log.damages] == ends and log.first_position == ends[-1] + 1
    assert read_all(log, ends[-1] + 1, 500)[-20:] == kept
    log.append([(1, b"more")])
    log.sync()
    log.check()
    assert opened(disk, 1_000_000, position_from=41)[1] == [*kept, (1, b"more")]


@pytest.mark.parametrize("is_zero", [True, False])
def test_damage_at_the_end_of_the_log_stops_the_start(is_zero: bool) -> None:
    """Also if a checkpoint has all that is known of: what followed may be lost with it."""
    disk, offset = rotten(synced=60, appended=60, record=58)
    if is_zero:
        disk.write(segment_name(1), offset, bytes(3 * (FRAME_BYTES + 80)))
    else:
        flipped(disk, 59)
        flipped(disk, 60)
    with pytest.raises(LogDamaged):
        opened(disk, 1_000_000, position_from=61)


@pytest.mark.parametrize(("position_from", "record"), [(41, 41), (41, 45), (31, 40)])
def test_rot_in_what_is_replayed_stops_the_start(position_from: int, record: int) -> None:
    disk, _ = rotten(synced=60, appended=61, record=record)
    with pytest.raises(LogDamaged):
        opened(disk, 1_000_000, position_from=position_from)


def test_rot_up_to_the_first_record_that_is_replayed_stops_the_start() -> None:
    disk, _ = rotten(synced=60, appended=61, record=40)
    flipped(disk, 41)
    with pytest.raises(LogDamaged):
        opened(disk, 1_000_000, position_from=41)
