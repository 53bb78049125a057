"""Checkers of forgetting: regions forget only what every member has on disk, and finally all of it."""

from __future__ import annotations

from crdtstream.core.effects import Key
from crdtstream.core.members import Members
from crdtstream.core.values.causality import Dot, VersionVector
from simulations.checking import Checker
from simulations.history import Violation
from simulations.machine import Machine
from simulations.network import Network

FORGET_BOUND_MS = 20_000
WAITS_ONCE_IN_SEEDS = 8

Tombstone = tuple[Key, bytes, Dot]


class ForgetsOnlyStable(Checker):
    """A tombstone may only be forgotten when every member has it on disk, or when a later one replaces it."""

    name = "collection"

    def __init__(self) -> None:
        self._known: dict[int, set[Tombstone]] = {}

    def started(self, world: Network, number: int, fault: str) -> None:
        self._known.pop(number, None)

    def turned(self, world: Network, number: int) -> None:
        machine = world.machines[number]
        before = self._known.get(number)
        if before == set() and not machine.logged:
            return  # only applied effects can create a tombstone
        known = tombstones(machine)
        if before and not machine.logged:
            for key, group, dot in sorted(before - known):
                lacking = [other for other in world.machines if other != number and lacks(world, number, other, dot)]
                if lacking:
                    self.fail(f"region {number}, {key} {group!r}: forgets {dot}, which regions {lacking} may lose")
        self._known[number] = known


class ForgetsInTheEnd(Checker):
    """When all regions are up and nothing happens any more, tombstones and the contexts of ended origins are forgotten.
    Checked only in some worlds, because it takes virtual time.
    """

    name = "bounded memory"

    def at_end(self, world: Network) -> None:
        if world.seed % WAITS_ONCE_IN_SEEDS:
            return
        try:
            world.run_until(lambda: world.quiet() and not any_left(world), world.now_ms + FORGET_BOUND_MS)
        except Violation:
            left = {number: left_in(machine) for number, machine in world.machines.items()}
            self.fail(f"{FORGET_BOUND_MS} ms after everything was quiet these are left: {left}")


def any_left(world: Network) -> bool:
    """Return whether a region that may forget still has something to forget."""
    return any(left_in(machine) for machine in world.machines.values() if machine.node.membership.admitted)


def left_in(machine: Machine) -> list[Tombstone | int]:
    """Return the tombstones, and the ended origins whose contexts are kept."""
    replica = machine.node.replica
    return [*sorted(tombstones(machine)), *filter(replica.applied.members.is_evicted, sorted(replica.applied.contexts))]


def tombstones(machine: Machine) -> set[Tombstone]:
    """Return the tombstones of DELs, with an empty group name, and those of destroys."""
    found: set[Tombstone] = set()
    for name, stream in machine.node.replica.keyspace.databases[0].items():
        found.update(((0, name), b"", dot) for dot in stream.deleted.items())
        for group, destroyed in stream.destroyed.items():
            found.update(((0, name), group, dot) for dot in destroyed.items())
    return found


def lacks(world: Network, number: int, other: int, dot: Dot) -> bool:
    """Return whether the other region counts as a member and does not have the dot on its disk. A region that lost its
    disk had it once, and must be admitted again. An origin that is no member yet here must apply it before it creates
    groups.
    """
    machine = world.machines[other]
    if other in world.disks_lost or not machine.node.membership.admitted:
        return False
    applied, members = machine.node.replica.applied, world.machines[number].node.replica.applied.members
    held = machine.node.exchange.view.durable_vector if members.is_joined(applied.origin) else applied.vector
    is_founder = applied.origin in machine.node.birth.founders
    return not held.contains(*dot) and not is_void(applied.origin, is_founder, members, applied.members)


def is_void(origin: int, is_founder: bool, members: Members, known: Members) -> bool:
    """Return whether the origin counts for nothing, by an eviction that either region knows: it has ended, or the Join
    that would admit it is void. If it has not recorded its admission yet, no Join that could admit it may count.
    """
    both = Members.of_rows(members.rows())
    both.join(known, VersionVector(), VersionVector())
    unsaid = not is_founder and not both.is_admitted(origin)
    return both.has_ended(origin) or (unsaid and both.sponsor_of(origin) is None)
