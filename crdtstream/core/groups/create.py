"""One create of a consumer group, and what is recorded under it in all regions.

A RESET puts a new start under each create that it saw, with a number above those of all resets that it saw; the highest
`(number, origin)` counts. Acknowledgements name their reset as they name their creates, and count under no other: what
was acknowledged before is wanted again, in whatever order the two arrive. Below the start that a reset set they count
for nothing: what lies there was delivered before, and a concurrent reset of another create may want it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from crdtstream.core.effects import Position, ResetName
from crdtstream.core.groups.properties import NO_REGISTERS
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId
from crdtstream.core.values.intervals import Interval, IntervalSet

NEVER_RESET: Final[ResetName] = (0, 0)


class Create:
    """One surviving XGROUP CREATE: its start, the reset that counts (`NEVER_RESET` without one) with the start that it
    set, and the runs and properties recorded under it.
    """

    __slots__ = ("properties", "reset", "runs", "start")

    def __init__(self, start: Position) -> None:
        self.start = start
        self.reset = NEVER_RESET
        self.runs: dict[int, IntervalSet] = {}
        self.properties = NO_REGISTERS

    def restart(self, reset: ResetName, start: Position) -> bool:
        """Begin again behind this start, if the reset counts; runs under an earlier one do not count any more."""
        if reset <= self.reset:
            return False
        self.reset, self.start, self.runs = reset, start, {}
        return True

    def add_runs(self, origin: int, pieces: list[Interval]) -> None:
        if pieces:
            mine = self.runs.setdefault(origin, IntervalSet())
            for low, high in pieces:
                mine.add(low, high)

    def join_runs(self, other: Create) -> bool:
        """Join another state of this create; true if it has a later reset."""
        restarted = self.restart(other.reset, other.start)
        if other.reset == self.reset:
            for origin, pieces in other.runs.items():
                self.runs.setdefault(origin, IntervalSet()).union(pieces)
        return restarted


def counted(creates: dict[Dot, Create], dots: list[Dot], resets: Sequence[ResetName]) -> list[Create]:
    """The creates with these dots that survive, and that were not reset since; `resets` is empty for none."""
    if not resets:
        return [creates[dot] for dot in dots if dot in creates and creates[dot].reset == NEVER_RESET]
    named = [(creates[dot], reset) for dot, reset in zip(dots, resets, strict=False) if dot in creates]
    return [create for create, reset in named if create.reset == reset]


def resets_of(creates: dict[Dot, Create]) -> list[ResetName]:
    """The reset of each create, in the order of their dots; empty if there was none."""
    resets = [creates[dot].reset for dot in sorted(creates)]
    return resets if any(reset != NEVER_RESET for reset in resets) else []


def counts_above(creates: list[Create], origin: int) -> EntryId:
    """Under one of these creates runs count above this ID. XGROUP SETID may want what lies below the start of a create
    that was never reset, in one region.
    """
    least = ID_MAX
    for create in creates:
        if create.reset == NEVER_RESET:
            return ID_MIN
        least = min(least, create.start.get(origin))
    return least


def parts_above(pieces: list[Interval], limit: EntryId) -> list[Interval]:
    """The parts of these intervals that lie above this ID."""
    if limit == ID_MIN:
        return pieces
    return [(max(low, limit), high) for low, high in pieces if high > limit]


def start_of(creates: dict[Dot, Create]) -> Position:
    """Where a group with these creates begins: behind the lowest ID of each origin."""
    starts = [create.start for create in creates.values()]
    return reduce(Position.meet, starts)
