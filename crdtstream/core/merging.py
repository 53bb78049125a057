"""Merging: several chains of entry trees read as one sequence of slices, in the order (ID, origin).

The result is a list of *runs*: consecutive entries of one block, with no entry of another tree between them. Trees that
were written one after the other give long runs, whose ends are found by bisection, so a run costs no more than a slice;
only entries that alternate are visited one by one. Indexes `[low, high)` are low inclusive, high exclusive. In reverse,
slices and runs come in descending order, and each run is to be read from its end.

A *strand* is what one chain contributes to a range (core/chain.py): a part for each of its trees, in reading order.

Reference: the k-way merge of TAOCP 5.4.1; a linear search finds the smallest head, because chains are few.
"""

from __future__ import annotations

from crdtstream.core.block import Block
from crdtstream.core.entry_id import U64_MAX
from crdtstream.core.slices import Slice


class Part:
    """What one tree contributes to a range: its slices in reading order, at least one."""

    __slots__ = ("slices", "slot")

    def __init__(self, slot: int, slices: list[Slice]) -> None:
        self.slot = slot
        self.slices = slices


Strand = list[Part]


class Run(Slice):
    """A slice of a block of this slot; `source` is the index of the slice that it is part of, among the slot's."""

    __slots__ = ("slot", "source")

    def __init__(self, slot: int, source: int, block: Block, low: int, high: int) -> None:
        super().__init__(block, low, high)
        self.slot = slot
        self.source = source


class _Cursor:
    """The next entry of one strand; `stop` is the index just after the last one of the slice, in reading order."""

    __slots__ = ("at", "block", "ended", "ms", "part", "seq", "slices", "slot", "source", "step", "stop", "strand")

    def __init__(self, strand: Strand, step: int) -> None:
        self.strand = strand
        self.step = step
        self.ended = False
        self._begin(0)

    def _begin(self, part: int) -> None:
        self.part = part
        self.slot = self.strand[part].slot
        self.slices = self.strand[part].slices
        self._enter(0)

    def _enter(self, source: int) -> None:
        part = self.slices[source]
        self.source = source
        self.block: Block = part.block
        self.stop = part.high if self.step > 0 else part.low - 1
        self._look(part.low if self.step > 0 else part.high - 1)

    def _look(self, at: int) -> None:
        self.at: int = at
        block = self.block
        if block.closed:
            block.open()
        self.ms: int = block.ms_base + block.ms[at]
        self.seq: int = block.seq[at]

    def before(self, other: _Cursor) -> bool:
        """True if this cursor's entry comes before the other's in reading order."""
        if self.ms != other.ms:
            return (self.ms < other.ms) == (self.step > 0)
        if self.seq != other.seq:
            return (self.seq < other.seq) == (self.step > 0)
        return (self.slot < other.slot) == (self.step > 0)

    def take(self, bound: _Cursor | None, left: int) -> Run:
        """Take the entries before `bound` (the nearest of the other cursors): at least one, at most `left`."""
        slot, source, first, step = self.slot, self.source, self.at, self.step
        block = self.block
        end = self._end(bound, left)
        if end == self.stop:
            self._leave()
        else:
            self._look(end)
        if step < 0:
            first, end = end + 1, first + 1
        return Run(slot, source, block, first, end)

    def _end(self, bound: _Cursor | None, left: int) -> int:
        """The index just after what `take` takes."""
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

    def _bisected(self, bound: _Cursor) -> int:
        """The index of the first entry of the block, in reading order, that does not come before `bound`."""
        entry_id = (bound.ms, bound.seq)
        # Of two entries with this ID, that of the lower slot is read first; in reverse, last.
        high = self.block.upper_bound(entry_id) if self.slot < bound.slot else self.block.lower_bound(entry_id)
        return high if self.step > 0 else high - 1

    def _leave(self) -> None:
        if self.source + 1 < len(self.slices):
            self._enter(self.source + 1)
        elif self.part + 1 < len(self.strand):
            self._begin(self.part + 1)
        else:
            self.ended = True


def merge(strands: list[Strand], count: int, reverse: bool = False) -> list[Run]:
    """The first `count` entries of non-empty strands in reading order (all if negative), as runs."""
    step = -1 if reverse else 1
    cursors = [_Cursor(strand, step) for strand in strands]
    left = count if count >= 0 else U64_MAX
    runs: list[Run] = []
    while cursors and left > 0:
        first, bound = _leaders(cursors)
        run = first.take(bound, left)
        runs.append(run)
        left -= run.high - run.low
        if first.ended:
            cursors.remove(first)
    return runs


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
