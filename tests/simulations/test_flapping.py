"""Links that are lost after a few messages still bring entries of many messages."""

from __future__ import annotations

from random import Random

from crdtstream.core.values.entry_id import STRICT
from simulations.adversary import Adversary
from simulations.checkers import run_checked
from simulations.flapping import FLAP, Flapping
from simulations.settings import Settings
from simulations.world import World

FLAPS = Settings(2, "mesh", STRICT, 12_000, ("slow",), 1_000_000, 1_000_000)


def test_a_large_entry_arrives_over_links_that_flap() -> None:
    world = World(1, Adversary, FLAPS)
    world.watch(Flapping(world, Random(1)))
    size = 40 * world.machines[1].config.limits.message_bytes
    world.plan(1_000, world.act, 1, lambda: world.execute(1, [b"XADD", b"x", b"*", b"f", bytes(size)]))
    applied = world.machines[2].node.replica.applied

    def look() -> None:
        if not world.adversary.healing:
            assert applied.vector.total() == world.vector().total() > 0

    world.plan(FLAPS.duration_ms - 1, look)
    run_checked(world)
    assert world.injected[FLAP] > 10
