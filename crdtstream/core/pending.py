"""Pending entries: what one group in one region has delivered and nobody has acknowledged (the PEL).

Entries are kept for each origin slot in ID order, in *spans*: rows in columns of plain numbers, at most `SPAN_ENTRIES`
long. So a pending entry costs 36 bytes however entries were read, acknowledged and claimed, none is an object that the
collector has to visit, and a change moves at most one span. IDs are kept, not looked up in the stream, because a
pending ID outlives its deleted entry. Inside the columns a consumer is a number, free again once it holds nothing.

A checkpoint shares the spans and reads them later: whoever changes a shared span changes a copy of it.

Ranges of IDs passed as `start, end` include both ends; `(low, high]` of an interval set excludes `low`.

Reference: Redis `streamNACK` and `streamConsumer` in `stream.h`.
"""

from __future__ import annotations

from crdtstream.core.block import lower_bound, upper_bound
from crdtstream.core.entry_id import ID_MIN, EntryId, previous_id
from crdtstream.core.entry_tree import Slice
from crdtstream.core.holders import Holders
from crdtstream.core.intervals import Interval, IntervalSet
from crdtstream.core.spans import ANY_CONSUMER, SlotPending, Span

TIME_MAX_MS = 2**63 - 1


class Pending:
    """Who holds a pending entry, since when, and how often it was delivered."""

    __slots__ = ("consumer", "delivered_ms", "deliveries")

    def __init__(self, consumer: bytes, delivered_ms: int, deliveries: int) -> None:
        self.consumer = consumer
        self.delivered_ms = delivered_ms
        self.deliveries = deliveries


class Row:
    """A pending entry with its place."""

    __slots__ = ("consumer", "delivered_ms", "deliveries", "entry_id", "slot")

    def __init__(self, entry_id: EntryId, slot: int, consumer: bytes, delivered_ms: int, deliveries: int) -> None:
        self.entry_id = entry_id
        self.slot = slot
        self.consumer = consumer
        self.delivered_ms = delivered_ms
        self.deliveries = deliveries


class PendingEntries:
    """The pending entries of one group in one region."""

    __slots__ = ("_consumers", "_of_slot", "_slots", "count")

    def __init__(self) -> None:
        self.count = 0
        self._of_slot: dict[int, SlotPending] = {}
        self._slots: list[int] = []
        self._consumers = Holders()

    # Changing

    def add(self, slot: int, ids: list[EntryId], consumer: bytes, delivered_ms: int, deliveries: int) -> None:
        """Add ascending IDs of which none is pending in this slot."""
        if not ids:
            return
        mine = self._slot(slot)
        mine.add(ids, self._consumers.take(consumer, len(ids)), delivered_ms, deliveries)
        self.count += len(ids)

    def add_slice(self, slot: int, part: Slice, consumer: bytes, delivered_ms: int, deliveries: int) -> None:
        """Add the IDs of a slice that lies above all that is pending in this slot."""
        block, low, high = part.block, part.low, part.high
        holder = self._consumers.take(consumer, high - low)
        ms, seq = block.id_columns(low, high)
        self._slot(slot).extend(ms, seq, holder, delivered_ms, deliveries)
        self.count += high - low

    def _slot(self, slot: int) -> SlotPending:
        mine = self._of_slot.get(slot)
        if mine is None:
            mine = self._of_slot[slot] = SlotPending()
            self._slots.append(slot)
            self._slots.sort()
        return mine

    def set(self, slot: int, entry_id: EntryId, consumer: bytes, delivered_ms: int, deliveries: int) -> None:
        """Give the entry to this consumer; an entry that was not pending becomes so."""
        mine = self._of_slot.get(slot)
        at = -1 if mine is None else mine.place_of(entry_id)
        index = -1 if mine is None else mine.index_of(at, entry_id)
        if mine is None or index < 0:
            self.add(slot, [entry_id], consumer, delivered_ms, deliveries)
            return
        span = mine.own(at)
        before = span.consumers[index]
        span.consumers[index] = self._consumers.take(consumer, 1)
        self._consumers.release(before, 1)
        span.delivered_ms[index] = delivered_ms
        span.deliveries[index] = deliveries

    def remove(self, slot: int, entry_id: EntryId) -> bool:
        mine = self._of_slot.get(slot)
        if mine is None:
            return False
        at = mine.place_of(entry_id)
        index = mine.index_of(at, entry_id)
        if index < 0:
            return False
        self._consumers.release(mine.spans[at].consumers[index], 1)
        mine.remove_at(at, index)
        self.count -= 1
        return True

    def remove_intervals(self, slot: int, intervals: IntervalSet) -> int:
        """Remove what lies in these intervals; how many entries that was."""
        mine = self._of_slot.get(slot)
        first, last = self.first(slot), self.last(slot)
        if mine is None or first is None or last is None:
            return 0
        return self.remove_pieces(slot, intervals.pieces(previous_id(first) or ID_MIN, last))

    def remove_pieces(self, slot: int, pieces: list[Interval]) -> int:
        """As `remove_intervals`."""
        mine = self._of_slot.get(slot)
        if mine is None:
            return 0
        before = self.count
        for low, high in pieces:
            consumers = mine.remove_interval(low, high)
            self.count -= len(consumers)
            while consumers:
                number = consumers[-1]
                held = consumers.count(number)
                self._consumers.release(number, held)
                consumers = [other for other in consumers if other != number] if held < len(consumers) else []
        return before - self.count

    def remove_consumer(self, consumer: bytes) -> list[tuple[int, EntryId]]:
        """Remove all that this consumer holds: (slot, ID), ascending."""
        number = self._consumers.number_of(consumer)
        if number is None:
            return []
        removed: list[tuple[int, EntryId]] = []
        for slot in self._slots:
            removed += [(slot, entry_id) for entry_id in self._of_slot[slot].ids(number)]
        for slot, entry_id in removed:
            self.remove(slot, entry_id)
        return removed

    # Checkpoints

    def share(self) -> list[tuple[int, Span]]:
        """(slot, span), ascending: they stay as they are now."""
        shared: list[tuple[int, Span]] = []
        for slot in self._slots:
            for span in self._of_slot[slot].spans:
                span.shared = True
                shared.append((slot, span))
        return shared

    def holders(self) -> list[tuple[int, bytes]]:
        """The number that stands for each consumer in the spans."""
        return self._consumers.numbered()

    def adopt(self, slot: int, span: Span) -> None:
        """Take a whole span above all others of its slot."""
        mine = self._slot(slot)
        mine.spans.append(span)
        mine.low_ids.append(span.id_at(0))
        self.count += span.count()

    def name_holders(self, names: dict[int, bytes]) -> None:
        """Say who the numbers in the adopted spans are."""
        self._consumers.restore(names, [span.consumers for mine in self._of_slot.values() for span in mine.spans])

    # Asking

    def get(self, slot: int, entry_id: EntryId) -> Pending | None:
        mine = self._of_slot.get(slot)
        if mine is None:
            return None
        at = mine.place_of(entry_id)
        index = mine.index_of(at, entry_id)
        if index < 0:
            return None
        span = mine.spans[at]
        return Pending(self._consumers.name_of(span.consumers[index]), span.delivered_ms[index], span.deliveries[index])

    def slots_of(self, entry_id: EntryId) -> list[int]:
        """The slots, ascending, in which this ID is pending."""
        found: list[int] = []
        for slot in self._slots:
            mine = self._of_slot[slot]
            if mine.index_of(mine.place_of(entry_id), entry_id) >= 0:
                found.append(slot)
        return found

    def find(self, ids: list[EntryId]) -> tuple[dict[int, list[Interval]], int]:
        """For each slot the (from, to] pieces that hold those of these ascending IDs that are pending, and nothing else
        that is; and how many of the IDs are pending.
        """
        pieces: dict[int, list[Interval]] = {}
        pending: list[EntryId] = []
        for slot in self._slots:
            found = self._of_slot[slot].find(ids)
            if found.ids:
                pieces[slot] = found.intervals()
                pending += found.ids
        return pieces, len(dict.fromkeys(pending)) if len(pieces) > 1 else len(pending)

    def pieces_of(self, slot: int, ids: list[EntryId]) -> list[Interval]:
        """As `find`, in one slot."""
        mine = self._of_slot.get(slot)
        return [] if mine is None else mine.find(ids).intervals()

    def first(self, slot: int) -> EntryId | None:
        mine = self._of_slot.get(slot)
        return None if mine is None else mine.first_id()

    def last(self, slot: int) -> EntryId | None:
        mine = self._of_slot.get(slot)
        return None if mine is None else mine.last_id()

    def ids(self, slot: int, consumer: bytes | None) -> list[EntryId]:
        """The IDs pending in this slot, ascending: this consumer's, or all."""
        mine = self._of_slot.get(slot)
        number = self._filter(consumer)
        return [] if mine is None or number is None else mine.ids(number)

    def rows(
        self,
        start: EntryId,
        end: EntryId,
        limit: int,
        consumer: bytes | None,
        delivered_ms_max: int = TIME_MAX_MS,
    ) -> list[Row]:
        """Pending entries from start to end, both inclusive, in the order (ID, slot): the first `limit`.

        A negative limit means all. Only those of one consumer when it is given, and only those last delivered at
        `delivered_ms_max` or before.
        """
        number = self._filter(consumer)
        if limit < 0:
            limit = self.count
        if number is None or limit == 0 or start > end:
            return []
        rows: list[Row] = []
        sources = 0
        for slot in self._slots:
            found = self._rows_of(slot, start, end, limit, number, delivered_ms_max)
            rows += found
            sources += 1 if found else 0
        if sources > 1:
            rows.sort(key=_order)
        return rows[:limit]

    def _rows_of(
        self, slot: int, start: EntryId, end: EntryId, limit: int, consumer: int, delivered_ms_max: int
    ) -> list[Row]:
        rows: list[Row] = []
        mine = self._of_slot[slot]
        at = max(mine.place_of(start), 0)
        while at < len(mine.spans) and mine.low_ids[at] <= end:
            span = mine.spans[at]
            low, high = lower_bound(span.ms, span.seq, start), upper_bound(span.ms, span.seq, end)
            for index in span.indexes_of(consumer, low, high):
                if span.delivered_ms[index] <= delivered_ms_max:
                    rows.append(self._row(slot, span, index))
                    if len(rows) == limit:
                        return rows
            at += 1
        return rows

    def _row(self, slot: int, span: Span, index: int) -> Row:
        name = self._consumers.name_of(span.consumers[index])
        return Row(span.id_at(index), slot, name, span.delivered_ms[index], span.deliveries[index])

    def _filter(self, consumer: bytes | None) -> int | None:
        """The number to look for; None when nothing can be found."""
        return ANY_CONSUMER if consumer is None else self._consumers.number_of(consumer)

    def count_of(self, consumer: bytes) -> int:
        return self._consumers.count_of(consumer)

    def consumers_with_counts(self) -> list[tuple[bytes, int]]:
        """The consumers that hold something, by name, and how much."""
        return self._consumers.with_counts()

    def min_id(self) -> EntryId | None:
        ids = [mine.spans[0].id_at(0) for mine in self._of_slot.values() if mine.spans]
        return min(ids) if ids else None

    def max_id(self) -> EntryId | None:
        ids = [mine.spans[-1].last_id() for mine in self._of_slot.values() if mine.spans]
        return max(ids) if ids else None

    def check(self) -> None:
        assert self._slots == sorted(self._of_slot), "slots are not those that have a list"
        self._consumers.check()
        counts: dict[bytes, int] = {}
        for mine in self._of_slot.values():
            mine.check()
            for span in mine.spans:
                for number in span.consumers:
                    name = self._consumers.name_of(number)
                    counts[name] = counts.get(name, 0) + 1
        assert dict(self.consumers_with_counts()) == counts, "consumers hold other counts"
        assert self.count == sum(counts.values()), "count is wrong"


def _order(row: Row) -> tuple[EntryId, int]:
    return (row.entry_id, row.slot)
