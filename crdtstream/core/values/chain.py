"""Chains: the extents of one region's origins in ID order, so that a lookup does not have to visit every origin.

Every start of a process is a new origin, and what it adds lies above everything its region added before. So the extents
of one region (entry trees of a stream, pending entries of a group) mostly lie one above the other. They form a *chain*:
bisection finds the extent that may hold an ID, and only whole chains have to be merged with each other.

    An extent starts above everything that its chain holds or ever held (`end`), so chains grow only at their ends.
    Only the extent at the end of a chain, its *tip*, may grow upwards without notice.
    An extent that does not fit (two processes ran on copies of one data directory) starts a chain of its own.

An empty extent is in no chain, and no chain is empty. Extents of one chain share no ID. Different chains may hold the
same ID; the order is then (ID, origin), whatever chain the origin is in.

Reference: the patience piles of Aldous and Diaconis (1999): as few ascending piles as the order of arrival allows.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Generic, TypeVar

from crdtstream.core.values.causality import NO_ORIGIN, region_of
from crdtstream.core.values.entry_id import ID_MIN, EntryId


class Extent:
    """What one origin holds, between two IDs; a base class, but no ABC, which would make each extent larger."""

    __slots__ = ("origin", "tip")

    def __init__(self) -> None:
        # Both are set when the extent is placed in a chain.
        self.origin = NO_ORIGIN
        self.tip = False

    def first_id(self) -> EntryId | None:
        raise NotImplementedError

    def last_id(self) -> EntryId | None:
        raise NotImplementedError


T = TypeVar("T", bound=Extent)
U = TypeVar("U")


class Chain(Generic[T]):
    """Extents of one region, each wholly below the next."""

    __slots__ = ("extents", "left", "lows", "number", "region")

    def __init__(self, number: int, region: int) -> None:
        # Unique among all chains that this `Chains` ever had.
        self.number = number
        self.region = region
        # Tuples, because most chains have one extent, and get another at a restart.
        self.extents: tuple[T, ...] = ()
        # The lower bound of each extent but the first: above the end of the extent before it, at or below its own
        # first ID.
        self.lows: tuple[EntryId, ...] = ()
        # The highest ID that was ever removed from the end of the chain.
        self.left: EntryId = ID_MIN

    def end(self) -> EntryId:
        return max(self.left, self.extents[-1].last_id() or ID_MIN)

    def reaching(self, entry_id: EntryId) -> int:
        """The index of the first extent that ends at or above this ID."""
        at = bisect_right(self.lows, entry_id) if self.lows else 0
        last = self.extents[at].last_id()
        return at + 1 if last is not None and last < entry_id else at

    def push(self, extent: T, first: EntryId) -> None:
        """Append an extent whose first ID is `first`, which lies above the chain's end."""
        if self.extents:
            self.extents[-1].tip = False
            self.lows = (*self.lows, first)
        extent.tip = True
        self.extents = (*self.extents, extent)

    def pop(self, at: int) -> None:
        """Take out the extent at this index."""
        self.extents[at].tip = False
        self.extents = without(self.extents, at)
        if self.lows:
            self.lows = without(self.lows, max(at - 1, 0))
        if self.extents:
            self.extents[-1].tip = True


class Chains(Generic[T]):
    """All extents, in as few chains as their order of arrival allowed.

    Two counters record what happened other than tips growing: `placed` counts extents placed at the end of a chain,
    `cut` counts removals. A reader that keeps earlier results compares them to see what may have changed.
    """

    __slots__ = ("_numbers", "all", "cut", "placed")

    def __init__(self) -> None:
        self.all: tuple[Chain[T], ...] = ()
        self.placed = 0
        self.cut = 0
        self._numbers = 0

    def record_grown(self, origin: int, extent: T) -> None:
        """Place an extent that grew upwards without being a tip, or is no longer empty: it becomes a chain's tip."""
        if extent.origin == origin:
            self._unlink(extent)
        self.placed += 1
        self._place(origin, extent)

    def record_shrunk(self, extent: T, last: EntryId) -> None:
        """Note that something was removed from an extent that ended at `last`."""
        self.cut += 1
        now = extent.last_id()
        if now == last:
            return
        # Extents placed later must still start above what was removed: readers remember a place in the chain by ID.
        if extent.tip:
            for chain in self.all:
                if chain.extents[-1] is extent:
                    chain.left = max(chain.left, last)
        if now is None:
            self._unlink(extent)

    def rebuild(self, extents: dict[int, T]) -> None:
        """Build the chains from all extents, placing them in ID order; empty extents are skipped."""
        self.all = ()
        self.placed += 1
        self.cut += 1
        found: list[tuple[EntryId, int]] = []
        for origin, extent in extents.items():
            extent.origin, extent.tip = NO_ORIGIN, False
            first = extent.first_id()
            if first is not None:
                found.append((first, origin))
        piles: list[list[T]] = []
        for first, origin in sorted(found):
            extent = extents[origin]
            extent.origin = origin
            _pile_ending_below(piles, first, region_of(origin)).append(extent)
        self.all = tuple([self._chain_of(pile) for pile in piles])

    def _chain_of(self, pile: list[T]) -> Chain[T]:
        self._numbers += 1
        chain: Chain[T] = Chain(self._numbers, region_of(pile[0].origin))
        chain.extents = tuple(pile)
        chain.lows = tuple([extent.first_id() or ID_MIN for extent in pile[1:]])
        pile[-1].tip = True
        return chain

    def _place(self, origin: int, extent: T) -> None:
        first = extent.first_id()
        assert first is not None, f"origin {origin} holds nothing"
        extent.origin = origin
        self._chain_ending_below(first, region_of(origin)).push(extent, first)

    def _chain_ending_below(self, first: EntryId, region: int) -> Chain[T]:
        for chain in self.all:
            if chain.region == region and chain.end() < first:
                return chain
        self._numbers += 1
        begun: Chain[T] = Chain(self._numbers, region)
        self.all = (*self.all, begun)
        return begun

    def _unlink(self, extent: T) -> None:
        for chain in self.all:
            # The extent to take out is usually the oldest of its chain, or its only one: test that before searching.
            at = 0 if chain.extents[0] is extent else -1
            if at < 0 and chain.region == region_of(extent.origin) and extent in chain.extents:
                at = chain.extents.index(extent)
            if at >= 0:
                chain.pop(at)
                if not chain.extents:
                    self.all = without(self.all, self.all.index(chain))
                break
        extent.origin = NO_ORIGIN

    def holding(self, entry_id: EntryId) -> list[T]:
        """The extents whose first and last ID enclose this ID, ordered by origin."""
        found: list[T] = []
        for chain in self.all:
            at = chain.reaching(entry_id)
            if at < len(chain.extents):
                first = chain.extents[at].first_id()
                if first is not None and first <= entry_id:
                    found.append(chain.extents[at])
        if len(found) > 1:
            found.sort(key=attrgetter("origin"))
        return found

    def check(self, extents: dict[int, T]) -> None:
        """Check the invariants; `extents` are all that exist."""
        chained = {extent.origin: extent for chain in self.all for extent in chain.extents}
        assert len(chained) == sum(len(chain.extents) for chain in self.all), "an extent is in two chains"
        assert chained == {origin: one for origin, one in extents.items() if one.last_id() is not None}, (
            "chains lack some"
        )
        numbers = [chain.number for chain in self.all]
        assert len({*numbers}) == len(numbers) and max(numbers, default=0) <= self._numbers, "a number is used twice"
        for chain in self.all:
            assert chain.extents, "an empty chain"
            for extent in chain.extents:
                assert region_of(extent.origin) == chain.region, f"origin {extent.origin} in a chain of {chain.region}"
                assert extent.tip == (extent is chain.extents[-1]), f"origin {extent.origin}: the tip flag is wrong"
            for low, extent in zip(chain.lows, chain.extents[1:], strict=True):
                assert low <= (extent.first_id() or ID_MIN), f"origin {extent.origin} begins below its lower bound"
            for extent, low in zip(chain.extents, chain.lows, strict=False):
                assert (extent.last_id() or ID_MIN) < low, f"origin {extent.origin} overlaps the next extent"


def _pile_ending_below(piles: list[list[T]], first: EntryId, region: int) -> list[T]:
    for pile in piles:
        if region_of(pile[0].origin) == region and (pile[-1].last_id() or ID_MIN) < first:
            return pile
    piles.append([])
    return piles[-1]


def without(row: tuple[U, ...], at: int) -> tuple[U, ...]:
    return row[:at] + row[at + 1 :]
