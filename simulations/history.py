"""What the clients of a run were told: the ground truth with which checkers compare the regions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from crdtstream.core.effects import Key
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.entry_id import EntryId, parse_id
from crdtstream.scenarios.reply import ReplyError, Value
from simulations.spill_clients import Transaction

GroupName = tuple[Key, bytes]

NOT_PENDING = -1
ACKNOWLEDGING = frozenset((b"XACK", b"XACKDEL"))
REMOVING = frozenset((b"XDEL", b"XDELEX", b"XACKDEL", b"XTRIM", b"DEL"))


class Violation(Exception):
    """An invariant does not hold; `checker` names it."""

    def __init__(self, checker: str, text: str) -> None:
        super().__init__(f"{checker}: {text}")
        self.checker = checker
        self.text = text


@dataclass
class Added:
    """An answered XADD: its region, and the dot that it became."""

    region: int
    key: Key
    entry_id: EntryId
    dot: Dot


@dataclass
class Created:
    """An answered XGROUP CREATE: its group, and a dot of its origin that is not above its own."""

    group: GroupName
    dot: Dot


@dataclass
class Lost:
    """A region came back with `counter` of its origin: what it had written above that is lost there."""

    origin: int
    counter: int
    fault: str
    policy: str

    @property
    def loses_unsynced(self) -> bool:
        return self.fault not in ("kill", "rot")


@dataclass
class History:
    """Replies by kind. `removals` and `deletes` hold the vectors that the remover had seen; deliveries and
    acknowledgements are kept for each create dot that the group had at the time.
    """

    added: list[Added] = field(default_factory=list)
    created: list[Created] = field(default_factory=list)
    removals: list[tuple[Key, VersionVector]] = field(default_factory=list)
    deletes: dict[Key, list[VersionVector]] = field(default_factory=dict)
    acknowledged: dict[GroupName, dict[Dot, set[EntryId]]] = field(default_factory=dict)
    delivered: dict[GroupName, dict[Dot, set[EntryId]]] = field(default_factory=dict)
    maybe_read: set[GroupName] = field(default_factory=set)
    lost: list[Lost] = field(default_factory=list)
    _together: dict[GroupName, list[set[Dot]]] = field(default_factory=dict)

    def record_command(
        self, region: int, argv: list[bytes], value: Value, dot: Dot, seen: VersionVector, creates: list[Dot]
    ) -> None:
        """Record one answered command. `seen` is the vector before it; `dot` is that of its entry, or the last of the
        region's own origin after it.
        """
        if isinstance(value, ReplyError):
            return
        if isinstance(argv, Transaction) and isinstance(value, list):
            for queued, answer in zip(argv.queued, value, strict=True):
                self.record_command(region, queued, answer, dot, seen, creates)
        name = argv[0]
        if name == b"XADD" and b"IDMP" in argv and seen.contains(*dot):
            return  # a repeat of a named add, which adds nothing
        if name == b"XADD" and isinstance(value, str):
            if b"MAXLEN" in argv:
                after = seen.copy()
                after.advance(*dot)
                self.removals.append(((0, argv[1]), after))
            self.added.append(Added(region, (0, argv[1]), entry_id_of(value), dot))
        elif argv[:2] == [b"XGROUP", b"CREATE"]:
            self.created.append(Created(((0, argv[2]), argv[3]), dot))
        elif name in REMOVING:
            self._record_removal(argv, seen)
        if name in ACKNOWLEDGING and value:
            self._record_acknowledged(((0, argv[1]), argv[2]), creates, acknowledged_ids(argv, value))
        elif name == b"XREADGROUP" and isinstance(value, list):
            self._record_read(argv, value, creates)

    def record_unanswered(self, argv: list[bytes], dot: Dot, seen: VersionVector, creates: list[Dot]) -> None:
        """Record a command that may or may not have happened."""
        for queued in argv.queued if isinstance(argv, Transaction) else ():
            self.record_unanswered(queued, dot, seen, creates)
        name = argv[0]
        if name in REMOVING or b"MAXLEN" in argv:
            after = seen.copy()
            after.advance(*dot)
            self._record_removal(argv, after)
        if name in ACKNOWLEDGING:
            self._record_acknowledged(((0, argv[1]), argv[2]), creates, named_ids(argv))
        elif b"NOACK" in argv:
            self.maybe_read.add(((0, argv[-2]), argv[2]))

    def joined_with(self, group: GroupName, creates: Iterable[Dot]) -> set[Dot]:
        """Return the creates that existed together with these, directly or through others."""
        joined = set(creates)
        for together in self._together.get(group, []):
            if joined & together:
                joined |= together
        return joined

    def record_together(self, group: GroupName, creates: list[Dot]) -> None:
        """Record that these creates exist in one group: an acknowledgement counts for all of them."""
        if len(creates) > 1 and set(creates) not in self._together.setdefault(group, []):
            self._together[group] = merged([*self._together[group], set(creates)])

    def record_loss(self, origin: int, counter: int, fault: str, policy: str) -> None:
        self.lost.append(Lost(origin, counter, fault, policy))

    def _record_removal(self, argv: list[bytes], seen: VersionVector) -> None:
        for key in argv[1:] if argv[0] == b"DEL" else argv[1:2]:
            self.removals.append(((0, key), seen))
            if argv[0] == b"DEL":
                self.deletes.setdefault((0, key), []).append(seen)

    def _record_acknowledged(self, group: GroupName, creates: list[Dot], ids: list[EntryId]) -> None:
        self.record_together(group, creates)
        for dot in creates:
            self.acknowledged.setdefault(group, {}).setdefault(dot, set()).update(ids)

    def _record_read(self, argv: list[bytes], value: list[Value], creates: list[Dot]) -> None:
        group = ((0, argv[-2]), argv[2])
        ids = ids_of(value)
        for dot in creates:
            self.delivered.setdefault(group, {}).setdefault(dot, set()).update(ids)
        if b"NOACK" in argv and argv[-1] == b">":
            self._record_acknowledged(group, creates, ids)


def merged(sets: list[set[Dot]]) -> list[set[Dot]]:
    """Merge sets that share a member."""
    left: list[set[Dot]] = []
    for fresh in sets:
        meeting = [known for known in left if known & fresh]
        left = [known for known in left if not known & fresh]
        left.append(fresh.union(*meeting))
    return left


def ids_of(value: list[Value]) -> list[EntryId]:
    """Return the IDs in a reply of XREADGROUP."""
    ids: list[EntryId] = []
    for stream in value:
        assert isinstance(stream, list)
        entries = stream[1]
        assert isinstance(entries, list)
        ids += [entry_id_of(str(entry[0])) for entry in entries if isinstance(entry, list)]
    return ids


def named_ids(argv: list[bytes]) -> list[EntryId]:
    """The IDs of an XACK, or those behind `IDS n` of an XACKDEL."""
    first = argv.index(b"IDS") + 2 if argv[0] == b"XACKDEL" else 3
    return list(map(id_of_text, argv[first:]))


def acknowledged_ids(argv: list[bytes], value: Value) -> list[EntryId]:
    """The IDs that an answered XACK or XACKDEL may have acknowledged: XACKDEL tells which were not pending."""
    ids = named_ids(argv)
    if not isinstance(value, list):
        return ids
    return [entry_id for entry_id, fate in zip(ids, value, strict=True) if fate != NOT_PENDING]


def entry_id_of(text: str) -> EntryId:
    return id_of_text(text.encode())


def id_of_text(text: bytes) -> EntryId:
    entry_id = parse_id(text, 0)
    assert entry_id is not None, text
    return entry_id
