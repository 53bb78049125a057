"""Retention: which of the oldest entries of a stream exceed its limits.

An entry exceeds a limit if it is older than MAXAGE by its ID, or if the entries behind it in merged order are MAXLEN
or more, or have so many bytes that with its own they exceed MAXBYTES. With ACKED only what no group needs is removed
(core/streams/references.py), and nothing while there is no group; ACKED alone removes all that no group needs.

What exceeds a limit is a number of the oldest entries of each origin. So regions that each remove only what they wrote
remove together exactly what exceeds it, as soon as they know of the same entries.

The place in merged order is found by bisection, in lists of the blocks that a surplus reaches: a surplus is
mostly small, and then so is the work, however long the stream is.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from crdtstream.core.effects import CounterRange
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.streams.properties import (
    ACKED_ONLY,
    MAX_AGE,
    MAX_BYTES,
    MAX_LENGTH,
    NO_LIMIT,
    RetentionLimits,
)
from crdtstream.core.streams.references import settled_slices
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, U64_MAX, EntryId, previous_id

# Of each origin how many of its oldest entries exceed a limit.
OldestCounts = dict[int, int]

# No entry is smaller as a reply.
ENTRY_BYTES_MIN: Final = 29
# Why entries are removed: the limit that they exceed, or ACKED alone.
REASONS: Final = (MAX_AGE, MAX_LENGTH, MAX_BYTES, ACKED_ONLY)


def exceeding(stream: Stream, limits: RetentionLimits, reason: bytes, now_ms: int) -> OldestCounts:
    """How many entries exceed this limit at this time."""
    if reason == MAX_AGE:
        return {} if limits.max_age_ms == NO_LIMIT else older_than(stream, now_ms - limits.max_age_ms)
    if reason == MAX_LENGTH:
        surplus = stream.length - limits.entries_max
        return {} if limits.entries_max == NO_LIMIT or surplus <= 0 else oldest_entries(stream, surplus)
    if reason == MAX_BYTES:
        surplus = sum([tree.byte_count for tree in stream.trees.values()]) - limits.max_bytes
        return {} if limits.max_bytes == NO_LIMIT or surplus <= 0 else oldest_bytes(stream, surplus)
    if limits.acked and not limits.has_limit():
        return {origin: tree.count for origin, tree in stream.trees.items()}
    return {}


def older_than(stream: Stream, time_ms: int) -> OldestCounts:
    """How many entries have IDs below this time."""
    found: OldestCounts = {}
    for origin, tree in stream.trees.items():
        first = tree.first_id()
        if first is not None and first[0] < time_ms:
            found[origin] = tree.count_in(ID_MIN, (time_ms - 1, U64_MAX))
    return found


class OldestPart:
    """The oldest entries of one tree, as far as a surplus may reach, and what they weigh up to an ID. `firsts` are the
    first IDs of their slices.
    """

    __slots__ = ("_by_bytes", "_counts", "_slices", "_weights", "firsts", "origin")

    def __init__(self, tree: EntryTree, count: int, by_bytes: bool) -> None:
        self.origin = tree.origin
        self._by_bytes = by_bytes
        self._slices = tree.slices(ID_MIN, ID_MAX, count, False)
        self.firsts: list[EntryId] = [part.block.id_at(part.low) for part in self._slices]
        # Before each slice.
        self._counts: list[int] = []
        self._weights: list[int] = []
        entries = weight = 0
        for part in self._slices:
            self._counts.append(entries)
            self._weights.append(weight)
            entries += part.count()
            weight += part.block.byte_size(part.low, part.high) if by_bytes else part.count()

    def last_id(self) -> EntryId:
        part = self._slices[-1]
        return part.block.id_at(part.high - 1)

    def ids_between(self, low: EntryId, high: EntryId) -> list[EntryId]:
        """The IDs in (low, high], which no slice begins between."""
        found: list[EntryId] = []
        for at in range(max(bisect_right(self.firsts, low) - 1, 0), bisect_right(self.firsts, high)):
            part = self._slices[at]
            found += part.block.ids(max(part.low, part.block.upper_bound(low)), self._high_in(at, high))
        return found

    def _high_in(self, at: int, end: EntryId) -> int:
        part = self._slices[at]
        return min(part.high, max(part.low, part.block.upper_bound(end)))

    def count_through(self, end: EntryId) -> int:
        """How many entries have this ID or a lower one."""
        at = bisect_right(self.firsts, end) - 1
        return 0 if at < 0 else self._counts[at] + self._high_in(at, end) - self._slices[at].low

    def weight_through(self, end: EntryId) -> int:
        """What these weigh: their bytes, or each of them 1."""
        if not self._by_bytes:
            return self.count_through(end)
        at = bisect_right(self.firsts, end) - 1
        if at < 0:
            return 0
        part = self._slices[at]
        return self._weights[at] + part.block.byte_size(part.low, self._high_in(at, end))


def oldest_entries(stream: Stream, surplus: int) -> OldestCounts:
    """The `surplus` oldest entries in merged order."""
    if len(stream.trees) == 1:
        return {origin: min(surplus, tree.count) for origin, tree in stream.trees.items()}
    return oldest_weighing([OldestPart(tree, surplus, False) for tree in stream.trees.values() if tree.count], surplus)


def oldest_bytes(stream: Stream, surplus: int) -> OldestCounts:
    """The fewest oldest entries in merged order that have so many bytes."""
    count = surplus // ENTRY_BYTES_MIN + 1
    return oldest_weighing([OldestPart(tree, count, True) for tree in stream.trees.values() if tree.count], surplus)


def oldest_weighing(parts: list[OldestPart], surplus: int) -> OldestCounts:
    """The fewest oldest entries that weigh at least the surplus; all if they do not."""
    if not parts:
        return {}
    last = boundary(parts, surplus)
    below = previous_id(last) or ID_MIN
    found = {part.origin: part.count_through(below) for part in parts}
    weight = sum([part.weight_through(below) for part in parts])
    # Several origins may have an entry with that ID: the order is by origin then.
    for part in sorted(parts, key=origin_of_part):
        if weight < surplus:
            weight += part.weight_through(last) - part.weight_through(below)
            found[part.origin] = part.count_through(last)
    return {origin: count for origin, count in found.items() if count}


def origin_of_part(part: OldestPart) -> int:
    return part.origin


def boundary(parts: list[OldestPart], surplus: int) -> EntryId:
    """The lowest ID up to which the entries weigh at least the surplus, or the last one. First the slice is found, then
    the entry.
    """
    firsts = sorted([first for part in parts for first in part.firsts])
    at = first_reaching(firsts, parts, surplus)
    if at == 0:
        return firsts[0]
    last = max([part.last_id() for part in parts])
    high = firsts[at] if at < len(firsts) else last
    ids = sorted([entry_id for part in parts for entry_id in part.ids_between(firsts[at - 1], high)])
    at = first_reaching(ids, parts, surplus)
    return ids[at] if at < len(ids) else last


def first_reaching(ids: list[EntryId], parts: list[OldestPart], surplus: int) -> int:
    """The index of the first of these ascending IDs up to which the entries weigh at least the surplus."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        weight = 0
        for part in parts:
            weight += part.weight_through(ids[middle])
        if weight >= surplus:
            high = middle
        else:
            low = middle + 1
    return low


# What a tick removes of one origin


class RetainedCut:
    """What is removed of one origin: ranges of counters, how many entries, whether they are its oldest, and the ID up
    to which was looked, `ID_MIN` if to the end.
    """

    __slots__ = ("count", "is_oldest", "looked", "ranges")

    def __init__(self, ranges: list[CounterRange], count: int, is_oldest: bool, looked: EntryId = ID_MIN) -> None:
        self.ranges = ranges
        self.count = count
        self.is_oldest = is_oldest
        self.looked = looked


def oldest_cut(tree: EntryTree, count: int) -> RetainedCut:
    """The oldest entries of the origin."""
    return RetainedCut(tree.first_counters(count), count, True)


def settled_cut(
    stream: Stream, origin: int, count: int, above: EntryId, entries_max: int, ranges_max: int, alone: bool
) -> RetainedCut:
    """Those of the `count` oldest entries of an origin, above this ID, that no group needs; at most `entries_max` are
    looked at, and `ranges_max` ranges removed. `alone`: no other region exists.
    """
    tree = stream.trees[origin]
    end = tree.id_of(tree.first_counters(count)[0][1])
    assert end is not None, "the oldest entries have no last one"
    pieces, looked = settled_slices(stream, origin, above, end, entries_max, alone)
    if len(pieces) > ranges_max:
        part = pieces[ranges_max - 1]
        pieces, looked = pieces[:ranges_max], part.block.id_at(part.high - 1)
    ranges = [(part.block.counter_at(part.low), part.block.counter_at(part.high - 1)) for part in pieces]
    removed = sum([part.count() for part in pieces])
    is_oldest = bool(removed) and tree.first_counters(removed)[0][1] == ranges[-1][1]
    return RetainedCut(ranges, removed, is_oldest, looked)
