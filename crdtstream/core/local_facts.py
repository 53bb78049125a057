"""Local facts: what only one region knows (consumers, pending entries, cursors), as immutable values.

They are logged in that region and never sent; what is replicated is in effects.py. Intervals of IDs are `(from, to]`.
"""

from __future__ import annotations

from crdtstream.core.effects import Key, Position
from crdtstream.core.groups.delivery import NOT_OFFERED
from crdtstream.core.values.entry_id import EntryId
from crdtstream.core.values.intervals import Interval
from crdtstream.core.values.origin_intervals import OriginIntervals


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
    """A local fact about the idempotent adds of a stream (core/names/producers.py)."""

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
