"""Histograms of times.

Recording takes well under a microsecond, and is always on. Only the count of a bucket and a sum change, so a scrape may
read while a thread records; a reading may then be one observation behind. Compiled, because every turn records two.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

Result = TypeVar("Result")

FAST_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
SLOW_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """Counts of observations by upper bound (inclusive) in seconds; the last count is of those above all bounds."""

    __slots__ = ("bounds_s", "counts", "total_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds_s, seconds)] += 1
        self.total_s += seconds

    def time(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Run work and observe how long it took, also if it fails."""
        began_s = perf_counter()
        try:
            return work(*arguments)
        finally:
            self.observe(perf_counter() - began_s)
