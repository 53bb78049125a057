"""Room for the log: segments that shrink as the disk fills up, the last one that is left behind, and the reserve."""

from __future__ import annotations

from random import Random

import pytest

from crdtstream.storage import segment as segments
from crdtstream.storage.disk import DiskFull
from crdtstream.storage.log import Log
from crdtstream.storage.reserve import Reserve
from simulations.disk import SimulatedDisk
from tests.storage.logs import Kept, opened, read_all, turn

SMALL = 2_000
TURN_BYTES = 1_400


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES_MIN", SMALL)


def sizes(disk: SimulatedDisk) -> list[int]:
    return [disk.size(name) for name in disk.names() if name.startswith("log-")]


def fill(log: Log, kept: Kept) -> None:
    while log.has_room(TURN_BYTES):
        kept += turn(10, start=len(kept))
        log.append(kept[-10:])


def test_segments_shrink_as_the_disk_fills_up() -> None:
    disk = SimulatedDisk(capacity_bytes=100_000)
    log, kept = opened(disk)
    fill(log, kept)
    log.check()
    found = sizes(disk)
    assert found[0] == 20_000 and found[-1] < 3_000, found
    assert found == sorted(found, reverse=True)
    assert disk.free_bytes() < SMALL, "no room is left unused because a large segment does not fit"
    assert read_all(log, 1, 1 << 20) == kept
    assert opened(disk)[1] == kept


def test_the_first_segment_leaves_room_too() -> None:
    disk = SimulatedDisk(capacity_bytes=24_000)
    opened(disk)
    assert sizes(disk) == [6_000]


def test_what_has_to_stay_free_is_not_taken() -> None:
    disk = SimulatedDisk(capacity_bytes=50_000)
    log, _ = opened(disk, 10_000)
    assert log.has_room(TURN_BYTES, 1 << 20), "the segment that is written needs no new room"
    log.append(turn(90))
    assert not log.has_room(TURN_BYTES, 40_000)
    assert log.has_room(TURN_BYTES, 30_000)
    assert disk.free_bytes() >= 30_000


def test_a_log_rolls_over_and_gives_back_what_it_did_not_use() -> None:
    disk = SimulatedDisk(capacity_bytes=40_000)
    log, kept = opened(disk, 10_000)
    kept += turn(10)
    log.append(kept)
    log.roll()
    log.check()
    assert log.segment_firsts() == [1, 11] and sizes(disk)[0] < 1_500
    log.roll()
    assert log.segment_firsts() == [1, 11], "an empty segment does not"
    log.append(turn(3, start=10))
    kept += turn(3, start=10)
    log.sync()
    assert read_all(log, 1, 1 << 20) == kept == opened(disk)[1]
    log.truncate_before(11)
    assert log.segment_firsts() == [11]


def test_a_power_loss_beside_a_roll_loses_nothing_that_was_durable() -> None:
    for seed in range(60):
        random = Random(seed)
        disk = SimulatedDisk(capacity_bytes=40_000)
        log, kept = opened(disk, 10_000)
        durable = 0
        for _ in range(12):
            kept += turn(random.randrange(1, 9), start=len(kept))
            log.append(kept[log.last_position :])
            if random.random() < 0.4:
                durable = log.sync()
            if random.random() < 0.5:
                log.roll()
        disk.crash(random)
        log, found = opened(disk, 10_000)
        assert durable <= len(found) and found == kept[: len(found)]
        log.append(turn(1))


def test_records_that_are_made_use_the_reserve() -> None:
    disk = SimulatedDisk(capacity_bytes=40_000)
    log, kept = opened(disk, 10_000)
    reserve = log.reserve = Reserve(disk, 16_000)
    assert reserve.fill()
    fill(log, kept)
    free = disk.free_bytes()
    assert reserve.is_whole() and free < SMALL
    while log.spare_bytes() >= TURN_BYTES // 10:
        kept += turn(1, start=len(kept))
        log.append(kept[-1:])
    kept += turn(10, start=len(kept))
    log.append(kept[-10:])
    assert reserve.held_bytes == 16_000 - reserve.portion_bytes
    kept += turn(60, start=len(kept))
    log.append(kept[-60:])
    reserve.check()
    with pytest.raises(DiskFull):
        log.append(turn(100))
    log.check()
    assert opened(disk, 10_000)[1] == kept


def test_records_beyond_the_reserve_leave_it_alone() -> None:
    disk = SimulatedDisk(capacity_bytes=20_000)
    log, kept = opened(disk, 10_000)
    reserve = log.reserve = Reserve(disk, 8_000)
    assert reserve.fill()
    fill(log, kept)
    with pytest.raises(DiskFull):
        log.append(turn(200))
    assert reserve.is_whole()
