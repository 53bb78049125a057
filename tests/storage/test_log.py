"""The log: appending and reading, disks that are full or fail, and the real disk."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.storage.disk import DiskFull, RealDisk
from crdtstream.storage.log import LogFailed, NotRetained
from crdtstream.storage.recovery import LogDamaged
from crdtstream.storage.segment import (
    FRAME_BYTES,
    HEADER_BYTES,
    segment_name,
)
from simulations.disk import SimulatedDisk
from tests.storage.logs import SEGMENT_BYTES, Kept, failing, opened, read_all, turn

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


@pytest.mark.parametrize("size", [1, 9_000])
def test_parts_of_a_record_are_one(size: int) -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    log.append([(1, [b"a" * size, b"", b"b"]), (2, []), (3, b"c")])
    expected = [(1, b"a" * size + b"b"), (2, b""), (3, b"c")]
    assert [(kind, payload) for _, kind, payload in log.read(1, 100_000)] == expected
    log.append([(4, [b"d", b"e"])])
    assert log.read(4, 100) == [(4, 4, b"de")]
    log.check()
    assert opened(disk)[1] == [*expected, (4, b"de")]


def test_records_are_replayed_after_a_reopen() -> None:
    disk = SimulatedDisk()
    log, _ = opened(disk)
    records: Kept = [(0, b""), (2**32 - 1, b"x" * 9_000), (5, bytes(1_000))]
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
        records: Kept = [(size % 5, b"%d" % len(appended) + b"x" * size) for size in row]
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
        with pytest.raises(LogFailed, match="rejects all further operations"):
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


@pytest.mark.parametrize(("taken", "whole"), [(0, 341), (1, 341), (3, 342)])
def test_a_disk_that_fills_inside_a_turn_ends_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int, whole: int
) -> None:
    """The kernel takes 1024 parts at once, three for a record; of the others only some, or none at all."""
    disk = RealDisk(str(tmp_path))
    log, _ = opened(disk, 100_000)
    log.append(turn(5))
    reason = re.escape(f"cannot write {tmp_path / segment_name(1)}: No space left on device")
    with monkeypatch.context() as patch:
        fill_disk(patch, taken)
        with pytest.raises(LogFailed, match=reason):
            log.append(turn(400))
    for action in (lambda: log.append(turn(1)), log.sync, lambda: log.read(1, 1), lambda: log.has_room(1)):
        with pytest.raises(LogFailed, match=reason):
            action()
    disk.close()
    disk = RealDisk(str(tmp_path))
    log, kept = opened(disk, 100_000)
    assert kept == turn(5) + turn(400)[:whole]
    assert log.cut is not None and log.cut.position == len(kept) + 1
    log.append(turn(400))
    assert opened(disk, 100_000)[1] == kept + turn(400)
    disk.close()


def fill_disk(patch: pytest.MonkeyPatch, taken: int) -> None:
    """So many parts of the second write fit, then nothing does."""
    vectored = os.pwritev

    def short(descriptor: int, parts: list[bytes], offset: int) -> int:
        return vectored(descriptor, parts[:taken], offset)

    full = failing(errno.ENOSPC)
    calls: list[Callable[..., int]] = [vectored, short if taken else full]
    patch.setattr(os, "pwritev", lambda *given: calls.pop(0)(*given))
    patch.setattr(os, "pwrite", full)
