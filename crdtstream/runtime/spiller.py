"""Spills blocks beside the turns (connections/blocks/spilling.py), while they take more memory than is allowed.

A slice runs on the event loop between two turns, for about `SLICE_S`, or longer far beyond what is allowed; then the
loop is free for `REST_S`. What that freed is returned to the system on a thread, `GIVEN_BACK_BYTES` at a time.
"""

from __future__ import annotations

import asyncio
import time

from crdtstream.region.node import Node
from crdtstream.runtime import process
from crdtstream.storage.log import Log

LOOK_S = 0.05
SLICE_S = 0.0005
REST_S = 0.001
SLICE_COST = 2_000
GIVEN_BACK_BYTES = 16 << 20


class Spiller:
    """The spilling of one region."""

    def __init__(self, node: Node, log: Log) -> None:
        self._node = node
        self._log = log
        self._given_back_bytes = 0

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            while self._slice():
                await asyncio.sleep(REST_S)
            await self._give_back()

    def _slice(self) -> bool:
        """Work for a moment; true if there is more to do."""
        spilling = self._node.context.spilling
        end_s = time.perf_counter() + SLICE_S * spilling.urgency()
        more = spilling.step(SLICE_COST, self._log.appended_bytes)
        while more and time.perf_counter() < end_s:
            more = spilling.step(SLICE_COST, self._log.appended_bytes)
        return more

    async def _give_back(self) -> None:
        """Return what was freed to the system, if that is much."""
        freed_bytes = self._node.context.spilling.walk.freed_bytes
        if freed_bytes - self._given_back_bytes >= GIVEN_BACK_BYTES:
            self._given_back_bytes = freed_bytes
            await asyncio.get_running_loop().run_in_executor(None, process.trim)
