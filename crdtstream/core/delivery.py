"""What one read of a group takes: candidates from the intervals not yet passed, then the entries that come first.

Intervals are `(from, to]`.
"""

from __future__ import annotations

from crdtstream.core.effects import Interval
from crdtstream.core.entry_id import ID_MAX, EntryId, next_id
from crdtstream.core.entry_tree import EntryTree
from crdtstream.core.merging import Merged, Share
from crdtstream.core.slices import Slice


class Delivery:
    """What one read takes: the entries as shares of blocks, in merged order as RESP bytes, and for each origin the
    intervals that become delivered. Without `merged` the shares follow each other.
    """

    __slots__ = ("_merged", "chunks", "count", "intervals", "shares")

    def __init__(
        self,
        count: int,
        chunks: list[bytes],
        intervals: dict[int, list[Interval]],
        shares: list[Share] | None = None,
        merged: Merged | None = None,
    ) -> None:
        self.count = count
        self.chunks = chunks
        self.intervals = intervals
        self.shares: list[Share] = shares or []
        self._merged = merged

    def entries(self) -> list[bytes]:
        """The RESP bytes of each entry."""
        if self._merged is not None:
            return [entry for _, entry in self._merged.entries()]
        return [entry for share in self.shares for entry in share.block.entries(share.low, share.high)]

    def fitting(self, bytes_max: int) -> int:
        """How many of the entries fit into this many bytes."""
        count = 0
        for entry in self.entries():
            bytes_max -= len(entry)
            if bytes_max < 0:
                break
            count += 1
        return count


class Candidate:
    """A slice of one origin's wanted entries, and the open lower end of the unpassed interval that contains it."""

    __slots__ = ("low", "taken")

    def __init__(self, low: EntryId, taken: Slice) -> None:
        self.low = low
        self.taken = taken


def left_of(count: int, found: list[Candidate]) -> int:
    """How many more than these are needed; a negative count means all, and stays negative."""
    if count < 0:
        return count
    for one in found:
        count -= one.taken.high - one.taken.low
    return count


def deliver(wanted: dict[int, list[Candidate]], merged: Merged) -> Delivery:
    """Build the reply, and for each origin the interval (lower end, last taken ID] of each interval that gave
    entries.
    """
    taken: dict[int, list[Share]] = {slot: [] for slot in sorted(wanted)}
    for share in merged.shares:
        taken[share.slot].append(share)
    intervals = {slot: _delivered(wanted[slot], shares) for slot, shares in taken.items() if shares}
    return Delivery(merged.count, merged.chunks(), intervals, merged.shares, merged)


def _delivered(candidates: list[Candidate], shares: list[Share]) -> list[Interval]:
    """Slices of one unpassed interval are consecutive, so the last one decides where the delivered interval ends."""
    ends: dict[EntryId, EntryId] = {}
    for share in shares:
        ends[candidates[share.source].low] = share.block.id_at(share.high - 1)
    return list(ends.items())


def shares_within(trees: dict[int, EntryTree], intervals: dict[int, list[Interval]]) -> list[Share]:
    """The live entries in these (low, high] intervals of each slot."""
    shares: list[Share] = []
    for slot, pieces in intervals.items():
        for low, high in pieces:
            parts = trees[slot].slices(next_id(low) or ID_MAX, high, -1, False)
            shares += [Share(slot, 0, part.block, part.low, part.high) for part in parts]
    return shares
