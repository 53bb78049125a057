"""Spans: the pending entries of one origin as rows in columns of plain numbers, at most `SPAN_ENTRIES` in each span.

A change moves at most one span. A checkpoint shares spans and reads them later, so a shared span is copied before it is
changed. In the columns a consumer is a number (core/groups/pending.py).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

from mypy_extensions import i64

from crdtstream.core.entries.raw_columns import Ids, lower_bound, shifted, upper_bound
from crdtstream.core.values.chain import Extent
from crdtstream.core.values.entry_id import ID_MIN, EntryId, at_most, higher, previous_id
from crdtstream.core.values.intervals import Interval

TIME_MAX_MS: Final = 2**63 - 1
TIME_MIN_MS: Final = -(2**63)
SPAN_ENTRIES = 256
# A span left this small by removals is merged with a neighbour.
SPARSE_ENTRIES = 32
ANY_CONSUMER: Final = -1
# The deliveries of what is delivered for the first time, as a column.
ONCE: Final[array[int]] = array("q", (1,))
NO_IDS: Final = Ids(array("Q"), array("Q"), 0)


class DeliveryTime:
    """A delivery time, also as a column of one row; the next delivery mostly has the same one."""

    __slots__ = ("column", "ms")

    def __init__(self) -> None:
        self.ms = 0
        self.column: array[int] = array("q", (0,))

    def set(self, ms: int) -> None:
        if ms != self.ms:
            self.column[0] = ms
            self.ms = ms


class Span:
    """Pending entries of one origin in columns, IDs ascending. No delivery time lies outside [oldest_ms, newest_ms]:
    bounds, which a removal leaves as they are until the span is next measured.
    """

    __slots__ = ("consumers", "delivered_ms", "deliveries", "ms", "newest_ms", "oldest_ms", "seq", "shared")

    def __init__(self) -> None:
        self.ms: array[int] = array("Q")
        self.seq: array[int] = array("Q")
        self.consumers: array[int] = array("I")
        self.delivered_ms: array[int] = array("q")
        self.deliveries: array[int] = array("q")
        self.shared = False
        self.oldest_ms = TIME_MAX_MS
        self.newest_ms = TIME_MIN_MS

    def record_time(self, delivered_ms: int) -> None:
        if delivered_ms < self.oldest_ms:
            self.oldest_ms = delivered_ms
        if delivered_ms > self.newest_ms:
            self.newest_ms = delivered_ms

    def measure(self) -> None:
        """Make the bounds of the delivery times exact."""
        self.oldest_ms, self.newest_ms = min(self.delivered_ms), max(self.delivered_ms)

    def copy(self) -> Span:
        twin = Span()
        twin.absorb(self)
        return twin

    def count(self) -> int:
        return len(self.ms)

    def ids(self) -> Ids:
        return Ids(self.ms, self.seq, 0)

    def id_at(self, index: int) -> EntryId:
        return (self.ms[index], self.seq[index])

    def last_id(self) -> EntryId:
        return (self.ms[-1], self.seq[-1])

    def append(self, entry_id: EntryId, consumer: int, time: DeliveryTime) -> None:
        """Append what is delivered for the first time. To append a column takes a third of appending a number."""
        self.ms.append(entry_id[0])
        self.seq.append(entry_id[1])
        self.consumers.append(consumer)
        self.delivered_ms += time.column
        self.deliveries += ONCE
        self.record_time(time.ms)

    def extend(self, ms: array[int], seq: array[int], consumer: int, delivered_ms: int, deliveries: int) -> None:
        count = len(ms)
        self.ms += ms
        self.seq += seq
        self.consumers += array("I", (consumer,)) * count
        self.delivered_ms += array("q", (delivered_ms,)) * count
        self.deliveries += array("q", (deliveries,)) * count
        self.record_time(delivered_ms)

    def insert(self, index: int, entry_id: EntryId, consumer: int, delivered_ms: int, deliveries: int) -> None:
        self.ms.insert(index, entry_id[0])
        self.seq.insert(index, entry_id[1])
        self.consumers.insert(index, consumer)
        self.delivered_ms.insert(index, delivered_ms)
        self.deliveries.insert(index, deliveries)
        self.record_time(delivered_ms)

    def remove(self, low: int, high: int) -> None:
        del self.ms[low:high]
        del self.seq[low:high]
        del self.consumers[low:high]
        del self.delivered_ms[low:high]
        del self.deliveries[low:high]

    def remove_row(self, index: int) -> None:
        del self.ms[index]
        del self.seq[index]
        del self.consumers[index]
        del self.delivered_ms[index]
        del self.deliveries[index]

    def without(self, consumer: int) -> Span:
        """A copy of the rows of other consumers."""
        twin = Span()
        kept = [index for index in range(self.count()) if self.consumers[index] != consumer]
        twin.ms = array("Q", [self.ms[index] for index in kept])
        twin.seq = array("Q", [self.seq[index] for index in kept])
        twin.consumers = array("I", [self.consumers[index] for index in kept])
        twin.delivered_ms = array("q", [self.delivered_ms[index] for index in kept])
        twin.deliveries = array("q", [self.deliveries[index] for index in kept])
        twin.oldest_ms, twin.newest_ms = self.oldest_ms, self.newest_ms
        return twin

    def split(self, index: int) -> Span:
        """Move the rows from `index` on to a new span."""
        above = Span()
        above.ms = self.ms[index:]
        above.seq = self.seq[index:]
        above.consumers = self.consumers[index:]
        above.delivered_ms = self.delivered_ms[index:]
        above.deliveries = self.deliveries[index:]
        above.oldest_ms, above.newest_ms = self.oldest_ms, self.newest_ms
        self.remove(index, self.count())
        return above

    def absorb(self, above: Span) -> None:
        """Append the rows of the next span."""
        self.ms += above.ms
        self.seq += above.seq
        self.consumers += above.consumers
        self.delivered_ms += above.delivered_ms
        self.deliveries += above.deliveries
        self.record_time(above.oldest_ms)
        self.record_time(above.newest_ms)

    def indexes_of(self, consumer: int, low: int, high: int) -> list[int]:
        """The indexes in [low, high) that this consumer holds; all of them for `ANY_CONSUMER`."""
        if consumer == ANY_CONSUMER:
            return list(range(low, high))
        return [index for index in range(low, high) if self.consumers[index] == consumer]

    def check(self) -> None:
        count = self.count()
        assert 0 < count <= SPAN_ENTRIES, f"span of {count} entries"
        for column in (self.seq, self.consumers, self.delivered_ms, self.deliveries):
            assert len(column) == count, "columns differ in length"
        ids = [self.id_at(index) for index in range(count)]
        assert ids == sorted(set(ids)), "IDs do not ascend"
        within = self.oldest_ms <= min(self.delivered_ms) and max(self.delivered_ms) <= self.newest_ms
        assert within, "a delivery time lies outside the span's bounds"


class Found:
    """Which of the given IDs were found pending: `ids`, ascending, grouped into pieces without another pending ID in
    between. As long as none is missing it is the given list, so that nothing is copied.
    """

    __slots__ = ("_count", "_given", "_starts", "ids")

    def __init__(self, given: list[EntryId]) -> None:
        self.ids = given
        self._given = given
        self._count = 0
        self._starts: list[int] = []

    def record(self, at: int, adjacent: bool) -> None:
        """The given ID at this index is pending; `adjacent`: no other one between it and the one noted before."""
        if not adjacent:
            self._starts.append(self._count)
        self._count += 1
        if self.ids is not self._given:
            self.ids.append(self._given[at])

    def miss(self, at: int) -> None:
        """The given ID at this index is not pending."""
        if self.ids is self._given:
            self.ids = self._given[:at]

    def intervals(self) -> list[Interval]:
        ends = [*self._starts[1:], len(self.ids)]
        firsts = [previous_id(self.ids[start]) or ID_MIN for start in self._starts]
        return [(low, self.ids[end - 1]) for low, end in zip(firsts, ends, strict=True)] if self.ids else []


class OriginPending(Extent):
    """The pending entries of one origin: spans in ID order."""

    __slots__ = ("_top", "low_ids", "spans")

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[Span] = []
        # The lower bound of each span: above the last ID of the span before it, at or below its own first ID.
        self.low_ids: list[EntryId] = []
        # No ID lies above this one: a bound, which a removal leaves as it is.
        self._top: EntryId = ID_MIN

    def first_id(self) -> EntryId | None:
        return self.spans[0].id_at(0) if self.spans else None

    def last_id(self) -> EntryId | None:
        return self.spans[-1].last_id() if self.spans else None

    def ends_below(self, entry_id: EntryId) -> bool:
        if not at_most(entry_id, self._top):
            return True
        last = self.last_id()
        return last is None or last < entry_id

    def place_of(self, entry_id: EntryId) -> int:
        """The index of the only span that may hold this ID; -1 if the ID lies below all spans."""
        if len(self.low_ids) == 1:
            return 0 if at_most(self.low_ids[0], entry_id) else -1
        return bisect_right(self.low_ids, entry_id) - 1

    def index_of(self, at: int, entry_id: EntryId) -> int:
        """The index of this ID in span `at`; -1 if it is not there."""
        if at < 0:
            return -1
        span = self.spans[at]
        ms, seq = entry_id
        # Entries are mostly acknowledged in the order in which they were delivered.
        if span.ms[0] == ms and span.seq[0] == seq:
            return 0
        index = lower_bound(span.ms, span.seq, entry_id)
        return index if index < len(span.ms) and span.ms[index] == ms and span.seq[index] == seq else -1

    def own(self, at: int) -> Span:
        """The span at this index, safe to change: copied first if it is shared."""
        span = self.spans[at]
        if span.shared:
            span = self.spans[at] = span.copy()
        return span

    def add(self, ids: list[EntryId], consumer: int, delivered_ms: int, deliveries: int) -> None:
        if self.spans and ids[0] <= self.spans[-1].last_id():
            for entry_id in ids:
                self._insert(entry_id, consumer, delivered_ms, deliveries)
            return
        ms, seq = array("Q", [entry_id[0] for entry_id in ids]), array("Q", [entry_id[1] for entry_id in ids])
        self.extend(ms, seq, consumer, delivered_ms, deliveries)

    def adopt(self, span: Span) -> None:
        """Add a whole span above all others."""
        self.spans.append(span)
        self.low_ids.append(span.id_at(0))
        self._top = span.last_id()

    def append(self, entry_id: EntryId, consumer: int, time: DeliveryTime) -> None:
        """Add an ID above all others, delivered for the first time."""
        if not self.spans or len(self.spans[-1].ms) >= SPAN_ENTRIES:
            self.spans.append(Span())
            self.low_ids.append(entry_id)
        self.own(len(self.spans) - 1).append(entry_id, consumer, time)
        self._top = entry_id

    def extend(self, ms: array[int], seq: array[int], consumer: int, delivered_ms: int, deliveries: int) -> None:
        """Add IDs above all others, given as columns."""
        low = 0
        while low < len(ms):
            if not self.spans or self.spans[-1].count() >= SPAN_ENTRIES:
                self.spans.append(Span())
                self.low_ids.append((ms[low], seq[low]))
            span = self.own(len(self.spans) - 1)
            high = low + SPAN_ENTRIES - span.count()
            span.extend(ms[low:high], seq[low:high], consumer, delivered_ms, deliveries)
            low = high
        self._top = (ms[-1], seq[-1])

    def _insert(self, entry_id: EntryId, consumer: int, delivered_ms: int, deliveries: int) -> None:
        at = self.place_of(entry_id)
        if at < 0:
            at = 0
            self.low_ids[0] = entry_id
        span = self.own(at)
        index = lower_bound(span.ms, span.seq, entry_id)
        assert index == span.count() or span.id_at(index) != entry_id, f"{entry_id} is pending already"
        span.insert(index, entry_id, consumer, delivered_ms, deliveries)
        self._top = higher(self._top, entry_id)
        if span.count() > SPAN_ENTRIES:
            above = span.split(SPAN_ENTRIES // 2)
            self.spans.insert(at + 1, above)
            self.low_ids.insert(at + 1, above.id_at(0))

    def remove_at(self, at: int, index: int) -> None:
        span = self.own(at)
        span.remove_row(index)
        if span.ms:
            self._merge_small(at)
        else:
            del self.spans[at]
            del self.low_ids[at]

    def _merge_small(self, at: int) -> None:
        """Merge a span that removals have left small with a neighbour."""
        small = len(self.spans[at].ms) <= SPARSE_ENTRIES
        if small and not (at > 0 and self._merge(at - 1)) and at + 1 < len(self.spans):
            self._merge(at)

    def _merge(self, at: int) -> bool:
        """Merge the span at this index with the next one, if they fit into one."""
        span, above = self.spans[at], self.spans[at + 1]
        if span.count() + above.count() > SPAN_ENTRIES:
            return False
        self.own(at).absorb(above)
        del self.spans[at + 1]
        del self.low_ids[at + 1]
        return True

    def remove_interval(self, low: EntryId, high: EntryId) -> list[int]:
        """Remove the IDs in (low, high]; returns the consumer number of each."""
        consumers: list[int] = []
        first = end = max(self.place_of(low), 0)
        spans: list[Span] = []
        low_ids: list[EntryId] = []
        while end < len(self.spans) and self.low_ids[end] <= high:
            span = self.own(end)
            start, stop = upper_bound(span.ms, span.seq, low), upper_bound(span.ms, span.seq, high)
            consumers += span.consumers[start:stop]
            span.remove(start, stop)
            if span.ms:
                spans.append(span)
                low_ids.append(self.low_ids[end])
            end += 1
        self.spans[first:end] = spans
        self.low_ids[first:end] = low_ids
        if first < len(self.spans):
            self._merge_small(first)
        return consumers

    def remove_consumer(self, consumer: int) -> list[EntryId]:
        """Remove what this consumer holds; returns the IDs, ascending."""
        removed: list[EntryId] = []
        spans: list[Span] = []
        low_ids: list[EntryId] = []
        for span, low_id in zip(self.spans, self.low_ids, strict=True):
            if consumer in span.consumers:
                removed += [span.id_at(index) for index in span.indexes_of(consumer, 0, span.count())]
                span = span.without(consumer)
            if not span.ms:
                continue
            if spans and span.count() <= SPARSE_ENTRIES and spans[-1].count() + span.count() <= SPAN_ENTRIES:
                if spans[-1].shared:
                    spans[-1] = spans[-1].copy()
                spans[-1].absorb(span)
                continue
            spans.append(span)
            low_ids.append(low_id)
        self.spans, self.low_ids = spans, low_ids
        return removed

    def find(self, ids: list[EntryId]) -> Found:
        """Which of these ascending IDs are pending, grouped into intervals without any other pending ID.

        Bisecting for each ID would be slower: IDs are mostly acknowledged in delivery order, so each one is first
        compared with the pending ID after the last one found.
        """
        found = Found(ids)
        at, index, count = -1, 0, 0
        here = NO_IDS
        next_ms: i64 = 0
        next_seq: i64 = 0
        adjacent = False
        for given in range(len(ids)):
            entry_id = ids[given]
            ms, seq = shifted(entry_id[0]), shifted(entry_id[1])
            if at < 0 or ms > next_ms or (ms == next_ms and seq > next_seq):
                adjacent = False
                before = at
                at, index = self._seek(entry_id)
                if at == len(self.spans):
                    found.miss(given)
                    break
                if at != before:
                    here, count = self.spans[at].ids(), self.spans[at].count()
                next_ms, next_seq = here.ms_at(index), here.seq_at(index)
            if ms != next_ms or seq != next_seq:
                found.miss(given)
                continue
            found.record(given, adjacent)
            adjacent = True
            index += 1
            if index == count:
                at, index = at + 1, 0
                if at == len(self.spans):
                    if given + 1 < len(ids):
                        found.miss(given + 1)
                    break
                here, count = self.spans[at].ids(), self.spans[at].count()
            next_ms, next_seq = here.ms_at(index), here.seq_at(index)
        return found

    def _seek(self, entry_id: EntryId) -> tuple[int, int]:
        """Span and index of the first pending ID at or above this one; the span count as span if there is none."""
        at = max(self.place_of(entry_id), 0)
        while at < len(self.spans):
            index = lower_bound(self.spans[at].ms, self.spans[at].seq, entry_id)
            if index < len(self.spans[at].ms):
                return at, index
            at += 1
        return at, 0

    def ids(self, consumer: int) -> list[EntryId]:
        found: list[EntryId] = []
        for span in self.spans:
            if consumer == ANY_CONSUMER:
                found += zip(span.ms, span.seq, strict=True)
            elif consumer in span.consumers:
                found += [span.id_at(index) for index in span.indexes_of(consumer, 0, span.count())]
        return found

    def columns_within(self, start: EntryId, end: EntryId) -> tuple[array[int], array[int]]:
        """Milliseconds and sequence numbers of the IDs from start to end, both inclusive."""
        ms, seq = array("Q"), array("Q")
        at = max(self.place_of(start), 0)
        while at < len(self.spans) and self.low_ids[at] <= end:
            span = self.spans[at]
            low, high = lower_bound(span.ms, span.seq, start), upper_bound(span.ms, span.seq, end)
            ms += span.ms[low:high]
            seq += span.seq[low:high]
            at += 1
        return ms, seq

    def check(self) -> None:
        assert len(self.spans) == len(self.low_ids), "spans and low IDs differ in length"
        below: EntryId | None = None
        for span, low_id in zip(self.spans, self.low_ids, strict=True):
            span.check()
            assert below is None or below < low_id, "a span overlaps the one before it"
            assert low_id <= span.id_at(0), "a span's first ID is below its lower bound"
            below = span.last_id()
        assert below is None or below <= self._top, "an ID lies above the origin's bound"
