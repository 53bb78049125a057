"""Merging: several chains of entry trees read as one sequence of slices, in the order (ID, origin).

The result is a list of *runs*: consecutive entries of one block, with no entry of another tree between them. Trees that
were written one after the other give long runs, whose ends are found by bisection, so a run costs no more than a slice;
only entries that alternate are visited one by one. Indexes `[low, high)` are low inclusive, high exclusive. In reverse,
slices and runs come in descending order, and each run is to be read from its end.

Each slice is taken up as a *piece*: its IDs and texts lie there as fixed-width integers (core/entries/raw_columns.py),
so a step of the merge makes no objects but its result. Blocks may be packed again meanwhile.

A *chain range* is what one chain contributes to a range (core/values/chain.py): a part for each of its trees, in
reading order.

Reference: the k-way merge of TAOCP 5.4.1; a linear search finds the smallest head, because chains are few.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from crdtstream.core.entries.block import Block, demand_blocks
from crdtstream.core.entries.raw_columns import Ids, Texts
from crdtstream.core.entries.slices import Slice


class TreeRange:
    """What one tree contributes to a range: its slices in reading order, at least one."""

    __slots__ = ("origin", "slices")

    def __init__(self, origin: int, slices: list[Slice]) -> None:
        self.origin = origin
        self.slices = slices


ChainRange = list[TreeRange]

# More entries than any range has.
_ALL: Final = 2**61


class BlockRange(Slice):
    """A slice of a block of this origin; `source` is the index of the slice that it is part of, among the origin's."""

    __slots__ = ("origin", "source")

    def __init__(self, origin: int, source: int, block: Block, low: int, high: int) -> None:
        super().__init__(block, low, high)
        self.origin = origin
        self.source = source


class MergeInput:
    """A slice that the merge has come to, and how its entries are compared and read; see Run."""

    __slots__ = ("_texts", "block", "high", "ids", "low", "origin", "source")

    def __init__(self, origin: int, source: int, part: Slice) -> None:
        self.origin = origin
        self.source = source
        self.block: Block = part.block
        self.low: i64 = part.low
        self.high: i64 = part.high
        self.ids: Ids = part.block.raw_ids()
        self._texts: Texts | None = None

    def text(self, low: i64, high: i64) -> bytes:
        """The bytes of the entries [low, high), concatenated."""
        texts = self._texts
        if texts is None:
            texts = self._texts = self.block.texts(self.low, self.high)
        return texts.between(low, high)

    def texts_down(self, low: i64, high: i64) -> list[bytes]:
        """The bytes of each of the entries [low, high), the last one first."""
        return [self.text(at, at + 1) for at in range(high - 1, low - 1, -1)]


class _Cursor:
    """The next entry of one chain_range; `stop` is the index just after the last one of the slice, in reading order."""

    __slots__ = ("_chain_range", "_part", "at", "ended", "ms", "piece", "seq", "step", "stop")

    def __init__(self, chain_range: ChainRange, step: i64) -> None:
        self._chain_range = chain_range
        self._part = 0
        self.step: i64 = step
        self.ended = False
        self._enter(0)

    def _enter(self, source: int) -> None:
        part = self._chain_range[self._part]
        piece = self.piece = MergeInput(part.origin, source, part.slices[source])
        self.stop: i64 = piece.high if self.step > 0 else piece.low - 1
        self._look(piece.low if self.step > 0 else piece.high - 1)

    def _look(self, at: i64) -> None:
        ids = self.piece.ids
        self.at: i64 = at
        self.ms: i64 = ids.ms_at(at)
        self.seq: i64 = ids.seq_at(at)

    def before(self, other: _Cursor) -> bool:
        """True if this cursor's entry comes before the other's in reading order."""
        if self.ms != other.ms:
            return (self.ms < other.ms) == (self.step > 0)
        if self.seq != other.seq:
            return (self.seq < other.seq) == (self.step > 0)
        return (self.piece.origin < other.piece.origin) == (self.step > 0)

    def end(self, bound: _Cursor | None, left: i64) -> i64:
        """The index just after the entries before `bound` (the nearest of the other cursors): at least one entry, at
        most `left`.
        """
        first, step = self.at, self.step
        end = self.stop if (self.stop - first) * step <= left else first + step * left
        if bound is None or end == first + step:
            return end
        # Where entries alternate, the next one is the bound's.
        self._look(first + step)
        if not self.before(bound):
            return first + step
        self._look(end - step)
        return end if self.before(bound) else self._bisected(bound)

    def _bisected(self, bound: _Cursor) -> i64:
        """The index of the first entry of the slice, in reading order, that does not come before `bound`."""
        piece = self.piece
        # Of two entries with this ID, that of the lower origin is read first; in reverse, last.
        if piece.origin < bound.piece.origin:
            high = piece.ids.upper_bound(bound.ms, bound.seq, piece.low, piece.high)
        else:
            high = piece.ids.lower_bound(bound.ms, bound.seq, piece.low, piece.high)
        return high if self.step > 0 else high - 1

    def go_to(self, end: i64) -> None:
        """Go to the entry at this index, or if the slice ends there, to the next slice."""
        if end != self.stop:
            if end != self.at:
                self._look(end)
        elif self.piece.source + 1 < len(self._chain_range[self._part].slices):
            self._enter(self.piece.source + 1)
        elif self._part + 1 < len(self._chain_range):
            self._part += 1
            self._enter(0)
        else:
            self.ended = True


class Merge:
    """The first `count` entries of non-empty chain_ranges in reading order (all if negative), run by run.

    After `step` has returned a piece, the run is its entries [low, high).
    """

    __slots__ = ("_cursors", "_left", "_step", "high", "low")

    def __init__(self, chain_ranges: list[ChainRange], count: int, reverse: bool) -> None:
        demand(chain_ranges)
        step: i64 = -1 if reverse else 1
        self._step: i64 = step
        self._cursors = [_Cursor(chain_range, step) for chain_range in chain_ranges]
        self._left: i64 = count if count >= 0 else _ALL
        self.low: i64 = 0
        self.high: i64 = 0

    def step(self) -> MergeInput | None:
        """Go on to the next run; None behind the last."""
        if self._left <= 0 or not self._cursors:
            return None
        first, bound = _leaders(self._cursors)
        piece, begin = first.piece, first.at
        end = first.end(bound, self._left)
        first.go_to(end)
        if first.ended:
            self._cursors.remove(first)
        if self._step > 0:
            self.low, self.high = begin, end
        else:
            self.low, self.high = end + 1, begin + 1
        self._left -= self.high - self.low
        return piece


def demand(chain_ranges: list[ChainRange]) -> None:
    """Have the spilled blocks of all these slices read together."""
    packed: list[Block] = []
    for chain_range in chain_ranges:
        for tree_range in chain_range:
            packed += [part.block for part in tree_range.slices if part.block.is_packed]
    if packed:
        demand_blocks(packed)


def merge(chain_ranges: list[ChainRange], count: int, reverse: bool = False) -> list[BlockRange]:
    """The runs of a `Merge`."""
    merging = Merge(chain_ranges, count, reverse)
    runs: list[BlockRange] = []
    while True:
        piece = merging.step()
        if piece is None:
            return runs
        runs.append(BlockRange(piece.origin, piece.source, piece.block, merging.low, merging.high))


def _leaders(cursors: list[_Cursor]) -> tuple[_Cursor, _Cursor | None]:
    """The cursor with the first entry, and the one with the next entry among the others (None if there is no other)."""
    first = cursors[0]
    bound: _Cursor | None = None
    for at in range(1, len(cursors)):
        cursor = cursors[at]
        if cursor.before(first):
            first, bound = cursor, first
        elif bound is None or cursor.before(bound):
            bound = cursor
    return first, bound
