"""The turns of a region on its event loop: what the node asks for is performed, one turn after another.

A turn begins with the input that one pass of the event loop found, from all connections and links, and ends with one
append, one write for each client, and one pull for each link. The order of the actions is that of the fields of
`Ready`. Requests beyond the limits of a turn run in the next turn, after another pass of the event loop; until then
nothing more is read from their clients.

Room on the disk is ensured before input is executed: for what it will certainly write, and some more. If there is none,
the node rejects everything that needs a record until some is freed, except what frees some, for which the reserve is
kept (storage/disk_room.py). A turn that writes more than foreseen (FLUSHALL with many keys) takes from the reserve too.
If even that is too small, it is kept in memory; its clients, and all later requests on their connections, wait. It is
appended before anything else once there is room, and nobody has been told that it happened.

This module is compiled, because a request that comes alone pays for a whole turn. So it has no coroutines: their
exceptions outlive them where mypyc compiles them. What is not part of every turn is in the loop (runtime/loop.py).
"""

from __future__ import annotations

import asyncio
import gc
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import structlog
from librt.time import time
from mypy_extensions import mypyc_attr

from crdtstream.commands.disk import remedy
from crdtstream.connections.outputs import Messages
from crdtstream.protocols.log_port import NewRecord
from crdtstream.region.node import Node, Ready
from crdtstream.replication.membership.lifecycle_events import READY
from crdtstream.runtime.blocked_turn import NO_ROOM, Unwritten
from crdtstream.runtime.logs.logging import log
from crdtstream.runtime.metrics.meters import Meters
from crdtstream.runtime.ports import ClientPort
from crdtstream.settings.config import ALWAYS, Config
from crdtstream.storage.disk import DiskError, DiskFull
from crdtstream.storage.disk_room import DiskRoom
from crdtstream.storage.log import Log
from crdtstream.storage.recovery import LogError
from crdtstream.storage.segment import framed_bytes

TICK_S: Final = 0.1
ROOM_BYTES: Final = 1 << 20
# Small inputs of a turn ask for their room together.
ENSURED_BYTES: Final = 1 << 16
GROWTH: Final = 8
TURN_BYTES_MAX: Final = 4 << 20

logger = structlog.get_logger()


def now_ms() -> int:
    return int(time() * 1000)


class RegionFailed(Exception):
    """The region cannot continue: its log refused an append or a sync."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Turns(ABC):
    """The turns of one node and their log.

    `failed` is true until the start is in the log, and again after a failure: nothing is appended while it is true.
    """

    # The server of the clients, which needs the turns to be made.
    _server: ClientPort

    def __init__(self, config: Config, node: Node, region_log: Log, room: DiskRoom) -> None:
        self.config = config
        self.node = node
        self.log = region_log
        self.room = room
        self.meters = Meters()
        self.failed: bool = True
        # What a turn does; of a shard that has moved something else.
        self.perform_turn: Callable[[], None] = self._perform_all
        # Nothing is appended, so nothing needs room.
        self.has_moved: bool = False
        self._failure = "the region has not started yet"
        self._unwritten = Unwritten()
        self._settling: list[asyncio.Future[None]] = []
        self.scheduled = False
        self.turn_bytes = 0
        self.ensured_bytes = 0
        self._behind_bytes = 0
        self._room_needed = 0
        self._addresses: dict[str, str] = {}
        self._timer: asyncio.TimerHandle | None = None

    # What the loop adds

    @abstractmethod
    def _turn_ended(self) -> None:
        """Tell those besides the clients that a turn has ended."""

    @abstractmethod
    def _serve_requests(self) -> None:
        """Do what commands asked the process for."""

    @abstractmethod
    def _follow_config(self, config: Config) -> None:
        """Apply a changed configuration."""

    @abstractmethod
    def _publish(self, messages: Messages) -> None:
        """Send what clients published to the other shards."""

    @abstractmethod
    def _fail_with(self, reason: str) -> None:
        """End the region."""

    # Turns

    def schedule(self) -> None:
        """Schedule a turn for the next pass of the event loop, when all input of this pass has arrived."""
        if not self.scheduled:
            self.scheduled = True
            asyncio.get_running_loop().call_soon(self.run_turn)

    def run_turn(self) -> None:
        self.scheduled = False
        if self.failed:
            return
        try:
            self.meters.turn.time(self.perform_turn)
        except Exception as error:
            self.fail(error)
            return
        self.turn_bytes = self.ensured_bytes = 0
        if self._settling and not self._unwritten.records:
            self._release_settled()
        self._behind_bytes = self.node.behind_bytes()
        self._server.turn_ended()
        if not self.node.standing.writable:
            self._publish_reserve()
        if self.node.is_staging():
            gc.freeze()  # staged state is not garbage, and visiting it repeatedly takes seconds
        self._turn_ended()
        self._arm_timer()

    def _release_settled(self) -> None:
        for waiting in self._settling:
            if not waiting.done():
                waiting.set_result(None)
        self._settling.clear()

    def _flush(self) -> str:
        """Run a turn now; return why something that the node knows is not in the log, or "" if everything is."""
        self.run_turn()
        if self.failed:
            return self._failure
        return NO_ROOM if self._unwritten.records else ""

    def _perform_all(self) -> None:
        ready = self.node.ready()
        while ready is not None:
            self._perform(ready)
            if (ready.urgent or self.config.fsync == ALWAYS) and self.log.synced_position < self.log.last_position:
                self._sync_now()
            if self.node.is_behind():
                self.schedule()
                break
            ready = self.node.ready()
        self._log_notices()
        config = self.node.settings.config
        # Once the ports listen, and before peers hear of it.
        if config is not self.config and self._addresses:
            self.config = config
            self._follow_config(config)
        requests = self.node.context.requests
        if requests.rewrite or requests.acl or requests.stop or self.node.leaving.has_left():
            self._serve_requests()

    def _log_notices(self) -> None:
        """Log what the node noticed; `serving` follows the event `ready`, once the ports listen."""
        node = self.node
        for notices in (node.notices, node.news):
            for notice in notices:
                log(logger, notice.event, detail=notice.text, exc_info=notice.error)
            notices.clear()
        if self._addresses:
            self._log_events()

    def _log_events(self) -> None:
        events = self.node.chronicle.events
        for event, fields in events:
            log(logger, event, **fields)
            if event == READY:
                logger.info("serving", **self._addresses)
        events.clear()

    def _perform(self, ready: Ready) -> None:
        if ready.records:
            self._append(ready.records)
        if ready.published:
            self._publish(ready.published)
        kept = self._unwritten.keep(ready) if self._unwritten.records else ready
        for client_id, reply in kept.replies:
            self._server.write(client_id, reply)
        for client_id in kept.closing:
            self._server.close(client_id)

    def _append(self, records: list[NewRecord]) -> None:
        """Append records behind those that wait for room on the disk."""
        unwritten = self._unwritten
        assert not self.has_moved, "a shard that has moved changes nothing"
        if unwritten.records:
            records = unwritten.records + records
        try:
            self.meters.append.time(self.log.append, records)
        except DiskFull:
            unwritten.records = records
            self._lack_room(framed_bytes(records))
            return
        if unwritten.records:
            unwritten.records = []
            self._perform(unwritten.release())

    def _sync_now(self) -> None:
        ready = self.node.ready()
        if ready is not None:
            self._perform(ready)
        self.node.synced(self.meters.sync_log(self.log))

    def fail(self, error: Exception) -> None:
        """End the region; nothing more is appended."""
        if self.failed:
            return
        self.failed = True
        expected = isinstance(error, LogError | DiskError)
        reason = str(error) if expected else f"{type(error).__name__}: {error}".removesuffix(": ")
        self._failure = f"the region failed: {reason}"
        logger.error("region-failed", reason=reason, exc_info=None if expected else error)
        self._fail_with(reason)

    # Room

    def expect(self, arrived_bytes: int, held_bytes: int) -> None:
        """Ensure that there is room for input that is about to be executed: new bytes, and earlier ones of a request
        that they complete.

        Small requests may become records of several times their size; a large request is mostly its values. Requests
        that wait for a later turn need their room then.
        """
        expect_input(self, arrived_bytes, held_bytes)

    def ensure_room(self, byte_count: int) -> None:
        """Ensure that there is room for a turn that writes so much, and for a few more small inputs."""
        ensured_bytes = byte_count + ENSURED_BYTES
        if self._ask_room(ROOM_BYTES + ensured_bytes + GROWTH * self._behind_bytes):
            self.ensured_bytes = ensured_bytes

    def finish_input(self) -> None:
        """Schedule a turn after input was executed, or run it at once if there was much input."""
        end_input(self)

    def _ask_room(self, byte_count: int) -> bool:
        if self.has_moved:
            return True
        try:
            room = self.room.has_room(byte_count)
        except (LogError, DiskError) as error:
            self.fail(error)
            return False
        if not room:
            self._lack_room(byte_count)
        return room

    def _lack_room(self, byte_count: int) -> None:
        self._room_needed = max(self._room_needed, 2 * ROOM_BYTES, byte_count)
        if self.node.standing.writable:
            self._publish_reserve()
            self.measure()
            volume = self.node.standing.volume
            logger.warning(
                "disk-full",
                data=self.config.data,
                needed_bytes=volume.needed_bytes,
                free_bytes=volume.free_bytes,
                log_bytes=volume.log_bytes,
                remedy=remedy(self.node.context),
            )

    def measure(self) -> None:
        """Note what INFO and metrics tell of the volume."""
        standing = self.node.standing
        volume, room = standing.volume, self.room
        volume.free_bytes = room.free_bytes()
        volume.needed_bytes = 0 if standing.writable else room.needed_bytes(self._room_needed)
        volume.reserve_bytes = room.reserve.held_bytes
        volume.log_bytes = self.log.byte_count()

    def _publish_reserve(self) -> None:
        """Tell the node what the reserve still takes of what frees room: nothing while a turn waits for room itself."""
        waits = bool(self._unwritten.records)
        room = self.room
        self.node.writable(False, 0 if waits else room.removal_bytes(), 0 if waits else room.member_bytes())

    def _seek_room(self) -> None:
        """While writes are rejected, check whether there is as much room as is needed again."""
        if self._ask_room(self._room_needed):
            if self._unwritten.records:
                self._append([])
            if not self._unwritten.records:
                logger.info("disk-has-space", data=self.config.data)
                self._room_needed = 0
                self.node.writable(True)

    # Time

    def _tick_once(self) -> None:
        if not self.failed and not self.has_moved:
            try:
                self.node.tick(now_ms())
            except Exception as error:
                self.fail(error)
            self.schedule()

    def _arm_timer(self) -> None:
        """Wake at the next deadline of a blocked client, if it is before the next tick."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.node.next_deadline_ms()
        if deadline_ms is not None:
            delay_s = max(0.0, (deadline_ms - now_ms()) / 1000)
            if delay_s < TICK_S:
                self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick_once)


# What each input needs. Functions, because compiled a method that a subclass may override is looked up by its name.


def expect_input(turns: Turns, arrived_bytes: int, held_bytes: int) -> None:
    turns.turn_bytes += GROWTH * arrived_bytes + held_bytes
    if turns.turn_bytes > turns.ensured_bytes and turns.node.standing.writable:
        turns.ensure_room(turns.turn_bytes)


def end_input(turns: Turns) -> None:
    if turns.turn_bytes > GROWTH * TURN_BYTES_MAX:
        turns.run_turn()
    elif not turns.scheduled:
        turns.schedule()
