"""What happens to streams, as immutable facts.

Two kinds. **Effects** are replicated: prepared at their origin, applied everywhere, each named by a dot. **Local
facts** concern what one region alone knows (consumers, pending entries, cursors): they are logged here and never leave.

Effects travel in a `Batch`: one origin, one contiguous counter range, one causal context. The context's own part is the
batch's first counter minus 1; for an effect inside the batch it is that effect's counter minus 1.

A `Key` is `(database, name)`; effects on the table of members concern no key and have `NO_KEY`. Intervals of IDs are
`(from, to]`: the lower bound open, the upper closed. Ranges of counters are closed on both sides.

Reference: Shapiro et al., "Conflict-free replicated data types" (2011), operation-based: prepare at the source, effect
everywhere.
"""

from __future__ import annotations

from crdtstream.core.block import Block
from crdtstream.core.causality import Dot, VersionVector
from crdtstream.core.entry_id import ID_MIN, EntryId

Key = tuple[int, bytes]
Interval = tuple[EntryId, EntryId]
CounterRange = tuple[int, int]

UNKNOWN_ENTRIES_READ = -1
# No stream has it: there is no such database.
NO_KEY: Key = (-1, b"")


class Position:
    """An ID for each origin, and a default for origins that are not named."""

    __slots__ = ("default", "ids")

    def __init__(self, default: EntryId = ID_MIN, ids: dict[int, EntryId] | None = None) -> None:
        self.default = default
        self.ids: dict[int, EntryId] = {} if ids is None else ids

    def get(self, slot: int) -> EntryId:
        return self.ids.get(slot, self.default)

    def meet(self, other: Position) -> Position:
        """The pointwise minimum."""
        slots = sorted({*self.ids, *other.ids})
        ids = {slot: min(self.get(slot), other.get(slot)) for slot in slots}
        return Position(min(self.default, other.default), ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self.default == other.default and self.ids == other.ids

    def __hash__(self) -> int:
        return hash((self.default, tuple(sorted(self.ids.items()))))

    def __repr__(self) -> str:
        return f"Position({self.default}, {self.ids})"


class Effect:
    """A replicated fact, of one key but for `MemberEffect`s; it takes `width` counters of its origin."""

    __slots__ = ("key",)

    def __init__(self, key: Key) -> None:
        self.key = key

    def width(self) -> int:
        return 1


class EntriesAdded(Effect):
    """Entries appended to their origin's tree: block[low:high], one counter for each.

    `first` is the counter that opened the origin's count of adds to this key, `before` how many adds that count had
    before this effect (see core/stream.py).
    """

    __slots__ = ("before", "block", "first", "high", "low")

    def __init__(self, key: Key, first: int, before: int, block: Block, low: int, high: int) -> None:
        super().__init__(key)
        self.first = first
        self.before = before
        self.block = block
        self.low = low
        self.high = high

    def width(self) -> int:
        return self.high - self.low


class AddCounted(Effect):
    """An add without an entry: so the copy of an empty stream exists. `first` and `before` as in `EntriesAdded`."""

    __slots__ = ("before", "first")

    def __init__(self, key: Key, first: int, before: int) -> None:
        super().__init__(key)
        self.first = first
        self.before = before


class EntriesRemoved(Effect):
    """XDEL or a trim: the result, as counters of each origin; `max_deleted` is set by XDEL only."""

    __slots__ = ("max_deleted", "ranges", "trimmed")

    def __init__(
        self, key: Key, ranges: dict[int, list[CounterRange]], trimmed: bool, max_deleted: EntryId | None
    ) -> None:
        super().__init__(key)
        self.ranges = ranges
        self.trimmed = trimmed
        self.max_deleted = max_deleted


class StreamDeleted(Effect):
    """DEL: removes all that its context covers, and every group; `counts`: the adds it saw, slot -> (first, added)."""

    __slots__ = ("counts",)

    def __init__(self, key: Key, counts: dict[int, tuple[int, int]]) -> None:
        super().__init__(key)
        self.counts = counts


class StreamIdSet(Effect):
    """XSETID: a last ID, and, where given, an offset of entries-added (with the weight that orders offsets) and a max-
    deleted ID.
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
    """Runs that were delivered at the origin and acknowledged; made under, and stored under, the create dots named."""

    __slots__ = ("creates", "group", "runs")

    def __init__(self, key: Key, group: bytes, creates: list[Dot], runs: dict[int, list[Interval]]) -> None:
        super().__init__(key)
        self.group = group
        self.creates = creates
        self.runs = runs


class MemberEffect(Effect):
    """A change of the table of members (core/members.py)."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        super().__init__(NO_KEY)
        self.slot = slot


class MemberJoined(MemberEffect):
    """This effect's origin is sponsor of the origin named: it counts for stability from now on."""

    __slots__ = ()


class MemberAdmitted(MemberEffect):
    """This effect's origin follows a Join of itself: that of the sponsor named, with this counter."""

    __slots__ = ("counter",)

    def __init__(self, slot: int, counter: int) -> None:
        super().__init__(slot)
        self.counter = counter


class MemberEvicted(MemberEffect):
    """The origin named no longer counts; its creates of groups above the counter `through` are void."""

    __slots__ = ("through",)

    def __init__(self, slot: int, through: int) -> None:
        super().__init__(slot)
        self.through = through


class Batch:
    """Effects of one origin with contiguous counters first..last, prepared under one context."""

    __slots__ = ("context", "effects", "first", "last", "slot")

    def __init__(self, slot: int, first: int, last: int, context: VersionVector, effects: list[Effect]) -> None:
        self.slot = slot
        self.first = first
        self.last = last
        self.context = context
        self.effects = effects

    def check(self) -> None:
        assert self.effects, "an empty batch"
        assert self.context.get(self.slot) == self.first - 1, "the context's own part is not first - 1"
        assert sum(effect.width() for effect in self.effects) == self.last - self.first + 1, "widths do not add up"


class LocalFact:
    """Something that only this region knows about a group."""

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
    """The live entries inside `intervals` (slot -> (from, to] pieces) went to a consumer; with `noack` they count as
    acknowledged.
    """

    __slots__ = ("consumer", "entries_read", "intervals", "noack", "now_ms")

    def __init__(
        self,
        key: Key,
        group: bytes,
        consumer: bytes,
        now_ms: int,
        intervals: dict[int, list[Interval]],
        noack: bool,
        entries_read: int,
    ) -> None:
        super().__init__(key, group)
        self.consumer = consumer
        self.now_ms = now_ms
        self.intervals = intervals
        self.noack = noack
        self.entries_read = entries_read


class PendingClaimed(LocalFact):
    """Pending entries get an owner, a delivery time and a delivery count: rows are (slot, ID, delivered_ms,
    deliveries).
    """

    __slots__ = ("consumer", "rows")

    def __init__(self, key: Key, group: bytes, consumer: bytes, rows: list[tuple[int, EntryId, int, int]]) -> None:
        super().__init__(key, group)
        self.consumer = consumer
        self.rows = rows


class PendingDropped(LocalFact):
    """Pending entries leave: acknowledged, or found deleted by a claim; slot -> (from, to] pieces of the pending."""

    __slots__ = ("intervals",)

    def __init__(self, key: Key, group: bytes, intervals: dict[int, list[Interval]]) -> None:
        super().__init__(key, group)
        self.intervals = intervals


class PositionSet(LocalFact):
    """XGROUP SETID."""

    __slots__ = ("entries_read", "position")

    def __init__(self, key: Key, group: bytes, position: Position, entries_read: int) -> None:
        super().__init__(key, group)
        self.position = position
        self.entries_read = entries_read


class PositionRaised(LocalFact):
    """XCLAIM LASTID: nothing at or below the ID is delivered any more."""

    __slots__ = ("entry_id",)

    def __init__(self, key: Key, group: bytes, entry_id: EntryId) -> None:
        super().__init__(key, group)
        self.entry_id = entry_id
