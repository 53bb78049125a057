"""What one read of a group takes: candidates from the intervals not yet passed, then the entries that come first.

Intervals are `(from, to]`.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.merging import BlockRange
from crdtstream.core.entries.slices import Slice
from crdtstream.core.values.by_origin import ByOrigin
from crdtstream.core.values.entry_id import ID_MAX, EntryId, next_id
from crdtstream.core.values.intervals import Interval
from crdtstream.core.values.origin_intervals import OriginIntervals

# The offer of a delivery that no read of the group found.
NOT_OFFERED: Final = 0


class Delivery:
    """What one read takes: the entries in merged order, as runs and as RESP bytes, and for each origin the intervals
    that become delivered. `offer` is its number if a read of the group found it (core/groups/read_cursor.py).
    """

    __slots__ = ("chunks", "count", "intervals", "offer", "runs")

    def __init__(
        self,
        count: int,
        chunks: list[bytes],
        intervals: OriginIntervals,
        runs: list[BlockRange],
        offer: int = NOT_OFFERED,
    ) -> None:
        self.offer = offer
        self.count = count
        self.chunks = chunks
        self.intervals = intervals
        self.runs = runs

    def entries(self) -> list[bytes]:
        """The RESP bytes of each entry."""
        return [run.block.entry(index) for run in self.runs for index in range(run.low, run.high)]

    def fitting(self, bytes_max: int) -> int:
        """How many of the entries fit into this many bytes."""
        count = 0
        for run in self.runs:
            end = run.block.fitting(run.low, run.high, bytes_max)
            if run.block.byte_size(run.low, end) > bytes_max:
                end -= 1
            count += end - run.low
            bytes_max -= run.block.byte_size(run.low, end)
            if end < run.high:
                break
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


def deliver(wanted: dict[int, list[Candidate]], runs: list[BlockRange]) -> Delivery:
    """Build the reply, and for each origin the interval (lower end, last taken ID] of each interval that gave
    entries.
    """
    chunks: list[bytes] = []
    count = 0
    last_of: dict[int, dict[int, BlockRange]] = {origin: {} for origin in sorted(wanted)}
    for run in runs:
        chunks.append(run.block.entry_slice(run.low, run.high))
        count += run.high - run.low
        last_of[run.origin][run.source] = run
    intervals = {origin: _delivered(wanted[origin], last) for origin, last in last_of.items() if last}
    return Delivery(count, chunks, OriginIntervals.of(intervals), runs)


def _delivered(candidates: list[Candidate], last: dict[int, BlockRange]) -> list[Interval]:
    """Slices of one unpassed interval are consecutive, so the last one decides where the delivered interval ends."""
    ends: dict[EntryId, EntryId] = {}
    for source, run in last.items():
        ends[candidates[source].low] = run.block.id_at(run.high - 1)
    return list(ends.items())


def joined(runs: list[BlockRange]) -> dict[int, list[Slice]]:
    """The runs of each origin, ascending; those that only entries of other origins interrupted are one slice."""
    slices: dict[int, list[Slice]] = {}
    for run in runs:
        mine = slices.get(run.origin)
        if mine is None:
            slices[run.origin] = [Slice(run.block, run.low, run.high)]
        elif mine[-1].block is run.block and mine[-1].high == run.low:
            mine[-1].high = run.high
        else:
            mine.append(Slice(run.block, run.low, run.high))
    return slices


def runs_within(trees: ByOrigin[EntryTree], intervals: OriginIntervals) -> list[BlockRange]:
    """The live entries in these (low, high] intervals of each origin."""
    runs: list[BlockRange] = []
    for origin, pieces in intervals.as_dict().items():
        for low, high in pieces:
            parts = trees[origin].slices(next_id(low) or ID_MAX, high, -1, False)
            runs += [BlockRange(origin, 0, part.block, part.low, part.high) for part in parts]
    return runs
