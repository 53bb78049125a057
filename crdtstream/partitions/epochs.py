"""Epochs: which process numbers the messages of a partitioned stream, and which numbers count.

A partition has one home at a time. A process that becomes the home raises an epoch, `(number, origin)`, above the
highest one that it knows, its *parent*, and from the next offset of each partition as it knows them then. Two processes
may raise an epoch without knowing of each other, and a home that was away may have numbered beyond the start of the
next epoch. So the highest epoch decides: its *line* is that epoch, its parent, the parent of that one, and so on, and
what was numbered in another epoch does not count. So below its start, an epoch has exactly what its home knew when it
raised it, whatever arrives later: nothing slips in below what has been read.

Of one partition, the line makes *segments* `[start, end)` that follow each other without a gap. A message of epoch
`(number, origin)` lies in the entry tree of that origin under the ID `number-offset`, so a segment is one range of one
tree, and the IDs of a tree ascend whatever happens to its origin.

The first epochs of a line are forgotten when nothing of them is left. Offsets under an epoch that is not known are
valid up to the first offset that is. A home forgets an epoch once the regions that live have nothing of it. One that
was silent may come back with messages of it; they no longer count then, and are numbered again.

Reference: the epochs of a Kafka partition's leaders (KIP-101), here without the consensus that elects them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

# (number, origin): which process numbers messages. A higher epoch replaces a lower one from its first offset on.
Epoch = tuple[int, int]
# The parent of an epoch that had none.
NO_EPOCH: Final[Epoch] = (0, 0)
# Offsets stay within what a float holds exactly, because clients in JavaScript read them as floats.
OFFSET_END: Final = 1 << 53


class EpochRow:
    """One epoch, its first offset in each partition, and the epoch that it follows."""

    __slots__ = ("epoch", "parent", "starts")

    def __init__(self, epoch: Epoch, starts: list[int], parent: Epoch) -> None:
        self.epoch = epoch
        self.starts = starts
        self.parent = parent


class EpochSegment:
    """The offsets [start, end) of a partition, numbered in one epoch."""

    __slots__ = ("end", "number", "origin", "start")

    def __init__(self, epoch: Epoch, start: int, end: int) -> None:
        self.number, self.origin = epoch
        self.start = start
        self.end = end


class Epochs:
    """The epochs of one stream that a region knows, at least one, ascending; `line` has those that count."""

    __slots__ = ("_after", "_by_epoch", "_segments", "line", "rows")

    def __init__(self, rows: Iterable[EpochRow]) -> None:
        self.rows = sorted(rows, key=lambda row: row.epoch)
        self._by_epoch = {row.epoch: row for row in self.rows}
        self.line = self._line_of(self.rows[-1])
        # The epoch that follows in the line.
        self._after = {row.epoch: after for row, after in itertools.pairwise(self.line)}
        self._segments: dict[int, list[EpochSegment]] = {}

    def _line_of(self, row: EpochRow) -> list[EpochRow]:
        found: list[EpochRow] = []
        at: EpochRow | None = row
        while at is not None:
            found.append(at)
            # A parent is lower, whatever a register says: else the line would have no end.
            at = self._by_epoch.get(at.parent) if at.parent < at.epoch else None
        found.reverse()
        return found

    def current(self) -> Epoch:
        return self.rows[-1].epoch

    def knows(self, epoch: Epoch) -> bool:
        return epoch in self._by_epoch

    def counts(self, epoch: Epoch) -> bool:
        """True if the epoch is in the line of the current one."""
        return epoch == self.current() or epoch in self._after

    def counted(self) -> list[Epoch]:
        """The epochs of the line, ascending."""
        return [row.epoch for row in self.line]

    def segments(self, partition: int) -> list[EpochSegment]:
        """The segments of this partition by offset; the last one is of the current epoch, and is open."""
        found = self._segments.get(partition)
        if found is None:
            found = self._segments[partition] = segments_of(self.line, partition)
        return found

    def clamp_offset(self, partition: int, next_offset: int, epoch: Epoch) -> int:
        """A next offset that somebody reached under this epoch, as far as the current epoch has left it valid."""
        at, current = epoch, self.current()
        while at != current and at not in self._after:
            row = self._by_epoch.get(at)
            if row is None:
                return min(next_offset, self.line[0].starts[partition])
            next_offset = min(next_offset, row.starts[partition])
            at = row.parent if row.parent < at else NO_EPOCH
        after = self._after.get(at)
        return next_offset if after is None else min(next_offset, after.starts[partition])

    def is_spent(self, row: EpochRow, oldest: list[int]) -> bool:
        """True if nothing counts that was numbered in this epoch; `oldest` is the first offset of each partition."""
        after = self._after.get(row.epoch, row)
        return row.epoch != self.current() and all(
            start <= offset for start, offset in zip(after.starts, oldest, strict=True)
        )

    def check(self) -> None:
        assert self.rows, "a stream without an epoch"
        for partition in range(len(self.rows[0].starts)):
            at = segments_of(self.line, partition)
            assert at[-1].end == OFFSET_END, "the last segment is not open"
            for one, other in itertools.pairwise(at):
                assert one.start < one.end == other.start, "segments overlap or leave a gap"


def segments_of(line: list[EpochRow], partition: int) -> list[EpochSegment]:
    found: list[EpochSegment] = []
    end = OFFSET_END
    for row in reversed(line):
        start = row.starts[partition]
        if start < end:
            found.append(EpochSegment(row.epoch, start, end))
            end = start
    found.reverse()
    return found
