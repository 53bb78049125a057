"""Worlds that spill: everything waits for blocks at times, and all invariants hold."""

from __future__ import annotations

from collections import Counter

import pytest

from crdtstream.core.entries.spilled import STAGED
from crdtstream.storage.staged_blocks import StagedBlocks
from simulations.adversary import draw_world
from simulations.checkers import run_checked
from simulations.network import Network, Watcher
from simulations.world import World
from tests.core.trees import block_of, row
from tests.effort import INTERPRETED

# Blocked readers do so where a group is set back while they wait, which no seed below has.
WAITING = ("command", "transaction", "batch", "runs")
# Among the few in which each kind waits.
SEEDS = (1, 3, 8, 9, 27)


def spilling(seed: int) -> World:
    return draw_world(seed, partitioned=False, spilling=True)


def finished(seed: int) -> World:
    world = spilling(seed)
    run_checked(world)
    return world


@pytest.mark.parametrize("tens", range(0, 40, 10) if INTERPRETED else range(40, 60, 10))
def test_invariants_hold_where_blocks_are_spilled(tens: int) -> None:
    for seed in range(tens, tens + 10):
        finished(seed)


class Stages(Watcher):
    """How often a region had blocks of a state that arrived in a file, and how often it compared a state."""

    def __init__(self) -> None:
        self.staged = self.compared = 0

    def turned(self, world: Network, number: int) -> None:
        machine = world.machines[number]
        self.staged += STAGED in machine.disk.names()
        self.compared += machine.node.exchange.fetching.comparison is not None


def test_states_are_staged_on_the_disk_and_compared() -> None:
    world, stages = spilling(6), Stages()
    world.watch(stages)
    run_checked(world)
    assert min(stages.staged, stages.compared) > 3


@pytest.mark.interpreted
def test_a_cloned_region_goes_on_with_a_file_of_its_own() -> None:
    world = spilling(6)
    machine = next(iter(world.machines.values()))
    blocks = machine.node.exchange.fetching.blocks
    assert isinstance(blocks, StagedBlocks)
    rows = [[row((number + at, 1), number + at, 50) for at in range(20)] for number in (1, 100, 200)]
    first, second, third = map(block_of, rows)
    blocks.spill(first)
    clone = machine.cloned()
    own = clone.node.exchange.fetching.blocks
    assert isinstance(own, StagedBlocks)
    blocks.spill(second)
    own.spill(third)
    assert all(block.is_spilled() for block in (first, second, third))
    assert machine.disk.read(STAGED, 0, 1 << 20) != clone.disk.read(STAGED, 0, 1 << 20)
    for block in (first, second, third):
        assert block.handle is not None and block.handle.is_whole(block.handle.read())


def test_everything_waits_for_blocks_at_times() -> None:
    happened: Counter[str] = Counter()
    found = missed = 0
    for seed in SEEDS:
        world = finished(seed)
        assert world.misses is not None
        happened += sum((machine.happened for machine in world.machines.values()), Counter())
        found, missed = found + world.misses.found, missed + world.misses.missed
    assert {kind for kind in WAITING if happened[f"{kind} waits for blocks"]} == {*WAITING}, happened
    assert happened["spill"] and found and missed


def test_one_seed_gives_one_trace_where_blocks_are_spilled() -> None:
    assert finished(6).trace == finished(6).trace


def test_a_world_that_does_not_spill_is_what_its_seed_was_before_any_did() -> None:
    world = draw_world(3, spilling=False)
    assert world.misses is None and world.workload.spilling is None
    assert {machine.config.limits.hot_bytes_max for machine in world.machines.values()} == {0}
