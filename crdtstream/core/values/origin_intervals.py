"""Intervals of IDs by origin: what a read delivers, or what leaves the pending entries.

Mostly this is one interval of one origin, which is kept as numbers: as a dictionary of a list of pairs it is seven
objects, and making and freeing these takes longer than all that is done with them.

Intervals are `(from, to]`.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.values.causality import NO_ORIGIN
from crdtstream.core.values.entry_id import ID_MIN, EntryId
from crdtstream.core.values.intervals import Interval


class OriginIntervals:
    """The intervals of each origin, ascending; immutable. If there `is_one`, `origin`, `low` and `high` are it."""

    __slots__ = ("_all", "high", "low", "origin")

    def __init__(self, origin: int, low: EntryId, high: EntryId) -> None:
        self.origin = origin
        self.low = low
        self.high = high
        self._all: dict[int, list[Interval]] | None = None

    @staticmethod
    def of(pieces: dict[int, list[Interval]]) -> OriginIntervals:
        if len(pieces) == 1:
            for origin, mine in pieces.items():
                if len(mine) == 1:
                    return OriginIntervals(origin, mine[0][0], mine[0][1])
        made = OriginIntervals(NO_ORIGIN, ID_MIN, ID_MIN)
        made._all = pieces
        return made

    def is_one(self) -> bool:
        """True if this is one interval of one origin."""
        return self._all is None

    def as_dict(self) -> dict[int, list[Interval]]:
        pieces = self._all
        return {self.origin: [(self.low, self.high)]} if pieces is None else pieces

    def high_of(self, origin: int) -> EntryId:
        """Where the last interval of this origin ends."""
        pieces = self._all
        if pieces is None:
            assert origin == self.origin
            return self.high
        return pieces[origin][-1][1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OriginIntervals) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash((self.origin, self.low, self.high))

    def __repr__(self) -> str:
        return f"OriginIntervals({self.as_dict()})"


NOTHING: Final = OriginIntervals.of({})
