"""Sets of entry IDs as intervals.

An interval `(from, to]` excludes `from` and includes `to`: `(0-0, 5-1]` holds every ID above 0-0 up to 5-1. So two
intervals are adjacent exactly when one ends where the other begins, and 0-0, which no entry has, is in no set. A set
keeps its intervals disjoint, ascending and maximal (adjacent ones are merged), so equal sets have equal form.

Runs, delivered ranges and replay ranges of a group are such sets, one for each origin.

Reference: the interval set of CLRS chapter 14 for the operations; two sorted lists and bisection, since runs are few.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, at_most, higher, next_id

Interval = tuple[EntryId, EntryId]


class IntervalSet:
    """A set of entry IDs as maximal disjoint intervals, each open below and closed above."""

    __slots__ = ("_end", "_grown", "_highs", "_lows")

    def __init__(self) -> None:
        self._lows: list[EntryId] = []
        # Use `_tops()`: the last one may have grown to `_end`.
        self._highs: list[EntryId] = []
        self._end: EntryId = ID_MIN
        self._grown = False

    @staticmethod
    def of(pairs: list[Interval]) -> IntervalSet:
        made = IntervalSet()
        for low, high in pairs:
            made.add(low, high)
        return made

    def copy(self) -> IntervalSet:
        made = IntervalSet()
        made._lows = self._lows.copy()
        made._highs = self._tops().copy()
        return made

    def _tops(self) -> list[EntryId]:
        """The upper bounds of the intervals."""
        if self._grown:
            self._highs[-1] = self._end
            self._grown = False
        return self._highs

    # Changing

    def add(self, low: EntryId, high: EntryId) -> None:
        """Add the IDs of (low, high]; an empty interval adds nothing."""
        if at_most(high, low):
            return
        # Sets mostly grow at their end, step by step. In the list, each step would allocate three objects.
        if self.ends_at(low):
            self._end = high
            self._grown = True
            return
        lows, highs = self._lows, self._tops()
        first = bisect_left(highs, low)
        end = bisect_right(lows, high, first)
        if first < end:
            low = min(low, lows[first])
            high = max(high, highs[end - 1])
        lows[first:end] = [low]
        highs[first:end] = [high]

    def remove(self, low: EntryId, high: EntryId) -> None:
        """Remove the IDs of (low, high]; an empty interval removes nothing."""
        lows, highs = self._lows, self._tops()
        first, end = self._overlapping(low, high)
        if first == end:
            return
        below, above = lows[first], highs[end - 1]
        lows[first:end] = [below] * (below < low) + [high] * (high < above)
        highs[first:end] = [low] * (below < low) + [above] * (high < above)

    def union(self, other: IntervalSet) -> None:
        """Add everything that is in `other`."""
        for low, high in zip(other._lows, other._tops(), strict=True):
            self.add(low, high)

    # Asking

    def contains(self, entry_id: EntryId) -> bool:
        at = bisect_left(self._tops(), entry_id)
        return at < len(self._lows) and self._lows[at] < entry_id

    def covers(self, low: EntryId, high: EntryId) -> bool:
        """True if every ID of (low, high] is in the set; always true for an empty interval."""
        if at_most(high, low):
            return True
        if len(self._lows) == 1:
            return at_most(self._lows[0], low) and at_most(high, self._tops()[0])
        at = bisect_left(self._tops(), high)
        return at < len(self._lows) and self._lows[at] <= low

    def covers_all(self, other: IntervalSet) -> bool:
        """True if every ID of the other set is in this one."""
        for low, high in zip(other._lows, other._tops(), strict=True):  # noqa: SIM110 (a generator takes longer)
            if not self.covers(low, high):
                return False
        return True

    def end_from(self, entry_id: EntryId) -> EntryId:
        """The highest ID such that the whole of (entry_id, ID] is in the set; `entry_id` itself if the next ID is
        not.
        """
        at = bisect_right(self._tops(), entry_id)
        return self._tops()[at] if at < len(self._lows) and self._lows[at] <= entry_id else entry_id

    def start_from(self, entry_id: EntryId) -> EntryId:
        """The lowest ID such that the whole of (ID, entry_id] is in the set; `entry_id` itself if it is not in it."""
        at = bisect_left(self._tops(), entry_id)
        return self._lows[at] if at < len(self._lows) and self._lows[at] < entry_id else entry_id

    def next_absent(self, entry_id: EntryId) -> EntryId | None:
        """The smallest ID >= entry_id that is not in the set; None if there is none."""
        at = bisect_left(self._tops(), entry_id)
        return next_id(self._tops()[at]) if at < len(self._lows) and self._lows[at] < entry_id else entry_id

    def pieces(self, low: EntryId, high: EntryId) -> list[Interval]:
        """The parts of (low, high] that are in the set, ascending."""
        first, end = self._overlapping(low, high)
        return [(max(self._lows[at], low), min(self._tops()[at], high)) for at in range(first, end)]

    def gaps(self, low: EntryId, high: EntryId) -> list[Interval]:
        """The parts of (low, high] that are not in the set, ascending."""
        if len(self._lows) == 1 and at_most(self._lows[0], low):
            # Most sets are one interval that reaches down to where the question begins.
            low = higher(low, self._tops()[0])
            return [] if at_most(high, low) else [(low, high)]
        gaps: list[Interval] = []
        for piece_low, piece_high in self.pieces(low, high):
            if low < piece_low:
                gaps.append((low, piece_low))
            low = piece_high
        if low < high:
            gaps.append((low, high))
        return gaps

    def minus(self, other: IntervalSet) -> IntervalSet:
        made = IntervalSet()
        for low, high in zip(self._lows, self._tops(), strict=True):
            for gap_low, gap_high in other.gaps(low, high):
                made._lows.append(gap_low)
                made._highs.append(gap_high)
        return made

    def intersection(self, other: IntervalSet) -> IntervalSet:
        made = IntervalSet()
        for low, high in zip(self._lows, self._tops(), strict=True):
            for piece_low, piece_high in other.pieces(low, high):
                made._lows.append(piece_low)
                made._highs.append(piece_high)
        return made

    def pairs(self) -> list[Interval]:
        """The maximal intervals (from, to], ascending."""
        return list(zip(self._lows, self._tops(), strict=True))

    def max(self) -> EntryId | None:
        highs = self._tops()
        return highs[-1] if highs else None

    def ends_at(self, entry_id: EntryId) -> bool:
        """True if this is the highest ID of the set."""
        if not self._highs:
            return False
        ms, seq = self._end if self._grown else self._highs[-1]
        return ms == entry_id[0] and seq == entry_id[1]

    def _overlapping(self, low: EntryId, high: EntryId) -> tuple[int, int]:
        """The indexes [first, end) of the intervals that share an ID with (low, high]."""
        if low >= high:
            return (0, 0)
        first = bisect_right(self._tops(), low)
        return (first, bisect_left(self._lows, high, first))

    def __len__(self) -> int:
        """The number of maximal intervals."""
        return len(self._lows)

    def __bool__(self) -> bool:
        return bool(self._lows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntervalSet) and self._lows == other._lows and self._tops() == other._tops()

    def __repr__(self) -> str:
        return f"IntervalSet({self.pairs()})"

    def check(self) -> None:
        assert len(self._lows) == len(self._tops()), "lows and highs differ in length"
        above = ID_MIN
        for at in range(len(self._lows)):
            low, high = self._lows[at], self._tops()[at]
            assert low < high <= ID_MAX, f"interval {low} to {high} is empty or beyond the last ID"
            assert above < low or (at == 0 and above <= low), (
                f"interval {low} to {high} is not apart from the one before"
            )
            above = high
