"""Pending entries: what one group in one region has delivered and nobody has acknowledged (the PEL).

Entries are kept for each origin in ID order, in *spans*: rows in columns of plain numbers, at most
`SPAN_ENTRIES` long. So a pending entry costs 36 bytes however entries were read, acknowledged and claimed; none is an
object that the garbage collector has to visit; and a change moves at most one span. IDs are stored rather than looked
up in the stream, because a pending ID outlives its deleted entry. In the columns a consumer is a number, which is
assigned when the consumer begins to hold something and freed some time after it holds nothing, so columns stay narrow
however many come and go.

The pending entries of an origin mostly lie above those of earlier origins of the same region, so the origins of a
region form chains (core/values/chain.py), and an ID is looked for in one origin of each chain. An origin without
pending entries is not stored.

A checkpoint shares the spans and reads them later, so a shared span is copied before it is changed.

A released entry (XNACK) belongs to `NOBODY`, and its delivery time is negative: a number that grows with each release.

Ranges of IDs passed as `start, end` include both ends; `(low, high]` of an interval set excludes `low`.

Reference: Redis `streamNACK` and `streamConsumer` in `stream.h`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

from crdtstream.core.entries.merging import BlockRange
from crdtstream.core.entries.raw_columns import lower_bound, upper_bound
from crdtstream.core.entries.slices import Slice
from crdtstream.core.groups.consumer_numbers import ConsumerNumbers
from crdtstream.core.groups.delivery import joined
from crdtstream.core.groups.spans import ANY_CONSUMER, TIME_MAX_MS, DeliveryTime, OriginPending, Span
from crdtstream.core.values.by_origin import ByOrigin
from crdtstream.core.values.chain import Chain, Chains
from crdtstream.core.values.entry_id import ID_MIN, EntryId, id_below, is_next, previous_id
from crdtstream.core.values.intervals import Interval, IntervalSet
from crdtstream.core.values.origin_intervals import NOTHING, OriginIntervals

# The consumer of entries that were released (XNACK).
NOBODY: Final = b""
# A released entry has a delivery time from here up to -1: so it comes before all others, in the order of release.
RELEASED_MIN: Final = -(2**62)


class PendingRow:
    """A pending entry: which consumer holds it, since when, and how often it was delivered."""

    __slots__ = ("consumer", "delivered_ms", "deliveries", "entry_id", "origin")

    def __init__(self, entry_id: EntryId, origin: int, consumer: bytes, delivered_ms: int, deliveries: int) -> None:
        self.entry_id = entry_id
        self.origin = origin
        self.consumer = consumer
        self.delivered_ms = delivered_ms
        self.deliveries = deliveries


class PendingEntries:
    """The pending entries of one group in one region."""

    __slots__ = ("_chains", "_consumers", "_of_origin", "_released_to", "_time", "count")

    def __init__(self) -> None:
        self.count = 0
        # The highest number of a release, if any of that release is known.
        self._released_to = RELEASED_MIN
        self._of_origin = ByOrigin(OriginPending)
        self._chains: Chains[OriginPending] = Chains()
        self._consumers = ConsumerNumbers()
        # Of the last delivery.
        self._time = DeliveryTime()

    # Changing

    def add(self, origin: int, ids: list[EntryId], consumer: bytes, delivered_ms: int, deliveries: int) -> None:
        """Add ascending IDs, none of which is pending in this origin."""
        if not ids:
            return
        mine = self._of_origin.of(origin)
        first, last = mine.first_id(), mine.last_id()
        mine.add(ids, self._consumers.hold(consumer, len(ids)), delivered_ms, deliveries)
        self.count += len(ids)
        if not mine.tip or first is None or ids[0] < first:
            self._reposition(origin, mine, first, last)

    def deliver_runs(self, runs: list[BlockRange], consumer: bytes, now_ms: int) -> None:
        """Add the IDs of everything that one read delivered."""
        if len(runs) == 1:
            self.deliver(runs[0].origin, runs[0], consumer, now_ms)
            return
        for origin, parts in joined(runs).items():
            for part in parts:
                self.deliver(origin, part, consumer, now_ms)

    def deliver(self, origin: int, part: Slice, consumer: bytes, now_ms: int) -> None:
        """Add the IDs of a delivered slice."""
        block, low, high = part.block, part.low, part.high
        if high - low == 1:
            self.deliver_one(origin, block.id_at(low), consumer, now_ms)
            return
        mine = self._of_origin.of(origin)
        if not mine.ends_below(block.id_at(low)):
            self._deliver_among(origin, part.ids(), consumer, now_ms)
            return
        ms, seq = block.id_columns(low, high)
        mine.extend(ms, seq, self._consumers.hold(consumer, high - low), now_ms, 1)
        self._count_above(origin, mine, high - low)

    def deliver_one(self, origin: int, entry_id: EntryId, consumer: bytes, now_ms: int) -> None:
        """Add one delivered ID, without columns for it."""
        mine = self._of_origin.of(origin)
        if not mine.ends_below(entry_id):
            self._deliver_among(origin, [entry_id], consumer, now_ms)
            return
        self._time.set(now_ms)
        mine.append(entry_id, self._consumers.hold(consumer, 1), self._time)
        self._count_above(origin, mine, 1)

    def _count_above(self, origin: int, mine: OriginPending, count: int) -> None:
        """Count what was added above everything pending in this origin."""
        self.count += count
        if not mine.tip:
            self._chains.record_grown(origin, mine)

    def _deliver_among(self, origin: int, ids: list[EntryId], consumer: bytes, now_ms: int) -> None:
        """Add delivered IDs; one already pending (SETID, XCLAIM FORCE) moves to the new consumer."""
        fresh: list[EntryId] = []
        for entry_id in ids:
            if self.get(origin, entry_id) is None:
                fresh.append(entry_id)
            else:
                self.set(origin, entry_id, consumer, now_ms, 1)
        self.add(origin, fresh, consumer, now_ms, 1)

    def _reposition(self, origin: int, mine: OriginPending, first: EntryId | None, last: EntryId | None) -> None:
        """Move the origin within its chain if its first or last ID changed from `first` or `last`."""
        if first is None or mine.first_id() != first or mine.last_id() != last:
            self._chains.record_grown(origin, mine)

    def _leave(self, origin: int, mine: OriginPending, last: EntryId) -> None:
        """Update the chain after a removal; `last` was the origin's last ID before it."""
        self._chains.record_shrunk(mine, last)
        if not mine.spans:
            del self._of_origin[origin]

    def set(self, origin: int, entry_id: EntryId, consumer: bytes, delivered_ms: int, deliveries: int) -> None:
        """Assign the entry to this consumer; an entry that was not pending becomes pending."""
        if delivered_ms < 0:
            self._released_to = max(self._released_to, delivered_ms)
        mine = self._of_origin.get(origin)
        at = -1 if mine is None else mine.place_of(entry_id)
        index = -1 if mine is None else mine.index_of(at, entry_id)
        if mine is None or index < 0:
            self.add(origin, [entry_id], consumer, delivered_ms, deliveries)
            return
        span = mine.own(at)
        before = span.consumers[index]
        span.consumers[index] = self._consumers.hold(consumer, 1)
        self._consumers.release(before, 1)
        span.delivered_ms[index] = delivered_ms
        span.deliveries[index] = deliveries
        span.record_time(delivered_ms)

    def remove(self, origin: int, entry_id: EntryId) -> bool:
        mine = self._of_origin.get(origin)
        if mine is None:
            return False
        at = mine.place_of(entry_id)
        index = mine.index_of(at, entry_id)
        if index < 0:
            return False
        is_last = at == len(mine.spans) - 1 and index == len(mine.spans[at].ms) - 1
        self._consumers.release(mine.spans[at].consumers[index], 1)
        mine.remove_at(at, index)
        self.count -= 1
        if is_last:
            self._leave(origin, mine, entry_id)
        return True

    def remove_intervals(self, origin: int, intervals: IntervalSet) -> int:
        """Remove the pending entries in these intervals; returns how many were removed."""
        mine = self._of_origin.get(origin)
        first, last = self.first(origin), self.last(origin)
        if mine is None or first is None or last is None:
            return 0
        return self.remove_pieces(origin, intervals.pieces(previous_id(first) or ID_MIN, last))

    def remove_piece(self, origin: int, low: EntryId, high: EntryId) -> None:
        """Remove the pending entries in (low, high], mostly one."""
        if is_next(low, high):
            self.remove(origin, high)
        else:
            self.remove_pieces(origin, [(low, high)])

    def remove_pieces(self, origin: int, pieces: list[Interval]) -> int:
        """Like `remove_intervals`, for ascending (low, high] pieces."""
        mine = self._of_origin.get(origin)
        if mine is None:
            return 0
        last = mine.spans[-1].last_id()
        before = self.count
        for low, high in pieces:
            consumers = mine.remove_interval(low, high)
            self.count -= len(consumers)
            while consumers:
                number = consumers[-1]
                held = consumers.count(number)
                self._consumers.release(number, held)
                consumers = [other for other in consumers if other != number] if held < len(consumers) else []
        self._leave(origin, mine, last)
        return before - self.count

    def remove_consumer(self, consumer: bytes) -> list[tuple[int, EntryId]]:
        """Remove everything that this consumer holds; returns (origin, ID), ascending."""
        number = self._consumers.number_of(consumer)
        if number is None:
            return []
        removed: list[tuple[int, EntryId]] = []
        for origin in sorted(self._of_origin):
            mine = self._of_origin[origin]
            last = mine.spans[-1].last_id()
            ids = mine.remove_consumer(number)
            if ids:
                removed += [(origin, entry_id) for entry_id in ids]
                self._leave(origin, mine, last)
        self.count -= len(removed)
        self._consumers.release(number, len(removed))
        return removed

    # Checkpoints

    def share(self) -> list[tuple[int, Span]]:
        """The spans as (origin, span), ascending, marked as shared: they will not change."""
        shared: list[tuple[int, Span]] = []
        for origin in sorted(self._of_origin):
            for span in self._of_origin[origin].spans:
                span.shared = True
                shared.append((origin, span))
        return shared

    def numbered_consumers(self) -> list[tuple[int, bytes]]:
        """The numbers that stand for consumers in the spans, with the consumers' names."""
        return self._consumers.numbered()

    def adopt(self, origin: int, span: Span) -> None:
        """Add a whole span above all others of its origin, while loading a checkpoint."""
        mine = self._of_origin.of(origin)
        mine.adopt(span)
        self.count += span.count()
        span.measure()
        if span.oldest_ms < 0:
            self._released_to = max(self._released_to, max([time for time in span.delivered_ms if time < 0]))

    def name_consumers(self, names: dict[int, bytes]) -> None:
        """Finish loading, after the last `adopt`: set the names of the numbers in the spans."""
        self._chains.rebuild(self._of_origin.as_dict())
        self._consumers.restore(names, [span.consumers for mine in self._of_origin.values() for span in mine.spans])

    # Asking

    def get(self, origin: int, entry_id: EntryId) -> PendingRow | None:
        mine = self._of_origin.get(origin)
        if mine is None:
            return None
        at = mine.place_of(entry_id)
        index = mine.index_of(at, entry_id)
        return None if index < 0 else self._row(origin, mine.spans[at], index)

    def origins_of(self, entry_id: EntryId) -> list[int]:
        """The origins in which this ID is pending, ascending."""
        chains = self._chains.all
        if len(chains) == 1 and len(chains[0].extents) == 1:
            mine = chains[0].extents[0]
            return [mine.origin] if mine.index_of(mine.place_of(entry_id), entry_id) >= 0 else []
        found = self._chains.holding(entry_id)
        return [mine.origin for mine in found if mine.index_of(mine.place_of(entry_id), entry_id) >= 0]

    def find(self, ids: list[EntryId]) -> tuple[OriginIntervals, int]:
        """Like `found`, with the number of given IDs that are pending."""
        pieces, pending = self.found(ids)
        return pieces, len(pending)

    def found(self, ids: list[EntryId]) -> tuple[OriginIntervals, list[EntryId]]:
        """Which of these ascending IDs are pending: for each origin the (from, to] pieces that contain those IDs and no
        other pending ID, and the given IDs that are pending, each once, in no particular order.
        """
        chains = self._chains.all
        only = chains[0].extents[0] if len(chains) == 1 and len(chains[0].extents) == 1 else None
        if len(ids) == 1:
            entry_id = ids[0]
            if only is not None:
                held = only.index_of(only.place_of(entry_id), entry_id) >= 0
                return (OriginIntervals(only.origin, id_below(entry_id), entry_id), ids) if held else (NOTHING, [])
            origins = self.origins_of(entry_id)
            return OriginIntervals.of(
                {origin: [(id_below(entry_id), entry_id)] for origin in origins}
            ), ids if origins else []
        if only is not None:
            found = only.find(ids)
            return (OriginIntervals.of({only.origin: found.intervals()}) if found.ids else NOTHING), found.ids
        pieces: dict[int, list[Interval]] = {}
        pending: list[EntryId] = []
        for chain in chains:
            self._find_in(chain, ids, pieces, pending)
        if len(chains) > 1:
            return OriginIntervals.of({origin: pieces[origin] for origin in sorted(pieces)}), list(
                dict.fromkeys(pending)
            )
        return OriginIntervals.of(pieces), pending

    def _find_in(
        self, chain: Chain[OriginPending], ids: list[EntryId], pieces: dict[int, list[Interval]], pending: list[EntryId]
    ) -> None:
        at, position = 0, chain.reaching(ids[0]) if ids else 0
        while at < len(ids) and position < len(chain.extents):
            mine = chain.extents[position]
            end = bisect_right(ids, mine.spans[-1].last_id(), at)
            found = mine.find(ids[at:end] if at or end < len(ids) else ids)
            if found.ids:
                pieces[mine.origin] = found.intervals()
                pending += found.ids
            at = end
            position = chain.reaching(ids[at]) if at < len(ids) else 0

    def pieces_of(self, origin: int, ids: list[EntryId]) -> list[Interval]:
        """Like `find`, in one origin; returns only the pieces."""
        mine = self._of_origin.get(origin)
        return [] if mine is None else mine.find(ids).intervals()

    def first(self, origin: int) -> EntryId | None:
        mine = self._of_origin.get(origin)
        return None if mine is None else mine.first_id()

    def last(self, origin: int) -> EntryId | None:
        mine = self._of_origin.get(origin)
        return None if mine is None else mine.last_id()

    def count_in(self, origin: int) -> int:
        mine = self._of_origin.get(origin)
        return 0 if mine is None else sum([span.count() for span in mine.spans])

    def ids(self, origin: int, consumer: bytes | None) -> list[EntryId]:
        """The IDs pending in this origin, ascending: this consumer's, or all if it is None."""
        mine = self._of_origin.get(origin)
        number = self._filter(consumer)
        return [] if mine is None or number is None else mine.ids(number)

    def columns_within(self, origin: int, start: EntryId, end: EntryId) -> tuple[array[int], array[int]]:
        """Both columns of the IDs pending in this origin from start to end, both inclusive, ascending."""
        mine = self._of_origin.get(origin)
        return (array("Q"), array("Q")) if mine is None else mine.columns_within(start, end)

    def rows(
        self,
        start: EntryId,
        end: EntryId,
        limit: int,
        consumer: bytes | None,
        delivered_ms_max: int = TIME_MAX_MS,
    ) -> list[PendingRow]:
        """Pending entries from start to end, both inclusive, in the order (ID, origin): the first `limit`.

        A negative limit means all. With `consumer`, only entries of this consumer; in any case only entries last
        delivered at or before `delivered_ms_max`.
        """
        number = self._filter(consumer)
        if limit < 0:
            limit = self.count
        if number is None or limit == 0 or start > end:
            return []
        rows: list[PendingRow] = []
        sources = 0
        for chain in self._chains.all:
            found: list[PendingRow] = []
            for position in range(chain.reaching(start), len(chain.extents)):
                mine = chain.extents[position]
                if len(found) >= limit or mine.low_ids[0] > end:
                    break
                found += self._rows_of(mine, start, end, limit - len(found), number, delivered_ms_max)
            rows += found
            sources += 1 if found else 0
        if sources > 1:
            rows.sort(key=_order)
        return rows[:limit]

    def longest_idle(self, limit: int, delivered_ms_max: int, future_ms: int) -> list[PendingRow]:
        """The entries delivered up to `delivered_ms_max`, or after `future_ms`: the first `limit` (all if negative) in
        the order (delivery time, ID, origin). Looks at the rows of few spans beside those that have these entries.
        """
        if limit < 0:
            limit = self.count
        if limit == 0:
            return []
        found: list[tuple[int, EntryId, int, int, int]] = []
        # Sorting takes time, so as many rows as are wanted are collected between two of them.
        due = limit
        for least_ms, low_id, origin, number in self._aged(delivered_ms_max, future_ms):
            if len(found) >= due:
                found = sorted(found)[:limit]
                due = 2 * limit
                if (found[-1][0], found[-1][1]) < (least_ms, low_id):
                    break
            span = self._of_origin[origin].spans[number]
            span.measure()
            for index, delivered_ms in enumerate(span.delivered_ms):
                if delivered_ms <= delivered_ms_max or delivered_ms > future_ms:
                    found.append((delivered_ms, span.id_at(index), origin, number, index))
        rows = sorted(found)[:limit]
        return [self._row(origin, self._of_origin[origin].spans[number], index) for _, _, origin, number, index in rows]

    def _aged(self, delivered_ms_max: int, future_ms: int) -> list[tuple[int, EntryId, int, int]]:
        """The spans that may hold such entries, ascending, each as (time, ID, origin, number of the span): none of
        its entries comes before this time and ID.
        """
        aged: list[tuple[int, EntryId, int, int]] = []
        for origin, mine in self._of_origin.items():
            for number, span in enumerate(mine.spans):
                if span.oldest_ms <= delivered_ms_max:
                    aged.append((span.oldest_ms, mine.low_ids[number], origin, number))
                elif span.newest_ms > future_ms:
                    aged.append((max(span.oldest_ms, future_ms), mine.low_ids[number], origin, number))
        return sorted(aged)

    def next_released(self) -> int:
        """The delivery time for what is released next."""
        return self._released_to + 1

    def released_count(self) -> int:
        if not self._consumers.count_of(NOBODY):
            return 0
        spans = [span for mine in self._of_origin.values() for span in mine.spans if span.oldest_ms < 0]
        return sum([1 for span in spans for delivered_ms in span.delivered_ms if delivered_ms < 0])

    def _rows_of(
        self, mine: OriginPending, start: EntryId, end: EntryId, limit: int, consumer: int, delivered_ms_max: int
    ) -> list[PendingRow]:
        rows: list[PendingRow] = []
        at = max(mine.place_of(start), 0)
        while at < len(mine.spans) and mine.low_ids[at] <= end:
            span = mine.spans[at]
            at += 1
            if span.oldest_ms > delivered_ms_max:
                continue
            low, high = lower_bound(span.ms, span.seq, start), upper_bound(span.ms, span.seq, end)
            for index in span.indexes_of(consumer, low, high):
                if span.delivered_ms[index] <= delivered_ms_max:
                    rows.append(self._row(mine.origin, span, index))
                    if len(rows) == limit:
                        return rows
        return rows

    def _row(self, origin: int, span: Span, index: int) -> PendingRow:
        name = self._consumers.name_of(span.consumers[index])
        return PendingRow(span.id_at(index), origin, name, span.delivered_ms[index], span.deliveries[index])

    def _filter(self, consumer: bytes | None) -> int | None:
        """The number to search for: `ANY_CONSUMER` for None; None for a consumer that holds nothing."""
        return ANY_CONSUMER if consumer is None else self._consumers.number_of(consumer)

    def count_of(self, consumer: bytes) -> int:
        return self._consumers.count_of(consumer)

    def consumers_with_counts(self) -> list[tuple[bytes, int]]:
        """The consumers that hold something, by name, with how many entries each holds."""
        return self._consumers.with_counts()

    def min_id(self) -> EntryId | None:
        return min([chain.extents[0].spans[0].id_at(0) for chain in self._chains.all], default=None)

    def max_id(self) -> EntryId | None:
        return max([chain.extents[-1].spans[-1].last_id() for chain in self._chains.all], default=None)

    def check(self) -> None:
        self._chains.check(self._of_origin.as_dict())
        assert all(mine.spans for mine in self._of_origin.values()), "an origin without pending entries is stored"
        self._consumers.check()
        counts: dict[bytes, int] = {}
        for mine in self._of_origin.values():
            mine.check()
            for span in mine.spans:
                for number in span.consumers:
                    name = self._consumers.name_of(number)
                    counts[name] = counts.get(name, 0) + 1
        assert dict(self.consumers_with_counts()) == counts, "the consumers' counts are wrong"
        assert self.count == sum(counts.values()), "count is wrong"


def _order(row: PendingRow) -> tuple[EntryId, int]:
    return (row.entry_id, row.origin)
