"""Power lost between any two operations: what was synced survives, the rest is a prefix."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.storage.recovery import LogDamaged
from crdtstream.storage.segment import (
    segment_name,
)
from simulations.disk import PAGE_BYTES, SimulatedDisk
from tests.storage.logs import SEGMENT_BYTES, Run, opened, read_all, turn


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

    def allocate(self, name: str, size_bytes: int) -> None:
        self.live()
        super().allocate(name, size_bytes)

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


@pytest.mark.parametrize("asked", [100, SEGMENT_BYTES, 3 * SEGMENT_BYTES])
def test_a_log_goes_on_in_a_segment_that_was_not_replayed(asked: int) -> None:
    """Power went when the next segment had a name and no header, and a checkpoint has all records before it. What is
    appended then follows the last record, and not the space that the segment was given on a disk that was fuller.
    """
    disk = SimulatedDisk()
    log, _ = opened(disk, SEGMENT_BYTES // 2)
    log.append(turn(5))
    log.sync()
    disk.create(segment_name(6), 4_096)
    disk.sync_directory()
    for start in (5, 8):
        log, kept = opened(disk, position_from=6)
        assert (kept == turn(start - 5, start=5) and log.cut is None) or start == 5
        assert log.has_room(asked)
        log.append(turn(3, start=start))
        log.sync()
        assert read_all(log, 1, 1_000) == turn(start + 3) and not log.damages
        disk.crash(Random(1))
    assert opened(disk)[1] == turn(11)
