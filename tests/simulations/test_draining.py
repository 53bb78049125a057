"""Readers that get what is left for them once a world is quiet."""

from __future__ import annotations

from crdtstream.core.values.entry_id import STRICT
from simulations.adversary import draw_world
from simulations.draining import drain
from simulations.settings import Settings


def test_a_region_whose_clients_all_wait_is_read_too() -> None:
    """As those of a second process with one region number wait for its admission."""
    world = draw_world(1, Settings(2, "mesh", STRICT, 400, (), 100, 1_000_000))
    world.run()
    world.execute_all(1, [b"XGROUP CREATE x g 0 MKSTREAM".split(), b"XADD x * f v".split()])
    machine = world.machines[1]
    machine.sync()
    world.turned(1)
    while machine.idle_client() is not None:
        world.execute(1, b"XREAD BLOCK 0 STREAMS y $".split())
    drain(world, 1, b"x", b"g")
    group = machine.node.replica.keyspace.databases[0][b"x"].groups[b"g"]
    assert group.pending.first(machine.node.replica.applied.origin) is not None
    assert machine.idle_client() is None
