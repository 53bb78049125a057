"""A walk over all keys, in slices between turns: sums over all streams, and figures of the largest.

A slice takes about `SLICE_S`; then the event loop is free. Walks take `SHARE` of a processor at most: after a long one
none begins for a while, and what is shown is older. Keys are visited by the cursor of SCAN, so none that is there all
the time is missed, however many others come and go.

Series are bounded by `metrics_series_max`: the longest streams become series, among streams of one length those that
were used last, and of their groups those with the most pending entries. All others are summed up as omitted.
"""

from __future__ import annotations

import asyncio
from heapq import heappush, heappushpop
from time import perf_counter

from crdtstream.core.effects import Key
from crdtstream.core.groups.group import Group
from crdtstream.core.keyspace import DATABASES, Keyspace
from crdtstream.core.lag import lag_of
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, next_id
from crdtstream.runtime.metrics.histogram import Histogram

SLICE_S = 0.0005
SHARE = 0.05
PAGE_KEYS = 32
STREAM_SERIES = 4
GROUP_SERIES = 6

Rank = tuple[int, int, Key]


class Totals:
    """Sums over streams."""

    __slots__ = ("entries", "groups", "pending", "streams", "tombstones")

    def __init__(self) -> None:
        self.streams = 0
        self.entries = 0
        self.groups = 0
        self.pending = 0
        self.tombstones = 0

    def without(self, other: Totals) -> Totals:
        left = Totals()
        for name in Totals.__slots__:
            setattr(left, name, max(0, getattr(self, name) - getattr(other, name)))
        return left


class StreamFigures:
    """One stream that has series."""

    __slots__ = ("added", "groups", "key", "length", "tombstones")

    def __init__(self, key: Key, stream: Stream) -> None:
        self.key = key
        self.length = stream.length
        self.added = stream.entries_added()
        self.tombstones = tombstones_of(stream)
        self.groups = len(stream.groups)


class GroupFigures:
    """One group that has series; `unacknowledged` counts the entries behind the ack frontier, `lag` those that are yet
    to be delivered.
    """

    __slots__ = ("consumers", "deliveries", "key", "lag", "name", "pending", "unacknowledged", "withheld")

    def __init__(self, key: Key, name: bytes, stream: Stream, group: Group) -> None:
        self.key = key
        self.name = name
        self.pending = group.pending.count
        self.lag = lag_of(stream, group)
        self.unacknowledged = unacknowledged_in(stream, group)
        self.consumers = len(group.consumers)
        self.withheld = len(group.withheld)
        self.deliveries = group.deliveries


class SurveyedStream:
    """The result of one walk, which ended at `ended_s` by the clock of `perf_counter`."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.omitted = Totals()
        self.streams: list[StreamFigures] = []
        self.groups: list[GroupFigures] = []
        self.ended_s = 0.0


def tombstones_of(stream: Stream) -> int:
    """The tombstones that no region can forget yet: of deletions of the key, and of destroyed groups."""
    return len(stream.deleted) + sum([len(destroyed) for destroyed in stream.destroyed.values()])


def unacknowledged_in(stream: Stream, group: Group) -> int:
    """The entries above the ack frontier, delivered or not."""
    count = 0
    for origin, tree in stream.trees.items():
        first = next_id(group.frontier(origin))
        if first is not None and tree.count:
            count += tree.count_in(first, ID_MAX)
    return count


def busiest_groups(stream: Stream) -> list[bytes]:
    return sorted(stream.groups, key=lambda name: stream.groups[name].pending.count, reverse=True)


def add_to(totals: Totals, stream: Stream) -> None:
    totals.streams += 1
    totals.entries += stream.length
    totals.tombstones += tombstones_of(stream)
    if stream.groups:
        totals.groups += len(stream.groups)
        totals.pending += sum([group.pending.count for group in stream.groups.values()])


class Survey:
    """Walks; several scrapes at once share one walk."""

    def __init__(self, keyspace: Keyspace, slices: Histogram) -> None:
        self._keyspace = keyspace
        self._slices = slices
        self._walk: asyncio.Task[None] | None = None
        self._began_s = 0.0
        self._busy_s = 0.0
        self._due_s = 0.0
        self.seen: SurveyedStream | None = None

    async def look(self, series_max: int, wait_s: float) -> SurveyedStream | None:
        """Walk if that is due, and wait for it at most so long; return the latest walk that has ended."""
        if self._walk is None or (self._walk.done() and perf_counter() >= self._due_s):
            self._walk = asyncio.get_running_loop().create_task(self._look(series_max))
        await asyncio.wait([self._walk], timeout=wait_s)
        if self._walk.done():
            self._walk.result()
        return self.seen

    async def stop(self) -> None:
        if self._walk is not None:
            self._walk.cancel()
            await asyncio.gather(self._walk, return_exceptions=True)

    async def _look(self, series_max: int) -> None:
        seen = SurveyedStream()
        self._began_s, self._busy_s = perf_counter(), 0.0
        largest = await self._find_largest(seen.totals, series_max // STREAM_SERIES)
        await self._describe(seen, largest, series_max)
        self._end_slice()
        seen.ended_s = perf_counter()
        self._due_s = seen.ended_s + self._busy_s * (1 / SHARE - 1)
        self.seen = seen

    async def _rest(self) -> None:
        """Let the loop go on if the slice was long enough."""
        if perf_counter() - self._began_s >= SLICE_S:
            self._end_slice()
            await asyncio.sleep(0)
            self._began_s = perf_counter()

    def _end_slice(self) -> None:
        took_s = perf_counter() - self._began_s
        self._slices.observe(took_s)
        self._busy_s += took_s

    async def _find_largest(self, totals: Totals, count: int) -> list[Rank]:
        """Add all streams to the totals; return the ranks of the largest, the largest first."""
        largest: list[Rank] = []
        for database in range(DATABASES):
            cursor = -1
            while cursor:
                cursor, names = self._keyspace.orders[database].read(max(cursor, 0), PAGE_KEYS)
                for name in names:
                    rank = self._visit(totals, (database, name))
                    if rank is None or count == 0:
                        continue
                    if len(largest) < count:
                        heappush(largest, rank)
                    elif rank > largest[0]:
                        heappushpop(largest, rank)
                await self._rest()
        return sorted(largest, reverse=True)

    def _visit(self, totals: Totals, key: Key) -> Rank | None:
        """Add a key to the totals. One that does not exist any more may have tombstones, and no rank."""
        stream = self._keyspace.databases[key[0]].get(key[1])
        if stream is None:
            return None
        if not stream.exists():
            totals.tombstones += tombstones_of(stream)
            return None
        add_to(totals, stream)
        return (stream.length, stream.used_ms, key)

    async def _describe(self, seen: SurveyedStream, largest: list[Rank], series_max: int) -> None:
        """Make figures of streams, and of their groups, until the series are used up."""
        shown = Totals()
        for _, _, key in largest:
            stream = self._keyspace.known(key)
            if stream is None or series_max < STREAM_SERIES:
                continue
            series_max -= STREAM_SERIES
            seen.streams.append(StreamFigures(key, stream))
            shown.streams += 1
            shown.entries += stream.length
            shown.tombstones += tombstones_of(stream)
            for name in busiest_groups(stream)[: series_max // GROUP_SERIES]:
                await self._rest()
                group = stream.groups.get(name)
                if group is not None:
                    series_max -= GROUP_SERIES
                    seen.groups.append(GroupFigures(key, name, stream, group))
                    shown.groups += 1
                    shown.pending += group.pending.count
            await self._rest()
        seen.omitted = seen.totals.without(shown)
