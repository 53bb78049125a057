"""Several entry trees read as one: slices of each, in the order (ID, origin).

What comes out is *runs*: consecutive entries of one block between which no other tree has one. Trees that were written
one after the other give long runs, and a run costs no more than a slice; only entries that truly alternate are visited
one by one. Indexes `[low, high)` are low inclusive, high exclusive. Reversed, slices and runs come in descending order,
and each run is to be read from its end.

Reference: the k-way merge of TAOCP 5.4.1; a linear search finds the smallest, because regions are few.
"""

from __future__ import annotations

from crdtstream.core.block import Block
from crdtstream.core.entry_id import U64_MAX
from crdtstream.core.entry_tree import Slice


class Run:
    """The entries [low, high) of a block of this slot; `source` is the place of its slice among the slot's."""

    __slots__ = ("block", "high", "low", "slot", "source")

    def __init__(self, slot: int, source: int, block: Block, low: int, high: int) -> None:
        self.slot = slot
        self.source = source
        self.block = block
        self.low = low
        self.high = high

    def count(self) -> int:
        return self.high - self.low


class _Cursor:
    """The next entry of one slot's slices; `stop` is the index behind the slice's last one, in the order of reading."""

    __slots__ = ("at", "block", "ended", "ms", "seq", "slices", "slot", "source", "step", "stop")

    def __init__(self, slot: int, slices: list[Slice], step: int) -> None:
        self.slot = slot
        self.slices = slices
        self.step = step
        self.ended = False
        self._enter(0)

    def _enter(self, source: int) -> None:
        part = self.slices[source]
        self.source = source
        self.block: Block = part.block
        self.stop = part.high if self.step > 0 else part.low - 1
        self._look(part.low if self.step > 0 else part.high - 1)

    def _look(self, at: int) -> None:
        self.at: int = at
        self.ms: int = self.block.ms_base + self.block.ms[at]
        self.seq: int = self.block.seq[at]

    def before(self, other: _Cursor) -> bool:
        """In the order of reading."""
        if self.ms != other.ms:
            return (self.ms < other.ms) == (self.step > 0)
        if self.seq != other.seq:
            return (self.seq < other.seq) == (self.step > 0)
        return (self.slot < other.slot) == (self.step > 0)

    def take(self, bound: _Cursor | None, left: int) -> Run:
        """The entries before `bound`, the next of the other cursors: at least one, `left` at most."""
        first, source, block, step = self.at, self.source, self.block, self.step
        end = first + step
        last = first + step * left
        while end != self.stop and end != last:
            self._look(end)
            if bound is not None and not self.before(bound):
                break
            end += step
        if end == self.stop:
            self._leave()
        elif end == last:
            self._look(end)
        if step < 0:
            first, end = end + 1, first + 1
        return Run(self.slot, source, block, first, end)

    def _leave(self) -> None:
        if self.source + 1 < len(self.slices):
            self._enter(self.source + 1)
        else:
            self.ended = True


def merge(found: dict[int, list[Slice]], count: int, reverse: bool = False) -> list[Run]:
    """The first `count` entries of these slices, none of them empty, in the order of reading (all when negative)."""
    step = -1 if reverse else 1
    cursors = [_Cursor(slot, slices, step) for slot, slices in found.items() if slices]
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
    """The cursor whose entry comes first, and the one whose entry comes next among the others."""
    first = cursors[0]
    bound: _Cursor | None = None
    for at in range(1, len(cursors)):
        cursor = cursors[at]
        if cursor.before(first):
            first, bound = cursor, first
        elif bound is None or cursor.before(bound):
            bound = cursor
    return first, bound
