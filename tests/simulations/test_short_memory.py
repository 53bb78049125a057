"""Memory that fills in a world: batches wait, what the region has goes out, and all agree in the end."""

from __future__ import annotations

from random import Random

import pytest

from crdtstream.core.values.entry_id import STRICT
from simulations.adversary import Adversary
from simulations.checkers import run_checked
from simulations.history import Violation
from simulations.settings import MEMORY, Settings
from simulations.short_memory import ShortMemory
from simulations.world import World

SHORT = Settings(3, "line", STRICT, 4_000, ("slow",), 1_000_000, 40)


def world_of(seed: int) -> World:
    world = World(seed, Adversary, SHORT)
    world.memory = ShortMemory(world, Random(seed))
    return world


@pytest.mark.parametrize("seed", range(4))
def test_regions_without_memory_wait_and_agree_in_the_end(seed: int) -> None:
    world = world_of(seed)
    waited: set[int] = set()

    def look() -> None:
        waited.update(n for n, one in world.machines.items() if one.node.exchange.arrivals.holding.lacking)
        world.plan(50, look)

    world.plan(1, look)
    run_checked(world)
    assert world.injected[MEMORY] > 1 and waited
    assert all(machine.memory_bytes_max is None for machine in world.machines.values())


def test_a_region_is_left_without_memory_until_the_others_have_all_of_it() -> None:
    world = world_of(1)
    run_checked(world)
    memory = world.memory
    assert isinstance(memory, ShortMemory)
    memory.keep_short()
    number = next(number for number, one in world.machines.items() if one.memory_bytes_max is not None)
    assert memory.has_gone_out()
    world.machines[number].memory_bytes_max = None
    world.machines[number].look_for_room()
    world.act(number, lambda: world.execute(number, [b"XADD", b"x", b"*", b"f", b"v"]))
    world.machines[number].memory_bytes_max = -1
    assert not memory.has_gone_out()
    with pytest.raises(Violation):
        world.run_until(memory.has_gone_out, world.now_ms)
    world.run_until(memory.has_gone_out, world.now_ms + 10_000)
    memory.restore()
    assert memory.has_gone_out()
