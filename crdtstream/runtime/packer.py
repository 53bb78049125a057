"""Compresses blocks that nobody reads (core/packing_walk.py), while the region has little else to do.

A slice runs on the event loop between two turns, for about `SLICE_S`; then the loop is free for `REST_S`. Nothing is
compressed while the process is busy with other work for more than `BUSY` of a processor: under load every microsecond
goes to clients, and memory waits. Only when `memory_bytes_max` is reached does it not wait. Waiting for a processor
counts as work (links/pull_schedule.py): a region that only receives uses little of one, and where there is none to
spare, what it compresses is taken from the regions that write.

What compression freed is returned to the system on a thread, `GIVEN_BACK_BYTES` at a time: that takes a few
milliseconds, during which the loop may have to wait for memory. The rest follows at the end of a walk.
"""

from __future__ import annotations

import asyncio
import time

from crdtstream.region.node import Node
from crdtstream.runtime import process
from crdtstream.runtime.links.pull_schedule import PullInterval

LOOK_S = 0.1
SLICE_S = 0.0005
REST_S = 0.001
SLICE_COST = 2_000
BUSY = 0.25
GIVEN_BACK_BYTES = 16 << 20
REST_BYTES = 256 << 10


class Packer:
    """The idle work of one region."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._wanted = PullInterval()
        self._own_s = self._looked_s = self._used_s = 0.0
        self._given_back_bytes = 0

    def _time_used_s(self) -> float:
        return time.process_time() + self._wanted.waited_s()

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            self._is_busy()  # the first look has nothing to compare with
            while True:
                await asyncio.sleep(LOOK_S)
                if not self._is_busy():
                    await self._work()
        finally:
            self._wanted.close()

    async def _work(self) -> None:
        """Walk to the end of the walk, or until there is other work."""
        while self._slice():
            await asyncio.sleep(REST_S)
            await self._give_back(GIVEN_BACK_BYTES)
            if time.perf_counter() - self._looked_s >= LOOK_S and self._is_busy():
                return
        await self._give_back(REST_BYTES)

    def _is_busy(self) -> bool:
        """True if other work has taken much of the time since the last call."""
        now_s, used_s = time.perf_counter(), self._time_used_s()
        others_s = used_s - self._used_s - self._own_s
        passed_s = now_s - self._looked_s
        self._looked_s, self._used_s, self._own_s = now_s, used_s, 0.0
        return others_s > BUSY * passed_s and not self._node.standing.memory_short

    def _slice(self) -> bool:
        """Work for a moment; true if there is more to do."""
        packing, after_ms = self._node.context.packing, self._node.limits.cold_after_ms
        began_s = time.perf_counter()
        more = packing.step(SLICE_COST, after_ms)
        while more and time.perf_counter() - began_s < SLICE_S:
            more = packing.step(SLICE_COST, after_ms)
        self._own_s += time.perf_counter() - began_s
        return more

    async def _give_back(self, byte_count: int) -> None:
        """Return freed memory if it is at least this much."""
        saved_bytes = self._node.context.packing.saved_bytes
        if saved_bytes - self._given_back_bytes >= byte_count:
            self._given_back_bytes = saved_bytes
            await asyncio.get_running_loop().run_in_executor(None, process.trim)
