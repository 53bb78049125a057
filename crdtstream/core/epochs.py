"""Epochs: which process numbers the messages of a partitioned stream, and which numbers count.

A partition has one home at a time. Whoever becomes the home raises an epoch, `(number, origin)`, from the next offset
of each partition as it knows them then. Two processes may raise an epoch without knowing of each other, and a home that
was away may have numbered beyond the start of the next epoch. So the order of epochs decides: an offset belongs to the
highest epoch that starts at or below it, and what another epoch numbered there does not count.

Of one partition, the epochs in force are *segments* `[start, end)` that follow each other without a gap. A message of
epoch `(number, origin)` lies in the entry tree of that origin under the ID `number-offset`, so a segment is one range
of one tree, and the IDs of a tree ascend whatever happens to its origin.

Reference: the epochs of a Kafka partition's leaders (KIP-101), here without the consensus that elects them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

Epoch = tuple[int, int]
# Offsets stay within what a float holds exactly, because clients in JavaScript read them as floats.
OFFSET_END: Final = 1 << 53


class EpochRow:
    """One epoch, and its first offset in each partition."""

    __slots__ = ("epoch", "starts")

    def __init__(self, epoch: Epoch, starts: list[int]) -> None:
        self.epoch = epoch
        self.starts = starts


class Segment:
    """The offsets [start, end) of a partition, numbered in one epoch."""

    __slots__ = ("end", "number", "origin", "start")

    def __init__(self, epoch: Epoch, start: int, end: int) -> None:
        self.number, self.origin = epoch
        self.start = start
        self.end = end


class Epochs:
    """The epochs of one stream that a region knows, at least one, ascending."""

    __slots__ = ("_segments", "rows")

    def __init__(self, rows: Iterable[EpochRow]) -> None:
        self.rows = sorted(rows, key=lambda row: row.epoch)
        self._segments: dict[int, list[Segment]] = {}

    def current(self) -> Epoch:
        return self.rows[-1].epoch

    def knows(self, epoch: Epoch) -> bool:
        return any(row.epoch == epoch for row in self.rows)

    def segments(self, partition: int) -> list[Segment]:
        """The segments of this partition by offset; the last one is of the current epoch, and is open."""
        found = self._segments.get(partition)
        if found is None:
            found = self._segments[partition] = segments_of(self.rows, partition)
        return found

    def settle(self, partition: int, next_offset: int, epoch: Epoch) -> int:
        """A next offset that somebody reached under this epoch, as far as the epochs after it have left it valid."""
        for row in self.rows:
            if row.epoch > epoch and row.starts[partition] < next_offset:
                next_offset = row.starts[partition]
        return next_offset

    def check(self) -> None:
        assert self.rows, "a stream without an epoch"
        for partition in range(len(self.rows[0].starts)):
            at = segments_of(self.rows, partition)
            assert at[-1].end == OFFSET_END, "the last segment is not open"
            for one, other in itertools.pairwise(at):
                assert one.start < one.end == other.start, "segments overlap or leave a gap"


def segments_of(rows: list[EpochRow], partition: int) -> list[Segment]:
    found: list[Segment] = []
    end = OFFSET_END
    for row in reversed(rows):
        start = row.starts[partition]
        if start < end:
            found.append(Segment(row.epoch, start, end))
            end = start
    found.reverse()
    return found
