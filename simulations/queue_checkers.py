"""What the properties of consumer groups promise over regions (docs/queues.md)."""

from __future__ import annotations

from dataclasses import dataclass

from crdtstream.core.effects import Key
from crdtstream.core.groups.create import NEVER_RESET
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import PropertyRegisters, merged
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import EntryId
from crdtstream.scenarios.reply import Value
from simulations.adversary import POWERLESS
from simulations.checking import Checker
from simulations.group_commands import Lay, lays_of
from simulations.history import GroupName, id_of_text
from simulations.history_checkers import may_be_lost
from simulations.network import Network
from simulations.state_checkers import held_of
from simulations.workload import READ_GROUPS

UNLIMITED = 1_000


class OneProperty(Checker):
    """Under each create lie the values that no later SET of it has seen, and each region chooses the same of them."""

    name = "properties"

    def at_end(self, world: Network) -> None:
        for key, expected in sorted(world.expected().items()):
            for number in world.machines:
                held = held_of(world, number, key).properties
                if held != expected.properties:
                    self.fail(f"region {number}, {key}: properties {held}, expected {expected.properties}")
                for name, creates in sorted(expected.groups.items()):
                    self._compare_chosen(world, number, (key, name), [expected.properties[dot] for dot in creates])

    def _compare_chosen(self, world: Network, number: int, name: GroupName, laid: list[PropertyRegisters]) -> None:
        group = group_of(world, number, name)
        wanted: PropertyRegisters = {}
        for registers in laid:
            wanted = merged(wanted, registers.items())
        if group is not None and group.properties != wanted:
            self.fail(f"region {number}, {name}: the group has {group.properties}, expected {wanted}")


@dataclass
class Acknowledgement:
    """An XACK: its region, group and lays then, and what it acknowledges there, as (origin, ID). Of that `stale` was
    delivered before a reset, and is told to nobody after it. `last` is the last dot of the region once its turn is
    over. `told` is true if the group acknowledged exactly, `limited` if so many intervals were known of one of its
    origins that it may wait.
    """

    number: int
    group: GroupName
    lays: set[Lay]
    entries: set[tuple[int, EntryId]]
    stale: set[tuple[int, EntryId]]
    argv: list[bytes]
    told: bool
    limited: bool = False
    answered: bool = False
    last: Dot = (0, 0)


class AcknowledgedExactly(Checker):
    """Where a group acknowledges exactly, an XACK counts in every region, and no region delivers afterwards what was
    acknowledged, be it before the group did so. What was told to nobody when the group was reset does not count, even
    if a concurrent create of it was not reset.
    """

    name = "exact acknowledgement"

    def __init__(self) -> None:
        self._open: dict[int, list[Acknowledgement]] = {}
        self._kept: list[Acknowledgement] = []
        # Regions that have lost something that is on no other disk.
        self._lossy: set[int] = set()
        self._policies: dict[int, str] = {}

    def asked(self, world: Network, number: int, argv: list[bytes]) -> None:
        if argv[0] != b"XACK" or argv[2] not in READ_GROUPS:
            return
        name: GroupName = ((0, argv[1]), argv[2])
        stream, group = stream_of(world, number, name[0]), group_of(world, number, name)
        if stream is None or group is None:
            return
        entries = entries_of(stream, group, [id_of_text(word) for word in argv[3:]])
        stale = {(origin, entry_id) for origin, entry_id in entries if is_stale(group, origin, entry_id)}
        asked = Acknowledgement(number, name, lays_of(group), entries, stale, argv, group.rules.exact)
        asked.limited = is_limited(world, asked)
        self._open.setdefault(number, []).append(asked)

    def put_off(self, world: Network, number: int, argv: list[bytes]) -> None:
        self._open[number] = [one for one in self._open.get(number, []) if one.argv is not argv]

    def commanded(self, world: Network, number: int, argv: list[bytes], value: Value) -> None:
        for one in self._open.get(number, []):
            if one.argv is argv:
                one.answered = isinstance(value, int) and value > 0
                wanted = len({entry_id for _, entry_id in one.entries})
                # 0 if the key has expired.
                # Of names more may count: those of entries that another one stays for.
                exact = one.told and not world.settings.has_named_entries
                if exact and isinstance(value, int) and value not in (0, wanted):
                    self.fail(f"region {number} answers {value} to {argv}, and holds {sorted(one.entries)}")

    def turned(self, world: Network, number: int) -> None:
        self._close(world, number)

    def _close(self, world: Network, number: int) -> None:
        """The turn in which these were told is over; those without a reply may still get one."""
        if number not in self._open:
            return
        waiting: list[Acknowledgement] = []
        for one in self._open.pop(number):
            if not one.last[0]:
                applied = world.machines[number].node.replica.applied
                one.last = (applied.origin, applied.counter())
                one.limited = one.limited or is_limited(world, one)
            (self._kept if one.answered else waiting).append(one)
        still = {id(asked.argv) for known in world.machines[number].unanswered.values() for asked in known}
        waiting = [one for one in waiting if id(one.argv) in still]
        if waiting:
            self._open[number] = waiting

    def stopping(self, world: Network, number: int, fault: str) -> None:
        self._policies[number] = world.machines[number].config.fsync

    def stopped(self, world: Network, number: int, fault: str) -> None:
        self._close(world, number)
        self._open.pop(number, None)

    def started(self, world: Network, number: int, fault: str) -> None:
        if fault != "kill" and not (fault in POWERLESS and self._policies.get(number) == "always"):
            self._lossy.add(number)

    def at_end(self, world: Network) -> None:
        for number in sorted(self._open):
            self._close(world, number)
        for one in self._kept:
            if self._counts(world, one):
                for number in world.served():
                    self._check(world, number, one)

    def _counts(self, world: Network, one: Acknowledgement) -> bool:
        """Return whether all regions must know of it, as far as one of its creates survives."""
        if one.limited:
            return False
        if one.told:
            return not may_be_lost(world, one.last)
        group = group_of(world, one.number, one.group)
        if group is None or any(reset != NEVER_RESET for _, reset in lays_of(group) - one.lays):
            return False
        return group.rules.exact and one.number not in self._lossy

    def _check(self, world: Network, number: int, one: Acknowledgement) -> None:
        stream, group = stream_of(world, number, one.group[0]), group_of(world, number, one.group)
        if stream is None or group is None or not one.lays & lays_of(group):
            return
        for origin, entry_id in sorted(one.entries - one.stale):
            tree = stream.trees.get(origin)
            if tree is not None and tree.counter_of(entry_id):
                again = "delivers" if group.wants(origin, entry_id) else ""
                again = "holds" if origin in group.pending.origins_of(entry_id) else again
                if again:
                    self.fail(f"region {number} {again} {(origin, entry_id)} of {one.group} again, acknowledged: {one}")


def is_stale(group: Group, origin: int, entry_id: EntryId) -> bool:
    """Return whether the entry is pending here since before a reset, and not delivered after it: it comes again if it
    lies above the start, and else stays where it is held.
    """
    creates = group.creates.values()
    below = all(create.reset != NEVER_RESET and entry_id <= create.start.get(origin) for create in creates)
    return origin in group.pending.origins_of(entry_id) and (below or group.wants(origin, entry_id))


def is_limited(world: Network, one: Acknowledgement) -> bool:
    group = group_of(world, one.number, one.group)
    intervals_max = world.machines[one.number].node.replica.exact_intervals_max
    if not one.told:
        return intervals_max < UNLIMITED
    return group is not None and any(len(group.acked.get(origin, ())) >= intervals_max for origin, _ in one.entries)


def entries_of(stream: Stream, group: Group, ids: list[EntryId]) -> set[tuple[int, EntryId]]:
    """Return what an XACK of these acknowledges here: what is pending, or in exact groups would be delivered."""
    found: set[tuple[int, EntryId]] = set()
    for entry_id in ids:
        origins = group.pending.origins_of(entry_id)
        if not origins and group.rules.exact:
            origins = [origin for origin in stream.origins_holding(entry_id) if group.wants(origin, entry_id)]
        found.update((origin, entry_id) for origin in origins)
    return found


def stream_of(world: Network, number: int, key: Key) -> Stream | None:
    return world.machines[number].node.replica.keyspace.known(key)


def group_of(world: Network, number: int, name: GroupName) -> Group | None:
    stream = stream_of(world, number, name[0])
    return None if stream is None else stream.groups.get(name[1])
