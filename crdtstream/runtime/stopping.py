"""A clean stop: takes a checkpoint first, so that the next start need not replay the log; the region serves meanwhile.

No checkpoint is taken if the log behind the last one is short (`stop_checkpoint_log_bytes`), if the region has no state
to describe yet, or if `stop_checkpoint_ms_max` is 0. That setting also limits its duration, and a second stop signal
abandons it: the process may be killed soon, and the log has everything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from crdtstream.node import Node
from crdtstream.runtime.saver import Saver

logger = structlog.get_logger()


class Stopping:
    """The stop of one region; `end` is called when nothing remains to wait for."""

    def __init__(self, node: Node, saver: Saver, end: Callable[[], None]) -> None:
        self._node = node
        self._saver = saver
        self._end = end
        self.task: asyncio.Task[None] | None = None

    def ask(self, at_once: bool) -> None:
        """Stop, with a checkpoint first unless this is the second request."""
        # A running checkpoint means that this is the second request: stop without waiting for it.
        if self.task is None and not at_once and self._pays():
            self.task = asyncio.get_running_loop().create_task(self._save())
        else:
            self._end()

    def _pays(self) -> bool:
        limits = self._node.limits
        return limits.stop_checkpoint_ms_max > 0 and self._saver.lacks(limits.stop_checkpoint_log_bytes)

    async def _save(self) -> None:
        began_s = time.monotonic()
        limit_ms = self._node.limits.stop_checkpoint_ms_max
        logger.info("stop-checkpoint", stop_checkpoint_ms_max=limit_ms)
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._saver.save_soon()
        except TimeoutError:
            logger.warning("stop-checkpoint-skipped", stop_checkpoint_ms_max=limit_ms)
        else:
            logger.info("stopping", seconds=round(time.monotonic() - began_s, 3))
        self._end()
