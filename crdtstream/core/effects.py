"""Effects and local facts: what happens to streams, as immutable values.

**Effects** are replicated: prepared at their origin, applied everywhere, each named by a dot. **Local facts** concern
what only one region knows (consumers, pending entries, cursors): they are logged there and never sent.

Effects travel in a `Batch`: one origin, one contiguous range of counters, one causal context. In the context, the
component of the batch's own origin is the batch's first counter minus 1; for an effect inside the batch it is that
effect's counter minus 1. The contexts of an origin only grow, so a batch carries only what its context gained since the
origin's previous batch; the first batch carries its context in full.

A `Key` is `(database, name)`; effects on the table of members concern no key and have `NO_KEY`. Intervals of IDs are
`(from, to]`: the lower bound open, the upper closed. Ranges of counters are closed on both sides.

Reference: Shapiro et al., "Conflict-free replicated data types" (2011), operation-based: prepare at the source, effect
everywhere.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.entries.block import Block
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.entry_id import ID_MIN, EntryId
from crdtstream.core.values.intervals import Interval
from crdtstream.core.values.origin_intervals import OriginIntervals

Key = tuple[int, bytes]
CounterRange = tuple[int, int]

# The offer of a delivery that no read of the group found.
NOT_OFFERED: Final = 0
UNKNOWN_ENTRIES_READ: Final = -1
# The key of effects that concern no stream: there is no database -1.
NO_KEY: Key = (-1, b"")


class Position:
    """A cursor over all origins: an ID for each origin, and a default for origins that are not named."""

    __slots__ = ("default", "ids")

    def __init__(self, default: EntryId = ID_MIN, ids: dict[int, EntryId] | None = None) -> None:
        self.default = default
        self.ids: dict[int, EntryId] = {} if ids is None else ids

    def get(self, origin: int) -> EntryId:
        return self.ids.get(origin, self.default)

    def meet(self, other: Position) -> Position:
        """The pointwise minimum."""
        origins = sorted({*self.ids, *other.ids})
        ids = {origin: min(self.get(origin), other.get(origin)) for origin in origins}
        return Position(min(self.default, other.default), ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self.default == other.default and self.ids == other.ids

    def __hash__(self) -> int:
        return hash((self.default, tuple(sorted(self.ids.items()))))

    def __repr__(self) -> str:
        return f"Position({self.default}, {self.ids})"


class Effect:
    """A replicated fact about one key (`MemberEffect`s: about none); it uses `width` counters of its origin."""

    __slots__ = ("key", "width")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.width = 1


class EntriesAdded(Effect):
    """Entries appended to their origin's tree: block[low:high], one counter for each.

    `first` is the counter that opened the origin's count of adds to this key; `before` is the number of adds in that
    count before this effect (see core/stream.py).
    """

    __slots__ = ("before", "block", "first", "high", "low")

    def __init__(self, key: Key, first: int, before: int, block: Block, low: int, high: int) -> None:
        self.key = key
        self.first = first
        self.before = before
        self.block = block
        self.low = low
        self.high = high
        self.width = high - low

    def grow(self, count: int) -> None:
        """Add the next entries of the block, while the effect is being prepared."""
        self.high += count
        self.width += count


class AddCounted(Effect):
    """An add without an entry, which makes the copy of an empty stream exist. `first`, `before`: see `EntriesAdded`."""

    __slots__ = ("before", "first")

    def __init__(self, key: Key, first: int, before: int) -> None:
        super().__init__(key)
        self.first = first
        self.before = before


class EntriesRemoved(Effect):
    """XDEL or a trim, as the counters removed from each origin's tree; `max_deleted` is set unless the oldest entries
    were removed. In every group of every region, pending entries with IDs in `references` leave (DELREF): IDs, because
    a pending entry outlives its entry, which may have been removed before.
    """

    __slots__ = ("max_deleted", "ranges", "references", "trimmed")

    def __init__(
        self,
        key: Key,
        ranges: dict[int, list[CounterRange]],
        trimmed: bool,
        max_deleted: EntryId | None,
        references: dict[int, list[Interval]] | None = None,
    ) -> None:
        super().__init__(key)
        self.ranges = ranges
        self.trimmed = trimmed
        self.max_deleted = max_deleted
        self.references: dict[int, list[Interval]] = references or {}


class StreamDeleted(Effect):
    """DEL: removes everything its context covers, and every group; `counts` is the adds it saw: origin -> (first,
    added).
    """

    __slots__ = ("counts",)

    def __init__(self, key: Key, counts: dict[int, tuple[int, int]]) -> None:
        super().__init__(key)
        self.counts = counts


class StreamIdSet(Effect):
    """XSETID: a last ID, and if given an offset of entries-added (with the weight that orders offsets) and a
    max-deleted ID.
    """

    __slots__ = ("last_id", "max_deleted", "offset", "weight")

    def __init__(
        self, key: Key, last_id: EntryId, max_deleted: EntryId | None, offset: int | None, weight: int
    ) -> None:
        super().__init__(key)
        self.last_id = last_id
        self.max_deleted = max_deleted
        self.offset = offset
        self.weight = weight


class ExpirySet(Effect):
    """EXPIRE and PERSIST: replaces the expiries that its context covers; `expires_ms` as in core/expiry.py."""

    __slots__ = ("expires_ms",)

    def __init__(self, key: Key, expires_ms: int) -> None:
        super().__init__(key)
        self.expires_ms = expires_ms


class GroupCreated(Effect):
    """XGROUP CREATE: its dot becomes one of the group's create dots if its context covers every tombstone."""

    __slots__ = ("entries_read", "group", "start")

    def __init__(self, key: Key, group: bytes, start: Position, entries_read: int) -> None:
        super().__init__(key)
        self.group = group
        self.start = start
        self.entries_read = entries_read


class GroupDestroyed(Effect):
    """XGROUP DESTROY: a tombstone for one group."""

    __slots__ = ("group",)

    def __init__(self, key: Key, group: bytes) -> None:
        super().__init__(key)
        self.group = group


class Acknowledged(Effect):
    """Runs delivered at this effect's origin and acknowledged, under the create dots named here."""

    __slots__ = ("creates", "group", "runs")

    def __init__(self, key: Key, group: bytes, creates: list[Dot], runs: dict[int, list[Interval]]) -> None:
        super().__init__(key)
        self.group = group
        self.creates = creates
        self.runs = runs


class MemberEffect(Effect):
    """A change of the table of members (core/members.py)."""

    __slots__ = ("origin",)

    def __init__(self, origin: int) -> None:
        super().__init__(NO_KEY)
        self.origin = origin


class MemberJoined(MemberEffect):
    """This effect's origin sponsors the origin `origin`, which from now on counts for stability."""

    __slots__ = ()


class MemberAdmitted(MemberEffect):
    """This effect's origin was admitted by the Join with the dot (`origin`, `counter`), zeros for a founder. With
    `by_all` it was admitted because every counted origin holds that Join.
    """

    __slots__ = ("by_all", "counter")

    def __init__(self, origin: int, counter: int, by_all: bool) -> None:
        super().__init__(origin)
        self.counter = counter
        self.by_all = by_all


class MemberEvicted(MemberEffect):
    """The membership of origin `origin` has ended; its group creates above the counter `through` are void. `successor`
    is the new origin of the same region, or 0 if an operator evicted it.
    """

    __slots__ = ("successor", "through")

    def __init__(self, origin: int, through: int, successor: int) -> None:
        super().__init__(origin)
        self.through = through
        self.successor = successor


class Batch:
    """Effects of one origin with contiguous counters first..last, prepared under one context; `context` is what the
    context gained since the origin's previous batch.
    """

    __slots__ = ("context", "effects", "first", "last", "origin")

    def __init__(self, origin: int, first: int, last: int, context: VersionVector, effects: list[Effect]) -> None:
        self.origin = origin
        self.first = first
        self.last = last
        self.context = context
        self.effects = effects

    def check(self) -> None:
        assert self.effects, "an empty batch"
        assert self.context.get(self.origin) in (0, self.first - 1), "the context's own component is not first - 1"
        assert sum(effect.width for effect in self.effects) == self.last - self.first + 1, "widths do not add up"


class LocalFact:
    """Something that only this region knows about a group, or about a stream, with an empty name of a group."""

    __slots__ = ("group", "key")

    def __init__(self, key: Key, group: bytes) -> None:
        self.key = key
        self.group = group


class ConsumerCreated(LocalFact):
    __slots__ = ("consumer", "now_ms")

    def __init__(self, key: Key, group: bytes, consumer: bytes, now_ms: int) -> None:
        super().__init__(key, group)
        self.consumer = consumer
        self.now_ms = now_ms


class ConsumerDeleted(LocalFact):
    __slots__ = ("consumer",)

    def __init__(self, key: Key, group: bytes, consumer: bytes) -> None:
        super().__init__(key, group)
        self.consumer = consumer


class EntriesDelivered(LocalFact):
    """The live entries inside `intervals` were delivered to a consumer; with `noack` they count as acknowledged.
    `offer` is the number of the delivery if this process has just read it from the group; it is not logged.
    """

    __slots__ = ("consumer", "entries_read", "intervals", "noack", "now_ms", "offer")

    def __init__(
        self,
        key: Key,
        group: bytes,
        consumer: bytes,
        now_ms: int,
        intervals: OriginIntervals,
        noack: bool,
        entries_read: int,
        offer: int = NOT_OFFERED,
    ) -> None:
        super().__init__(key, group)
        self.consumer = consumer
        self.now_ms = now_ms
        self.offer = offer
        self.intervals = intervals
        self.noack = noack
        self.entries_read = entries_read


class PendingClaimed(LocalFact):
    """Pending entries change owner, delivery time and count; rows are (origin, ID, delivered_ms, deliveries)."""

    __slots__ = ("consumer", "rows")

    def __init__(self, key: Key, group: bytes, consumer: bytes, rows: list[tuple[int, EntryId, int, int]]) -> None:
        super().__init__(key, group)
        self.consumer = consumer
        self.rows = rows


class PendingDropped(LocalFact):
    """Pending entries inside these intervals leave: acknowledged, or found deleted by a claim."""

    __slots__ = ("intervals",)

    def __init__(self, key: Key, group: bytes, intervals: OriginIntervals) -> None:
        super().__init__(key, group)
        self.intervals = intervals


class PositionSet(LocalFact):
    """XGROUP SETID: the group's cursor is set, forwards or backwards."""

    __slots__ = ("entries_read", "position")

    def __init__(self, key: Key, group: bytes, position: Position, entries_read: int) -> None:
        super().__init__(key, group)
        self.position = position
        self.entries_read = entries_read


class PositionRaised(LocalFact):
    """XCLAIM LASTID: the group's cursor is raised, so nothing at or below the ID is delivered any more."""

    __slots__ = ("entry_id",)

    def __init__(self, key: Key, group: bytes, entry_id: EntryId) -> None:
        super().__init__(key, group)
        self.entry_id = entry_id


class PlaceSet(LocalFact):
    """A group of a copy has been read as far as that of the source: its floor, and by origin what this region
    delivered, skipped and wants again (core/groups/group.py).
    """

    __slots__ = ("delivered", "entries_read", "floor", "replay", "skipped")

    def __init__(
        self,
        key: Key,
        group: bytes,
        floor: Position,
        delivered: dict[int, list[Interval]],
        skipped: dict[int, list[Interval]],
        replay: dict[int, list[Interval]],
        entries_read: int,
    ) -> None:
        super().__init__(key, group)
        self.floor = floor
        self.delivered = delivered
        self.skipped = skipped
        self.replay = replay
        self.entries_read = entries_read


class ProducersFact(LocalFact):
    """A local fact about the idempotent adds of a stream (core/idempotence.py)."""

    __slots__ = ()

    def __init__(self, key: Key) -> None:
        super().__init__(key, b"")


class ProducerRecorded(ProducersFact):
    """A producer added an entry under an idempotent ID (`name`), or XIDMPRECORD says so; what was recorded up to
    `since_ms` has expired, and a producer has at most `entries_max` records.
    """

    __slots__ = ("entries_max", "entry_id", "name", "now_ms", "producer", "since_ms")

    def __init__(
        self,
        key: Key,
        producer: bytes,
        name: bytes,
        entry_id: EntryId,
        now_ms: int,
        since_ms: int,
        entries_max: int,
    ) -> None:
        super().__init__(key)
        self.producer = producer
        self.name = name
        self.entry_id = entry_id
        self.now_ms = now_ms
        self.since_ms = since_ms
        self.entries_max = entries_max


class ProducersConfigured(ProducersFact):
    """XCFGSET: how long and how many records are kept from now on; those that there are go. None: as configured."""

    __slots__ = ("duration_s", "entries_max")

    def __init__(self, key: Key, duration_s: int | None, entries_max: int | None) -> None:
        super().__init__(key)
        self.duration_s = duration_s
        self.entries_max = entries_max
