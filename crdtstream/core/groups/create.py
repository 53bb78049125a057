"""One create of a consumer group, and what is recorded under it in all regions."""

from __future__ import annotations

from crdtstream.core.effects import Position
from crdtstream.core.groups.properties import NO_REGISTERS
from crdtstream.core.values.intervals import IntervalSet


class Create:
    """One surviving XGROUP CREATE: its start, and the runs and properties recorded under it."""

    __slots__ = ("properties", "runs", "start")

    def __init__(self, start: Position) -> None:
        self.start = start
        self.runs: dict[int, IntervalSet] = {}
        self.properties = NO_REGISTERS
