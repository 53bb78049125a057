"""Conflicts: what met here without having seen each other, where a user may wonder about the outcome.

The outcome is the same in all regions and follows from the effects alone; this is only a record of it. It is local and
in memory, it is neither replicated nor in any digest, and it ends with the process: what a start replays is dropped.

    kind                    `effect`                 `other`
    adds-survived-delete    a DEL                    the last add that it had not seen and that stays
    group-creation-lost     a DEL or DESTROY         a creation that it had not seen: the delete wins
    group-created-twice     the creation applied     one that neither saw: one group, which begins at the lower start
    group-creation-void     -                        a creation of an origin that had ended
    concurrent-setid        the XSETID applied       one that neither saw: the higher last ID counts
    concurrent-expire       the EXPIRE applied       one that neither saw: the longer one counts
    name-added-twice        the add that stays       a concurrent one under its name, removed: core/names/
    gap                     -                        - (a whole state was taken: what met in it is not known)

An effect is looked at before it is applied. Nothing is looked for in what this region prepares, since that has seen all
that is here, nor in adds, unless the key has the tombstone of a DEL; so adds cost nothing.

Invariant: the ring has at most `entries_max` conflicts, in the order of their numbers. One that happens again (more
adds of that origin beside the same DEL, or the same two origins' expiries) is counted and numbered again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from crdtstream.core import effects as fx
from crdtstream.core.effects import NO_KEY, Effect, Key
from crdtstream.core.groups.group import Group
from crdtstream.core.keyspace import Keyspace
from crdtstream.core.streams.expiry import VOID_EXPIRY
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot, VersionVector

ADDS_SURVIVED: Final = "adds-survived-delete"
CREATION_LOST: Final = "group-creation-lost"
CREATED_TWICE: Final = "group-created-twice"
CREATION_VOID: Final = "group-creation-void"
IDS_SET: Final = "concurrent-setid"
EXPIRIES_SET: Final = "concurrent-expire"
ADDED_TWICE: Final = "name-added-twice"
GAP: Final = "gap"
KINDS: Final = (ADDS_SURVIVED, CREATION_LOST, CREATED_TWICE, CREATION_VOID, IDS_SET, EXPIRIES_SET, ADDED_TWICE, GAP)
NO_DOT: Final[Dot] = (0, 0)
ENTRIES_MAX: Final = 1_000

# Kind, key, group, the effect and the other's origin; what has the same is one conflict.
Identity = tuple[str, Key, bytes, Dot, int]


class Conflict:
    """One row of the ring; `time_ms` is when it was seen here, `count` how many adds or how often."""

    __slots__ = ("count", "effect", "group", "key", "kind", "number", "other", "time_ms")

    def __init__(self, kind: str, key: Key, group: bytes) -> None:
        self.kind = kind
        self.key = key
        self.group = group
        self.count = 0
        self.number = 0
        self.time_ms = 0
        self.effect = NO_DOT
        self.other = NO_DOT


class Conflicts:
    """The last conflicts that this region saw, and how many there were of each kind. `last` is the number of the newest
    one, `dropped` the highest number that is no longer kept.
    """

    __slots__ = ("_entries_max", "_keyspace", "_ring", "counts", "dropped", "last")

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._entries_max = ENTRIES_MAX
        self._ring: OrderedDict[Identity, Conflict] = OrderedDict()
        self.counts = dict.fromkeys(KINDS, 0)
        self.last = self.dropped = 0

    def limit(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._shrink()

    def clear(self) -> None:
        self._ring.clear()
        self.counts = dict.fromkeys(KINDS, 0)
        self.last = self.dropped = 0

    def since(self, key: Key, number: int) -> list[Conflict]:
        """Those of this key above the number, and the gaps."""
        return [one for one in self._ring.values() if one.number > number and one.key in (key, NO_KEY)]

    def record(self, kind: str, key: Key, effect: Dot, other: Dot, group: bytes = b"", count: int = 1) -> None:
        identity = (kind, key, group, NO_DOT if kind == EXPIRIES_SET else effect, other[0])
        conflict = self._ring.pop(identity, None)
        if conflict is None:
            self.counts[kind] += 1
            conflict = Conflict(kind, key, group)
        self.last += 1
        conflict.number, conflict.time_ms = self.last, self._keyspace.now_ms
        conflict.effect, conflict.other = effect, other
        conflict.count += count
        self._ring[identity] = conflict
        self._shrink()

    def record_gap(self) -> None:
        """A whole state was taken from another region."""
        self.record(GAP, NO_KEY, (0, self.last + 1), NO_DOT)

    def look(self, stream: Stream, dot: Dot, context: VersionVector, effect: Effect) -> None:
        """Compare an effect of another origin with what it has not seen here."""
        rule = CONFLICT_RULES.get(type(effect))
        if rule is not None:
            rule(Meeting(self, stream, dot, context), effect)

    def look_at_adds(self, key: Key, stream: Stream, last: Dot, count: int, context: VersionVector) -> None:
        """Compare adds with the DELs of their key; `last` is the last of them."""
        for origin, counter in sorted(stream.deleted.items()):
            if not context.contains(origin, counter):
                self.record(ADDS_SURVIVED, key, (origin, counter), last, count=count)

    def _shrink(self) -> None:
        while len(self._ring) > self._entries_max:
            self.dropped = self._ring.popitem(last=False)[1].number

    def check(self) -> None:
        numbers = [one.number for one in self._ring.values()]
        assert numbers == sorted(numbers) and max(numbers, default=0) <= self.last, "conflicts are out of order"
        assert len(numbers) <= max(self._entries_max, 0), "more conflicts than are kept"


class Meeting:
    """An effect that is about to be applied to a stream: its dot, and what its origin had seen."""

    __slots__ = ("_conflicts", "context", "dot", "stream")

    def __init__(self, conflicts: Conflicts, stream: Stream, dot: Dot, context: VersionVector) -> None:
        self._conflicts = conflicts
        self.stream = stream
        self.dot = dot
        self.context = context

    def saw(self, dot: Dot) -> bool:
        return self.context.contains(dot[0], dot[1])

    def record(self, kind: str, key: Key, effect: Dot, other: Dot, group: bytes = b"", count: int = 1) -> None:
        self._conflicts.record(kind, key, effect, other, group, count)

    def record_lost(self, key: Key, name: bytes, group: Group) -> None:
        """Record the creations of a group that this effect removes unseen."""
        for create in sorted(group.creates):
            if not self.saw(create):
                self.record(CREATION_LOST, key, self.dot, create, name)


def _look_at_deleted(meeting: Meeting, effect: fx.StreamDeleted) -> None:
    for origin, tree in sorted(meeting.stream.trees.items()):
        left = tree.count - tree.count_through(meeting.context.get(origin))
        if left:
            meeting.record(ADDS_SURVIVED, effect.key, meeting.dot, (origin, tree.last_counter()), count=left)
    for name, group in sorted(meeting.stream.groups.items()):
        meeting.record_lost(effect.key, name, group)


def _look_at_destroyed(meeting: Meeting, effect: fx.GroupDestroyed) -> None:
    group = meeting.stream.groups.get(effect.group)
    if group is not None:
        meeting.record_lost(effect.key, effect.group, group)


def _look_at_created(meeting: Meeting, effect: fx.GroupCreated) -> None:
    stream, name = meeting.stream, effect.group
    for tombstones in (stream.deleted, stream.destroyed.get(name, {})):
        for tombstone in sorted(tombstones.items()):
            if not meeting.saw(tombstone):
                meeting.record(CREATION_LOST, effect.key, tombstone, meeting.dot, name)
                return
    known = stream.groups.get(name)
    for create in [] if known is None else sorted(known.creates):
        if not meeting.saw(create):
            meeting.record(CREATED_TWICE, effect.key, meeting.dot, create, name)


def _look_at_id_set(meeting: Meeting, effect: fx.StreamIdSet) -> None:
    for origin, meta in sorted(meeting.stream.metas.items()):
        if not meeting.saw((origin, meta.set_counter)):
            meeting.record(IDS_SET, effect.key, meeting.dot, (origin, meta.set_counter))


def _look_at_expiry_set(meeting: Meeting, effect: fx.ExpirySet) -> None:
    for _, origin, counter in [] if effect.expires_ms == VOID_EXPIRY else meeting.stream.expiries():
        if not meeting.saw((origin, counter)):
            meeting.record(EXPIRIES_SET, effect.key, meeting.dot, (origin, counter))


CONFLICT_RULES: Final[dict[type[Effect], Callable[[Meeting, Any], None]]] = {
    fx.StreamDeleted: _look_at_deleted,
    fx.GroupDestroyed: _look_at_destroyed,
    fx.GroupCreated: _look_at_created,
    fx.StreamIdSet: _look_at_id_set,
    fx.ExpirySet: _look_at_expiry_set,
}
