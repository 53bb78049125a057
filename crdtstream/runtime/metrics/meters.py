"""Times that only the runtime sees, as histograms: appends and syncs of the log, turns, checkpoints, a late event loop.

Recording takes well under a microsecond, and is always on. Only the count of a bucket and a sum change, so a scrape may
read while a thread records; a reading may then be one observation behind.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

from crdtstream.storage.log import Log

Result = TypeVar("Result")

FAST_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
SLOW_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CHECKPOINT_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


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


class Meters:
    """The histograms of one region; `sync_began_s` is set while a sync runs, by the clock of `perf_counter`."""

    def __init__(self) -> None:
        self.append = Histogram(FAST_S)
        self.sync = Histogram(SLOW_S)
        self.turn = Histogram(FAST_S)
        self.loop_lag = Histogram(SLOW_S)
        self.checkpoint = Histogram(CHECKPOINT_S)
        self.scrape_slice = Histogram(FAST_S)
        self.checkpoint_failures = 0
        self.sync_began_s: float | None = None

    def sync_log(self, log: Log) -> int:
        """Sync, and time it if there is anything to sync; return the last durable position. Runs on any thread."""
        if log.synced_position == log.last_position:
            return log.sync()
        self.sync_began_s = perf_counter()
        try:
            return self.sync.time(log.sync)
        finally:
            self.sync_began_s = None

    def syncing_s(self) -> float:
        """For how long the running sync has been running; 0 if none is."""
        began_s = self.sync_began_s
        return 0.0 if began_s is None else perf_counter() - began_s

    async def sleep(self, seconds: float) -> None:
        """Sleep, and observe how late the event loop wakes: what every client waits at that moment."""
        due_s = perf_counter() + seconds
        await asyncio.sleep(seconds)
        self.loop_lag.observe(max(0.0, perf_counter() - due_s))
