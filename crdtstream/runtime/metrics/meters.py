"""Times that only the runtime sees: appends and syncs of the log, turns, checkpoints, a late event loop."""

from __future__ import annotations

import asyncio
from time import perf_counter

from crdtstream.runtime.metrics.histogram import FAST_S, SLOW_S, Histogram
from crdtstream.storage.log import Log

CHECKPOINT_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


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
