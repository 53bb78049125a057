"""A clean stop: a checkpoint, so that the next start need not replay the log, then a handover to the linked peers.

No checkpoint is taken if the log behind the last one is short (`stop_checkpoint_log_bytes`), if the region has no state
to describe yet, or if `stop_checkpoint_ms_max` is 0. That setting also limits its duration; the region serves
meanwhile.

Then the region refuses writes, and its linked peers take what they lack, for `stop_handover_ms_max` at most: what
clients were told is in other regions before it becomes unreachable. Where nobody lacks anything, the stop is immediate.

A second stop signal ends both: the process may be killed soon, and the log has everything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from crdtstream.region.departing import hold_clients
from crdtstream.region.node import Node
from crdtstream.runtime.saver import Saver

LOOK_S = 0.005

logger = structlog.get_logger()


class Stopping:
    """The stop of one region; `end` is called when nothing remains to wait for, `schedule` runs a turn soon."""

    def __init__(self, node: Node, saver: Saver, end: Callable[[], None], schedule: Callable[[], None]) -> None:
        self._node = node
        self._saver = saver
        self._end = end
        self._schedule = schedule
        self.task: asyncio.Task[None] | None = None

    def ask(self, saves: bool, hands_over: bool) -> None:
        """Stop, with a checkpoint first if that pays, and a handover; a second request stops at once."""
        if self.task is None and ((saves and self._pays()) or (hands_over and self._lacks())):
            self.task = asyncio.get_running_loop().create_task(self._stop(saves, hands_over))
        else:
            self._end()

    async def _stop(self, saves: bool, hands_over: bool) -> None:
        if saves and self._pays():
            await self._save()
        if hands_over and self._lacks():
            await self._hand_over()
        self._end()

    async def prepare_move(self) -> None:
        """The same for a shard that moves, whose clients are held and not refused. They wait from then on, so a command
        that takes several turns is cut short: its client asks again at the new place.
        """
        if self._pays():
            await self._save()
        hold_clients(self._node)
        if self._node.limits.stop_handover_ms_max and self._node.draining.linked_lack():
            await self._hand_over()

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

    def _lacks(self) -> bool:
        """Return whether a linked peer lacks something; from the first call on no client writes."""
        node = self._node
        if not node.limits.stop_handover_ms_max or not node.draining.is_linked():
            return False
        if not node.draining.is_draining():
            node.drain(f"region {node.settings.config.name} is stopping and takes no writes: use another region")
            self._schedule()
        return bool(node.draining.linked_lack())

    async def _hand_over(self) -> None:
        began_s = time.monotonic()
        limit_ms = self._node.limits.stop_handover_ms_max
        try:
            async with asyncio.timeout(limit_ms / 1000):
                while self._node.draining.linked_lack():
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            for name, region, left in self._node.draining.linked_lack():
                logger.warning("handover-incomplete", peer=name, peer_region=region, effects=left)
        else:
            logger.info("handed-over", seconds=round(time.monotonic() - began_s, 3))
