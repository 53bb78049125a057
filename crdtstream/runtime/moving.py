"""A shard that moves: this process ends its work as at a stop, and then tells clients where the shard is.

    serves       a checkpoint is taken, if it pays
    holds        requests wait, linked peers take what they lack, the log gets the mark of a clean stop, and the
                 directory is handed over to the new address (shard_place.py) and unlocked
    holds still  until the shard answers there, for `moved_hold_ms_max` at most
    redirects    for `moved_answer_ms`, or until the shard is to run here again

It begins when the supervisor writes a map by which the shard does not run here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from crdtstream.region.departing import depart, tick_away
from crdtstream.region.node import Node
from crdtstream.runtime.shard_map_file import ShardMapFile, ShardPlace
from crdtstream.runtime.shard_place import stays
from crdtstream.runtime.stopping import Stopping
from crdtstream.settings.config import Config

LOOK_S = 0.05
ANSWER_S = 1.0

logger = structlog.get_logger()


class Moving:
    """The move of one shard. `give_up` ends its work and hands its directory over to an address, `schedule` runs a turn
    soon.
    """

    def __init__(
        self,
        node: Node,
        stopping: Stopping,
        file: ShardMapFile,
        give_up: Callable[[str], Awaitable[None]],
        schedule: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._node = node
        self._stopping = stopping
        self._file = file
        self._give_up = give_up
        self._schedule = schedule
        self._now_ms = now_ms

    async def run(self) -> None:
        """Return once nobody has to be told any more."""
        await self._stopping.prepare_move()
        held_s = time.monotonic()
        self._file.has_changed()
        await self._give_up(self._file.place.address)
        answers = await self._await_successor()
        seconds = round(time.monotonic() - held_s, 3)
        logger.info("clients-redirected", address=self._file.place.address, answers=answers, seconds=seconds)
        await self._redirect()

    async def _await_successor(self) -> bool:
        """Return whether the shard answers at its new place in time."""
        deadline_s = time.monotonic() + self._node.limits.moved_hold_ms_max / 1000
        while not await does_serve(self._file.place):
            if time.monotonic() >= deadline_s or self._file.is_here:
                return False
            await asyncio.sleep(LOOK_S)
            self._file.has_changed()
        return True

    async def _redirect(self) -> None:
        deadline_s = time.monotonic() + self._node.limits.moved_answer_ms / 1000
        while not self._file.is_here:
            text = f"shard {self._node.settings.config.shard} has moved to {self._file.place.address}: ask it there"
            depart(self._node, self._file.current(away=True), text)
            while not self._file.has_changed():
                self._schedule()
                if time.monotonic() >= deadline_s:
                    return
                await asyncio.sleep(LOOK_S)
                tick_away(self._node, self._now_ms())


async def does_serve(place: ShardPlace) -> bool:
    """Return whether a region answers there, and is not loading. Behind TLS it is enough that it listens."""
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(place.host, place.port or place.tls_port)
            try:
                if not place.port:
                    return True
                writer.write(b"PING\r\n")
                line = await reader.readline()
                return line != b"" and not line.startswith(b"-LOADING")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


async def require_unserved(config: Config, place: ShardPlace) -> None:
    """Raise ConfigError if the shard is to move there, and has been started there already (`replace`). Behind TLS a
    process that has moved, and only sends clients here, could not be told from one that serves.
    """
    if place.port and await does_serve(place):
        raise stays(config, "was not handed over, and the shard serves there", place.address)
