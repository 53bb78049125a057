"""Commands about consumer groups as checkers of who delivers see them: what a region knew when one came, and which
entries its reply gives to a consumer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from crdtstream.core.effects import ResetName
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import ANY_REGION, DELIVER, ORIGIN, OWNER, PropertyRegisters, record_name
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot, VersionVector, region_of
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, STRICT, EntryId
from crdtstream.scenarios.reply import Value
from simulations.checking import Checker
from simulations.history import GroupName, entry_id_of
from simulations.network import Network
from simulations.workload import READ_GROUPS

CLAIMS = (b"XCLAIM", b"XAUTOCLAIM")
# A create, and the reset that counts under it: what deliveries and acknowledgements count for.
Lay = tuple[Dot, ResetName]
# An entry: the origin that wrote it, and its ID.
Entry = tuple[int, EntryId]


@dataclass
class Asked:
    """A command about a group, in a machine that was started so many times, and what the region knew then; `shared` are
    the IDs that several entries had, and `order` is for a checker that numbers them.
    """

    number: int
    argv: list[bytes]
    name: GroupName
    stream: Stream
    group: Group
    starts: int
    lays: set[Lay]
    registers: PropertyRegisters
    seen: VersionVector
    shared: set[EntryId]
    order: int = 0

    @property
    def is_new(self) -> bool:
        """True if it asks for new entries."""
        return self.argv[0] == b"XREADGROUP" and self.argv[-1] == b">"

    def gives(self, value: Value) -> list[Entry]:
        """The entries that this reply gives to a consumer. Of two entries with one ID one may be gone by now, or have
        been given before: it is not known which are meant.
        """
        ids = given(self.argv, value)
        found = [self._entry(entry_id) for entry_id in ids if ids.count(entry_id) == 1 and entry_id not in self.shared]
        return [entry for entry in found if entry is not None]

    def _entry(self, entry_id: EntryId) -> Entry | None:
        """The entry with this ID; None if there are several, or none."""
        origins = {tree.origin for tree in self.stream.trees.values() if tree.counter_of(entry_id)}
        origins.update(self.group.pending.origins_of(entry_id))
        return (origins.pop(), entry_id) if len(origins) == 1 else None


class WatchesGroups(Checker):
    """Looks at each command about a group that is only read and acknowledged, and at its reply."""

    def __init__(self) -> None:
        self._asked: dict[int, list[Asked]] = {}

    def asked(self, world: Network, number: int, argv: list[bytes]) -> None:
        name = group_named(argv)
        machine = world.machines[number]
        stream = None if name is None else machine.node.replica.keyspace.known(name[0])
        group = None if name is None or stream is None else stream.groups.get(name[1])
        if name is None or stream is None or group is None or name[1] not in READ_GROUPS:
            return
        seen = machine.node.replica.applied.vector.copy()
        shared = set() if world.settings.id_mode == STRICT else shared_ids(stream, group)
        asked = Asked(number, argv, name, stream, group, machine.starts, lays_of(group), group.properties, seen, shared)
        self._asked.setdefault(number, []).append(asked)
        self.about(world, asked)

    def put_off(self, world: Network, number: int, argv: list[bytes]) -> None:
        self._asked[number] = [one for one in self._asked.get(number, []) if one.argv is not argv]

    def commanded(self, world: Network, number: int, argv: list[bytes], value: Value) -> None:
        waiting = self._asked.get(number, [])
        for one in waiting:
            if one.argv is argv:
                waiting.remove(one)
                self.replied(world, one, value)
                return

    def stopped(self, world: Network, number: int, fault: str) -> None:
        self._asked.pop(number, None)

    def about(self, world: Network, asked: Asked) -> None:
        """A client sends this command now."""

    def replied(self, world: Network, asked: Asked, value: Value) -> None:
        """The client has got its reply, in the same turn unless it had to wait."""


def shared_ids(stream: Stream, group: Group) -> set[EntryId]:
    """Return the IDs that entries of several origins have, of which one may be gone and still be pending."""
    entries = {(row.origin, row.entry_id) for row in group.pending.rows(ID_MIN, ID_MAX, -1, None)}
    for tree in stream.trees.values():
        entries.update((tree.origin, one) for part in tree.slices(ID_MIN, ID_MAX, -1, False) for one in part.ids())
    counted = Counter(entry_id for _, entry_id in entries)
    return {entry_id for entry_id, count in counted.items() if count > 1}


def group_named(argv: list[bytes]) -> GroupName | None:
    """Return which group a command is about, if it is one that these checkers look at."""
    if argv[0] == b"XREADGROUP":
        return (0, argv[-2]), argv[2]
    if argv[0] in (*CLAIMS, b"XACK", b"XACKDEL"):
        return (0, argv[1]), argv[2]
    return ((0, argv[2]), argv[3]) if argv[:2] == [b"CRDT.GROUP", b"MOVE"] else None


def given(argv: list[bytes], value: Value) -> list[EntryId]:
    """Return the IDs of the entries that a reply gives to a consumer, without those that were deleted."""
    if not isinstance(value, list):
        return []
    if argv[0] == b"XREADGROUP":
        entries = [entry for stream in value if isinstance(stream, list) for entry in listed(stream[1])]
    else:
        entries = listed(value[1] if argv[0] == b"XAUTOCLAIM" else value) if argv[0] in CLAIMS else []
    return [entry_id_of(str(entry[0])) for entry in entries if isinstance(entry, list) and entry[1] is not None]


def listed(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []


def lays_of(group: Group) -> set[Lay]:
    """Return under what acknowledgements and deliveries count now."""
    return {(dot, create.reset) for dot, create in group.creates.items()}


def record_of(registers: PropertyRegisters, origin: int) -> tuple[int, int, bytes] | None:
    """Return the record that says who delivers what this origin wrote: the latest one since the mode was set."""
    mode = registers.get(DELIVER)
    since = 0 if mode is None else mode[0]
    names = (record_name(ANY_REGION), record_name(region_of(origin)))
    records = [registers[name] for name in names if name in registers and registers[name][0] >= since]
    return max(records, default=None)


def has_one_deliverer(registers: PropertyRegisters) -> bool:
    return DELIVER in registers and registers[DELIVER][2] in (ORIGIN, OWNER)


def deliverer_of(registers: PropertyRegisters, origin: int) -> int:
    """Return the region that delivers what this origin wrote; without a record it is the region of that origin."""
    record = record_of(registers, origin)
    return region_of(origin) if record is None else int(record[2])


def live_pending(stream: Stream, group: Group) -> dict[Entry, bytes]:
    """Return who holds each entry that lives and is pending."""
    rows = group.pending.rows(ID_MIN, ID_MAX, -1, None)
    return {(row.origin, row.entry_id): row.consumer for row in rows if stream.holds(row.origin, row.entry_id)}
