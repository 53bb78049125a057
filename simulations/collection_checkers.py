"""Checkers of what regions forget: only what every member has on disk, and all of that in the end."""

from __future__ import annotations

from crdtstream.core.causality import Dot
from crdtstream.core.effects import Key
from crdtstream.core.members import Members
from simulations.checking import Checker
from simulations.history import Violation
from simulations.machine import Machine
from simulations.world import World

FORGET_BOUND_MS = 20_000
WAITS_ONCE_IN_SEEDS = 8

Tombstone = tuple[Key, bytes, Dot]


class ForgetsOnlyStable(Checker):
    """A tombstone goes only when every member has it on disk, or when a later one takes its place."""

    name = "collection"

    def __init__(self) -> None:
        self._known: dict[int, set[Tombstone]] = {}

    def started(self, world: World, number: int, fault: str) -> None:
        self._known.pop(number, None)

    def turned(self, world: World, number: int) -> None:
        machine = world.machines[number]
        before = self._known.get(number)
        if before == set() and not machine.logged:
            return  # only what is applied leaves a tombstone
        known = tombstones(machine)
        if before and not machine.logged:
            for key, group, dot in sorted(before - known):
                lacking = [other for other in world.machines if other != number and lacks(world, number, other, dot)]
                if lacking:
                    self.fail(f"region {number}, {key} {group!r}: forgets {dot}, which regions {lacking} may lose")
        self._known[number] = known


class ForgetsInTheEnd(Checker):
    """Where all are up and nothing happens any more, no tombstone stays; looked at in some worlds, because it takes
    virtual time.
    """

    name = "bounded memory"

    def at_end(self, world: World) -> None:
        if world.seed % WAITS_ONCE_IN_SEEDS:
            return
        try:
            world.run_until(lambda: world.quiet() and not any_tombstone(world), world.now_ms + FORGET_BOUND_MS)
        except Violation:
            left = {number: sorted(tombstones(machine)) for number, machine in world.machines.items()}
            self.fail(f"{FORGET_BOUND_MS} ms after everything was quiet these are left: {left}")


def any_tombstone(world: World) -> bool:
    return any(map(tombstones, world.machines.values()))


def tombstones(machine: Machine) -> set[Tombstone]:
    """Of DELs, with an empty name, and of destroys."""
    found: set[Tombstone] = set()
    for name, stream in machine.node.replica.databases[0].items():
        found.update(((0, name), b"", dot) for dot in stream.deleted.items())
        for group, destroyed in stream.destroyed.items():
            found.update(((0, name), group, dot) for dot in destroyed.items())
    return found


def lacks(world: World, number: int, other: int, dot: Dot) -> bool:
    """The other region counts and has not got it on its disk; one that lost its disk had it once, and is admitted anew.
    Whoever is no member yet for this region must have applied it before it serves and creates groups.
    """
    machine = world.machines[other]
    if other in world.nemesis.disks_lost or not machine.node.birth.serving() or machine.node.membership.applies():
        return False
    replica, members = machine.node.replica, world.machines[number].node.replica.members
    held = machine.node.exchange.durable_vector if members.is_joined(replica.slot) else replica.vector
    return not held.contains(*dot) and not is_void(replica.slot, members, replica.members)


def is_void(slot: int, members: Members, known: Members) -> bool:
    """By an eviction that one of both knows of, the origin has ended, or the Join that it follows is worthless: what it
    creates is nothing.
    """
    both = Members.of_rows(members.rows())
    both.join(known)
    return both.is_evicted(slot)
