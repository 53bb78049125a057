"""Spans: the pending entries of one slot as rows in columns of plain numbers, at most `SPAN_ENTRIES` in one.

A change moves at most one span. A checkpoint shares spans and reads them later: whoever changes a shared span changes a
copy of it. A consumer is a number here (see `holders`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from crdtstream.core.block import lower_bound, upper_bound
from crdtstream.core.entry_id import ID_MIN, EntryId, previous_id
from crdtstream.core.intervals import Interval

SPAN_ENTRIES = 256
# A span that removals have left this small joins a neighbour.
SPARSE_ENTRIES = 32
ANY_CONSUMER = -1


class Span:
    """Pending entries of one slot, IDs ascending, as columns."""

    __slots__ = ("consumers", "delivered_ms", "deliveries", "ms", "seq", "shared")

    def __init__(self) -> None:
        self.ms: array[int] = array("Q")
        self.seq: array[int] = array("Q")
        self.consumers: array[int] = array("I")
        self.delivered_ms: array[int] = array("q")
        self.deliveries: array[int] = array("q")
        self.shared = False

    def copy(self) -> Span:
        twin = Span()
        twin.absorb(self)
        return twin

    def count(self) -> int:
        return len(self.ms)

    def id_at(self, index: int) -> EntryId:
        return (self.ms[index], self.seq[index])

    def last_id(self) -> EntryId:
        return (self.ms[-1], self.seq[-1])

    def extend(self, ms: array[int], seq: array[int], consumer: int, delivered_ms: int, deliveries: int) -> None:
        count = len(ms)
        self.ms += ms
        self.seq += seq
        self.consumers += array("I", (consumer,)) * count
        self.delivered_ms += array("q", (delivered_ms,)) * count
        self.deliveries += array("q", (deliveries,)) * count

    def insert(self, index: int, entry_id: EntryId, consumer: int, delivered_ms: int, deliveries: int) -> None:
        self.ms.insert(index, entry_id[0])
        self.seq.insert(index, entry_id[1])
        self.consumers.insert(index, consumer)
        self.delivered_ms.insert(index, delivered_ms)
        self.deliveries.insert(index, deliveries)

    def remove(self, low: int, high: int) -> None:
        del self.ms[low:high]
        del self.seq[low:high]
        del self.consumers[low:high]
        del self.delivered_ms[low:high]
        del self.deliveries[low:high]

    def split(self, index: int) -> Span:
        """Move what follows from `index` on to a new span."""
        above = Span()
        above.ms = self.ms[index:]
        above.seq = self.seq[index:]
        above.consumers = self.consumers[index:]
        above.delivered_ms = self.delivered_ms[index:]
        above.deliveries = self.deliveries[index:]
        self.remove(index, self.count())
        return above

    def absorb(self, above: Span) -> None:
        """Take the rows of the span that follows."""
        self.ms += above.ms
        self.seq += above.seq
        self.consumers += above.consumers
        self.delivered_ms += above.delivered_ms
        self.deliveries += above.deliveries

    def indexes_of(self, consumer: int, low: int, high: int) -> list[int]:
        """The indexes in [low, high) that this consumer holds; all of them for any consumer."""
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


class Found:
    """Pending IDs that were looked for, ascending, and where a piece of neighbours begins."""

    __slots__ = ("_starts", "ids")

    def __init__(self) -> None:
        self.ids: list[EntryId] = []
        self._starts: list[int] = []

    def note(self, entry_id: EntryId, joins: bool) -> None:
        """`joins`: nothing else is pending between this ID and the one before it."""
        if not joins:
            self._starts.append(len(self.ids))
        self.ids.append(entry_id)

    def intervals(self) -> list[Interval]:
        ends = [*self._starts[1:], len(self.ids)]
        firsts = [previous_id(self.ids[start]) or ID_MIN for start in self._starts]
        return [(low, self.ids[end - 1]) for low, end in zip(firsts, ends, strict=True)] if self.ids else []


class SlotPending:
    """The pending entries of one slot: spans in ID order."""

    __slots__ = ("low_ids", "spans")

    def __init__(self) -> None:
        self.spans: list[Span] = []
        # Where each span begins: above the span before it, at or below its own first ID.
        self.low_ids: list[EntryId] = []

    def first_id(self) -> EntryId | None:
        return self.spans[0].id_at(0) if self.spans else None

    def last_id(self) -> EntryId | None:
        return self.spans[-1].last_id() if self.spans else None

    def place_of(self, entry_id: EntryId) -> int:
        """The place of the span that holds this ID if any does; -1 when it lies below all."""
        return bisect_right(self.low_ids, entry_id) - 1

    def index_of(self, at: int, entry_id: EntryId) -> int:
        """The index of this ID in the span at that place; -1 when it is not there."""
        if at < 0:
            return -1
        span = self.spans[at]
        index = lower_bound(span.ms, span.seq, entry_id)
        return (
            index if index < len(span.ms) and span.ms[index] == entry_id[0] and span.seq[index] == entry_id[1] else -1
        )

    def own(self, at: int) -> Span:
        """The span at this place, to be changed."""
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

    def extend(self, ms: array[int], seq: array[int], consumer: int, delivered_ms: int, deliveries: int) -> None:
        """Add IDs above all others."""
        low = 0
        while low < len(ms):
            if not self.spans or self.spans[-1].count() >= SPAN_ENTRIES:
                self.spans.append(Span())
                self.low_ids.append((ms[low], seq[low]))
            span = self.own(len(self.spans) - 1)
            high = low + SPAN_ENTRIES - span.count()
            span.extend(ms[low:high], seq[low:high], consumer, delivered_ms, deliveries)
            low = high

    def _insert(self, entry_id: EntryId, consumer: int, delivered_ms: int, deliveries: int) -> None:
        at = self.place_of(entry_id)
        if at < 0:
            at = 0
            self.low_ids[0] = entry_id
        span = self.own(at)
        index = lower_bound(span.ms, span.seq, entry_id)
        assert index == span.count() or span.id_at(index) != entry_id, f"{entry_id} is pending already"
        span.insert(index, entry_id, consumer, delivered_ms, deliveries)
        if span.count() > SPAN_ENTRIES:
            above = span.split(SPAN_ENTRIES // 2)
            self.spans.insert(at + 1, above)
            self.low_ids.insert(at + 1, above.id_at(0))

    def remove_at(self, at: int, index: int) -> None:
        span = self.own(at)
        span.remove(index, index + 1)
        if span.ms:
            self._settle(at)
        else:
            del self.spans[at]
            del self.low_ids[at]

    def _settle(self, at: int) -> None:
        """A span that removals have left small joins a neighbour."""
        small = len(self.spans[at].ms) <= SPARSE_ENTRIES
        if small and not (at > 0 and self._join(at - 1)) and at + 1 < len(self.spans):
            self._join(at)

    def _join(self, at: int) -> bool:
        """Join the span at this place with the one that follows, if they fit."""
        span, above = self.spans[at], self.spans[at + 1]
        if span.count() + above.count() > SPAN_ENTRIES:
            return False
        self.own(at).absorb(above)
        del self.spans[at + 1]
        del self.low_ids[at + 1]
        return True

    def remove_interval(self, low: EntryId, high: EntryId) -> list[int]:
        """Remove the IDs of (low, high]; the consumer of each."""
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
            self._settle(first)
        return consumers

    def find(self, ids: list[EntryId]) -> Found:
        """Which of these ascending IDs are pending, and the intervals that hold them and nothing else that is pending.

        A search for each would cost a bisection; IDs are mostly acknowledged as they were delivered, so the next one
        is looked for behind the last one first.
        """
        found = Found()
        at, index, next_ms, next_seq = -1, -1, -1, -1
        joins = False
        for entry_id in ids:
            ms, seq = entry_id
            if ms > next_ms or (ms == next_ms and seq > next_seq):
                joins = False
                at, index = self._seek(entry_id)
                if at == len(self.spans):
                    break
                next_ms, next_seq = self.spans[at].ms[index], self.spans[at].seq[index]
            if ms != next_ms or seq != next_seq:
                continue
            found.note(entry_id, joins)
            joins = True
            index += 1
            if index == len(self.spans[at].ms):
                at, index = at + 1, 0
                if at == len(self.spans):
                    break
            next_ms, next_seq = self.spans[at].ms[index], self.spans[at].seq[index]
        return found

    def _seek(self, entry_id: EntryId) -> tuple[int, int]:
        """Span and index of the first pending ID at or above this one; behind the last span when there is none."""
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

    def check(self) -> None:
        assert len(self.spans) == len(self.low_ids), "spans and low IDs differ in length"
        below: EntryId | None = None
        for span, low_id in zip(self.spans, self.low_ids, strict=True):
            span.check()
            assert below is None or below < low_id, "a span begins inside the one before it"
            assert low_id <= span.id_at(0), "a span begins above its first ID"
            below = span.last_id()
