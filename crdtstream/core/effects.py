"""Effects: what happens to streams and is replicated, as immutable values.

They are prepared at their origin, applied everywhere, and each is named by a dot. What only one region knows is in
local_facts.py.

Effects travel in a `Batch`: one origin, one contiguous range of counters, one causal context. In the context, the
component of the batch's own origin is the batch's first counter minus 1; for an effect inside the batch it is that
effect's counter minus 1. The contexts of an origin only grow, so a batch carries only what its context gained since the
origin's previous batch; the first batch carries its context in full.

What follows from an effect alone is a method here. What another module does for each class is one table there, with a
row for each: the rules that apply effects (core/applying.py), their rows on the wire (protocols/effect_rows.py), and
their keyspace events (connections/notifications.py). `tests/core/test_effects.py` refuses a table that lacks a class.

A `Key` is `(database, name)`; effects on the table of members concern no key and have `NO_KEY`. Intervals of IDs are
`(from, to]`: the lower bound open, the upper closed. Ranges of counters are closed on both sides.

Reference: Shapiro et al., "Conflict-free replicated data types" (2011), operation-based: prepare at the source, effect
everywhere.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.entries.block import Block
from crdtstream.core.sizes import (
    COUNT_BYTES,
    EFFECT_BYTES,
    ENTRY_BYTES,
    INTERVAL_BYTES,
    ORIGIN_BYTES,
    RANGE_BYTES,
    START_BYTES,
    values_bytes,
)
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.entry_id import ID_MIN, EntryId
from crdtstream.core.values.intervals import Interval

Key = tuple[int, bytes]
CounterRange = tuple[int, int]
# The number of a reset, and the origin that made it.
ResetName = tuple[int, int]

UNKNOWN_ENTRIES_READ: Final = -1
# The key of effects that concern no stream: there is no database -1.
NO_KEY: Key = (-1, b"")

# What an effect demands of a region that is short of room, in ascending order: it changes members and nothing else, it
# makes data less, or it does little of neither, as acknowledgements do, which are many and free nothing on the disk.
# Any other brings data.
MEMBERS: Final = 0
REMOVALS: Final = 1
SMALL: Final = 2
DATA: Final = 3


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

    def bytes_max(self) -> int:
        """Return an upper bound of the bytes that the effect takes in a batch (core/sizes.py)."""
        return EFFECT_BYTES + len(self.key[1])

    def named_dots(self) -> list[Dot]:
        """Return the dots that the effect names: of a range or a count its last one."""
        return []

    def demand(self) -> int:
        """Return `MEMBERS`, `REMOVALS`, `SMALL` or `DATA`."""
        return DATA

    def creates_key(self) -> bool:
        """Return whether the effect makes its key exist."""
        return False


class EntriesAdded(Effect):
    """Entries appended to their origin's tree: block[low:high], one counter for each.

    `first` is the counter that opened the origin's count of adds to this key; `before` is the number of adds in that
    count before this effect (see core/streams/stream.py).
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

    def bytes_max(self) -> int:
        return super().bytes_max() + ENTRY_BYTES * self.width + self.block.byte_size(self.low, self.high)

    def creates_key(self) -> bool:
        return True


class AddCounted(Effect):
    """An add without an entry, which makes the copy of an empty stream exist. `first`, `before`: see `EntriesAdded`."""

    __slots__ = ("before", "first")

    def __init__(self, key: Key, first: int, before: int) -> None:
        super().__init__(key)
        self.first = first
        self.before = before

    def creates_key(self) -> bool:
        return True


class EntryNamed(Effect):
    """The add right before it, of one entry, was made by a producer under a name (core/names/register.py). `lag_ms` is
    how far the clock of its region was behind the entry's ID. An empty producer is the store itself.
    """

    __slots__ = ("lag_ms", "name", "producer")

    def __init__(self, key: Key, producer: bytes, name: bytes, lag_ms: int) -> None:
        super().__init__(key)
        self.producer = producer
        self.name = name
        self.lag_ms = lag_ms

    def bytes_max(self) -> int:
        return super().bytes_max() + len(self.producer) + len(self.name)


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

    def bytes_max(self) -> int:
        size = sum([ORIGIN_BYTES + RANGE_BYTES * len(ranges) for ranges in self.ranges.values()])
        return super().bytes_max() + size + _intervals_bytes(self.references)

    def named_dots(self) -> list[Dot]:
        return [(origin, high) for origin, ranges in self.ranges.items() for _, high in ranges]

    def demand(self) -> int:
        return REMOVALS


class StreamDeleted(Effect):
    """DEL: removes everything its context covers, and every group; `counts` is the adds it saw: origin -> (first,
    added).
    """

    __slots__ = ("counts",)

    def __init__(self, key: Key, counts: dict[int, tuple[int, int]]) -> None:
        super().__init__(key)
        self.counts = counts

    def bytes_max(self) -> int:
        return super().bytes_max() + COUNT_BYTES * len(self.counts)

    def named_dots(self) -> list[Dot]:
        return [(origin, last_of_count(first, added)) for origin, (first, added) in self.counts.items()]

    def demand(self) -> int:
        return REMOVALS


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
    """EXPIRE and PERSIST: replaces the expiries that its context covers; `expires_ms` as in core/streams/expiry.py."""

    __slots__ = ("expires_ms",)

    def __init__(self, key: Key, expires_ms: int) -> None:
        super().__init__(key)
        self.expires_ms = expires_ms

    def demand(self) -> int:
        return SMALL


class StreamPropertiesSet(Effect):
    """Properties of a stream: replaces those of the same names that its context covers (core/streams/properties.py);
    `number` is above those of all that its origin saw. A value that is empty only replaces.
    """

    __slots__ = ("number", "values")

    def __init__(self, key: Key, number: int, values: dict[bytes, bytes]) -> None:
        super().__init__(key)
        self.number = number
        self.values = values

    def bytes_max(self) -> int:
        return super().bytes_max() + values_bytes(self.values)

    def demand(self) -> int:
        return SMALL


class GroupCreated(Effect):
    """XGROUP CREATE: its dot becomes one of the group's create dots if its context covers every tombstone."""

    __slots__ = ("entries_read", "group", "start")

    def __init__(self, key: Key, group: bytes, start: Position, entries_read: int) -> None:
        super().__init__(key)
        self.group = group
        self.start = start
        self.entries_read = entries_read

    def bytes_max(self) -> int:
        return super().bytes_max() + len(self.group) + START_BYTES * len(self.start.ids)

    def creates_key(self) -> bool:
        return True


class GroupDestroyed(Effect):
    """XGROUP DESTROY: a tombstone for one group."""

    __slots__ = ("group",)

    def __init__(self, key: Key, group: bytes) -> None:
        super().__init__(key)
        self.group = group

    def bytes_max(self) -> int:
        return super().bytes_max() + len(self.group)

    def demand(self) -> int:
        return REMOVALS


class Acknowledged(Effect):
    """Runs delivered at this effect's origin and acknowledged, under the create dots named here; `resets` names for
    each of them the reset that counted, and is empty if none did.
    """

    __slots__ = ("creates", "group", "resets", "runs")

    def __init__(
        self,
        key: Key,
        group: bytes,
        creates: list[Dot],
        runs: dict[int, list[Interval]],
        resets: list[ResetName] | None = None,
    ) -> None:
        super().__init__(key)
        self.group = group
        self.creates = creates
        self.runs = runs
        self.resets: list[ResetName] = resets or []

    def bytes_max(self) -> int:
        size = len(self.group) + ORIGIN_BYTES * (len(self.creates) + len(self.resets))
        return super().bytes_max() + size + _intervals_bytes(self.runs)

    def named_dots(self) -> list[Dot]:
        return self.creates

    def demand(self) -> int:
        return SMALL


class GroupPropertiesSet(Effect):
    """Properties of a group, set under the create dots named here (core/groups/properties.py); `number` is above those
    of all that its origin saw.
    """

    __slots__ = ("creates", "group", "number", "values")

    def __init__(self, key: Key, group: bytes, creates: list[Dot], number: int, values: dict[bytes, bytes]) -> None:
        super().__init__(key)
        self.group = group
        self.creates = creates
        self.number = number
        self.values = values

    def bytes_max(self) -> int:
        size = len(self.group) + ORIGIN_BYTES * len(self.creates)
        return super().bytes_max() + size + values_bytes(self.values)

    def named_dots(self) -> list[Dot]:
        return self.creates

    def demand(self) -> int:
        return SMALL


class GroupReset(Effect):
    """A new start for a group, under the create dots named here (core/groups/create.py); `number` is above those of all
    resets that its origin saw.
    """

    __slots__ = ("creates", "group", "number", "start")

    def __init__(self, key: Key, group: bytes, creates: list[Dot], number: int, start: Position) -> None:
        super().__init__(key)
        self.group = group
        self.creates = creates
        self.number = number
        self.start = start

    def bytes_max(self) -> int:
        size = len(self.group) + ORIGIN_BYTES * len(self.creates)
        return super().bytes_max() + size + START_BYTES * len(self.start.ids)

    def named_dots(self) -> list[Dot]:
        return self.creates

    def demand(self) -> int:
        return SMALL


class MemberEffect(Effect):
    """A change of the table of members (core/members.py)."""

    __slots__ = ("origin",)

    def __init__(self, origin: int) -> None:
        super().__init__(NO_KEY)
        self.origin = origin

    def demand(self) -> int:
        return MEMBERS


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

    def named_dots(self) -> list[Dot]:
        return [(self.origin, self.counter)]


class MemberEvicted(MemberEffect):
    """The membership of origin `origin` has ended; its group creates above the counter `through` are void. `successor`
    is the new origin of the same region, or 0 if an operator evicted it.
    """

    __slots__ = ("successor", "through")

    def __init__(self, origin: int, through: int, successor: int) -> None:
        super().__init__(origin)
        self.through = through
        self.successor = successor

    def named_dots(self) -> list[Dot]:
        return [(self.origin, self.through)]


def last_of_count(first: int, added: int) -> int:
    """Return the highest counter that a count with this first counter and this many adds must reach; 0 for no adds."""
    return first + added - 1 if added else 0


def _intervals_bytes(intervals: dict[int, list[Interval]]) -> int:
    return sum([ORIGIN_BYTES + INTERVAL_BYTES * len(pieces) for pieces in intervals.values()])


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
