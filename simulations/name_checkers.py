"""What adds under one name promise (docs/queues.md): of those that had not seen each other one stays, in all regions,
and what was acknowledged of another one is acknowledged of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from crdtstream.core import effects as fx
from crdtstream.core.values.causality import Dot, region_of
from crdtstream.core.values.entry_id import EntryId
from crdtstream.scenarios.reply import Value
from simulations.checking import Checker
from simulations.history import GroupName, id_of_text
from simulations.name_oracle import NamedDot, strangers_add, survivors
from simulations.network import Network
from simulations.queue_checkers import group_of, stream_of
from simulations.workload import READ_GROUPS


class OneForOneName(Checker):
    """What is lost to another add of its name lives nowhere, unless the others may have forgotten the name before its
    region heard of them: an operator evicted that region, a directory was put back, or a region without one served at
    once.
    """

    name = "one name"

    def at_end(self, world: Network) -> None:
        if not world.settings.has_names or strangers_add(world):
            return
        effects = world.oracle.effects(world.vector())
        ends = [row for _, _, row in effects if isinstance(row, fx.MemberEvicted) and not row.successor]
        evicted = {region_of(row.origin) for row in ends}
        expected = world.expected()
        for key, losses in sorted(survivors(world).items()):
            held = {(origin, counter) for _, origin, counter in expected[key].entries} if key in expected else set()
            for lost, survivor in losses.items():
                if lost.dot in held and not evicted.intersection(map(region_of, (lost.dot[0], survivor.dot[0]))):
                    self.fail(f"{key}: {lost.entry_id} of {lost.dot} lives beside {survivor.entry_id} of its name")


@dataclass
class NamedAcknowledgement:
    """An answered XACK of an entry that lived and was pending in its region; with the creates then."""

    number: int
    group: GroupName
    creates: dict[Dot, tuple[int, int]]
    origin: int
    entry_id: EntryId
    argv: list[bytes]


class AcknowledgedByName(Checker):
    """Once an entry was acknowledged where it was pending, no region delivers or holds the one that it is lost to.
    Where its region may have lost that, or the others may have forgotten the name, it may be delivered again.
    """

    name = "acknowledged by name"

    def __init__(self) -> None:
        self._asked: list[NamedAcknowledgement] = []
        self._kept: list[NamedAcknowledgement] = []
        # Regions that have lost something.
        self._lossy: set[int] = set()

    def started(self, world: Network, number: int, fault: str) -> None:
        if fault != "kill":
            self._lossy.add(number)

    def asked(self, world: Network, number: int, argv: list[bytes]) -> None:
        if argv[0] != b"XACK" or argv[2] not in READ_GROUPS or not world.settings.has_names:
            return
        name: GroupName = ((0, argv[1]), argv[2])
        stream, group = stream_of(world, number, name[0]), group_of(world, number, name)
        if stream is None or group is None:
            return
        creates = {dot: create.reset for dot, create in group.creates.items()}
        for entry_id in [id_of_text(word) for word in argv[3:]]:
            for origin in group.pending.origins_of(entry_id):
                if stream.holds(origin, entry_id):
                    self._asked.append(NamedAcknowledgement(number, name, creates, origin, entry_id, argv))

    def put_off(self, world: Network, number: int, argv: list[bytes]) -> None:
        self._asked = [one for one in self._asked if one.argv is not argv]

    def commanded(self, world: Network, number: int, argv: list[bytes], value: Value) -> None:
        mine = [one for one in self._asked if one.argv is argv]
        self._asked = [one for one in self._asked if one.argv is not argv]
        if isinstance(value, int) and value > 0:
            self._kept += mine

    def at_end(self, world: Network) -> None:
        if not world.settings.has_names or strangers_add(world) or world.injected["evict"]:
            return
        losses = survivors(world)
        for one in [one for one in self._kept if one.number not in self._lossy]:
            for lost, survivor in losses.get(one.group[0], {}).items():
                if (lost.dot[0], lost.entry_id) == (one.origin, one.entry_id):
                    for number in world.served():
                        self._check(world, number, one, survivor)

    def _check(self, world: Network, number: int, one: NamedAcknowledgement, survivor: NamedDot) -> None:
        stream, group = stream_of(world, number, one.group[0]), group_of(world, number, one.group)
        if stream is None or group is None or not stream.holds(survivor.dot[0], survivor.entry_id):
            return
        if not any(dot in group.creates and group.creates[dot].reset == reset for dot, reset in one.creates.items()):
            return
        origin, entry_id = survivor.dot[0], survivor.entry_id
        if group.wants(origin, entry_id) or group.pending.get(origin, entry_id) is not None:
            self.fail(f"region {number} has {entry_id} for {one.group}, acknowledged as {one.entry_id}")


class NamesSurviveRestarts(Checker):
    """A killed process knows the names that it knew, and what was acknowledged under them; it may know more, because
    what is forgotten is in no log.
    """

    name = "names"

    def __init__(self) -> None:
        self._before: dict[int, set[tuple[object, ...]]] = {}

    def stopping(self, world: Network, number: int, fault: str) -> None:
        self._before.pop(number, None)
        if fault == "kill":
            self._before[number] = known_names(world, number)

    def started(self, world: Network, number: int, fault: str) -> None:
        before = self._before.pop(number, None)
        if before is not None and fault == "kill":
            missing = before - known_names(world, number)
            if missing:
                self.fail(f"region {number} has forgotten {missing}")


def known_names(world: Network, number: int) -> set[tuple[object, ...]]:
    found: set[tuple[object, ...]] = set()
    for key, stream in world.machines[number].node.replica.keyspace.streams():
        register = None if stream.producers is None else stream.producers.register
        for name, adds in [] if register is None else register.items():
            for add in adds:
                found.add((key, name, add.dot, add.entry_id, add.at_ms))
                for group, creates in add.acknowledged.items():
                    found.update((key, name, add.dot, group, *one) for one in creates)
    return found
