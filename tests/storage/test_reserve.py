"""The reserve: what it holds, what a crash and other settings leave of it, and what a full disk lets it take."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.storage.reserve import RESERVE, Reserve
from simulations.disk import SimulatedDisk

BYTES = 8_000


def whole(disk: SimulatedDisk, byte_count: int = BYTES) -> Reserve:
    reserve = Reserve(disk, byte_count)
    assert reserve.fill()
    reserve.check()
    return reserve


def test_it_takes_space_until_it_is_given_up() -> None:
    disk = SimulatedDisk(capacity_bytes=10_000)
    reserve = whole(disk)
    assert (disk.free_bytes(), reserve.missing_bytes(), reserve.is_whole()) == (2_000, 0, True)
    reserve.give(3_000)
    assert (disk.free_bytes(), reserve.missing_bytes(), reserve.is_whole()) == (5_000, 3_000, False)
    reserve.keep(1_000)
    assert disk.free_bytes() == 9_000
    reserve.keep(4_000)
    assert reserve.held_bytes == 1_000, "keep gives up only"
    reserve.give(1 << 20)
    assert disk.names() == [] and reserve.held_bytes == 0
    assert reserve.fill() and disk.free_bytes() == 2_000


def test_without_space_it_stays_as_it_is() -> None:
    disk = SimulatedDisk(capacity_bytes=BYTES)
    reserve = whole(disk)
    reserve.give(5_000)
    disk.create("other", 1)
    assert not reserve.fill()
    reserve.check()
    assert reserve.held_bytes == 3_000
    disk.delete("other")
    assert reserve.fill()


@pytest.mark.parametrize("odds", [0.0, 0.5, 1.0])
def test_a_crash_leaves_what_is_filled_again(odds: float) -> None:
    for seed in range(20):
        disk = SimulatedDisk()
        disk.create("log", 1)
        disk.sync_directory()
        reserve = whole(disk)
        if seed % 2:
            disk.sync_directory()
            reserve.give(1_000)
        disk.crash(Random(seed), odds)
        Reserve(disk, BYTES).check()
        whole(disk)


@given(st.lists(st.integers(0, 2 * BYTES), min_size=1, max_size=5))
def test_a_start_follows_the_setting(sizes: list[int]) -> None:
    disk = SimulatedDisk()
    for size in sizes:
        assert Reserve(disk, size).held_bytes <= size
        whole(disk, size)
        assert (disk.size(RESERVE) if size else 0) == disk.used_bytes() == size
