"""What readers do once a world is quiet: get everything that is left for them."""

from __future__ import annotations

from crdtstream.core.groups.group import Group
from crdtstream.core.values.causality import region_of
from simulations.network import ASKER, Network

READER = b"a"
CLIENT = ASKER + 1
CLAIMED_MAX = b"100000"


def drain(world: Network, number: int, key: bytes, name: bytes) -> None:
    """Let a consumer of this region get all that the region delivers; in order, it first takes over what is pending."""
    machine = world.machines[number]
    stream = machine.node.replica.keyspace.find((0, key))
    if stream is None or name not in stream.groups:
        return
    machine.look_for_room()  # space may have been freed since its last turn
    if stream.groups[name].rules.ordered:
        ask(world, number, [b"XAUTOCLAIM", key, name, READER, b"0", b"0", b"COUNT", CLAIMED_MAX])
    ask(world, number, [b"XREADGROUP", b"GROUP", name, READER, b"STREAMS", key, b">"])
    machine.sync()
    world.turned(number)


def ask(world: Network, number: int, argv: list[bytes]) -> None:
    """Run a command of a client that sends nothing else: those of a second process with one region number may wait
    for an admission for ever.
    """
    machine = world.machines[number]
    if CLIENT not in machine.node.context.clients:
        machine.connect(CLIENT, world.clock_ms(number))
    world.command(number, CLIENT, argv)
    world.turn(number)


def delivers(group: Group, origin: int, region: int) -> bool:
    """True if the records of a group let this region deliver what that origin wrote."""
    return group.rules.is_everywhere or group.rules.deliverer(region_of(origin)) == region


def all_heard(world: Network) -> bool:
    """True once no region waits for another one before it delivers."""
    nodes = [world.machines[number].node for number in world.served()]
    return not any(
        node.delivering.awaited(group)
        for node in nodes
        for _, stream in node.replica.keyspace.streams()
        for group in stream.groups.values()
        if not group.rules.is_everywhere
    )
