"""One turn after another: performs what the node wants on asyncio.

A turn begins with the input that one pass of the event loop found, from all connections and links, and ends with one
append, one write for each client, and one pull for each link. Nothing is decided here; the order is that of the fields
of `Ready`.

`always` syncs in the loop, one sync for a turn, because a thread costs more than the sync saves. `everysec` and `no`
sync on a thread; `no` too, at long intervals, because peers count on durable progress.

Room on the disk is asked for before input is executed: for what it is sure to write and a reserve besides. When there
is none, the node refuses what needs a record, until there is room for what was asked. A turn that writes more than was
foreseen (FLUSHALL of many keys) may still find the disk full. It is kept then, its clients and all who ask more on
their connections wait, and it is appended before anything else once there is room; nobody was told that it happened.

Whatever raises here ends the region: nothing more is appended, and the next start takes the state from the log.
"""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Protocol

import structlog

from crdtstream.commands.stopwatch import Stopwatch
from crdtstream.config import ALWAYS, EVERYSEC, Config
from crdtstream.node import Node, Ready
from crdtstream.replication.turn import Record
from crdtstream.replication.wire_pb2 import Message
from crdtstream.runtime import process
from crdtstream.runtime.config_file import rewrite_file
from crdtstream.runtime.grpc_transport import GrpcTransport
from crdtstream.runtime.logging import configure_logging
from crdtstream.runtime.saver import Saver
from crdtstream.storage.checkpoint import Checkpointer
from crdtstream.storage.disk import DiskError, DiskFull, RealDisk
from crdtstream.storage.log import Log
from crdtstream.storage.recovery import LogError
from crdtstream.storage.restore import open_storage
from crdtstream.storage.segment import framed_bytes

TICK_S = 0.1
EVERYSEC_S = 1.0
ROOM_BYTES = 1 << 20
GROWTH = 8
TURN_BYTES_MAX = 4 << 20
NONCE_BITS = 64
RUN_ID_BYTES = 20

logger = structlog.get_logger()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def boot_id() -> bytes:
    """The kernel's boot: after another one, what was not synced may be gone."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read().strip()
    except OSError:
        return secrets.token_bytes(16)


class RegionFailed(Exception):
    """The region cannot go on: its log refused an append or a sync."""


class ClientPort(Protocol):
    """A server whose clients the node answers."""

    async def start(self) -> str: ...

    def stop(self) -> None: ...

    def write(self, client_id: int, reply: bytes) -> None: ...

    def close(self, client_id: int) -> None: ...


class Unwritten:
    """Records that found the disk full, and what may be said only after them."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._replies: dict[int, bytes] = {}
        self._closing: list[int] = []

    def keep(self, ready: Ready) -> Ready:
        """Keep what this turn says of the records, and whatever comes behind that on a connection; the rest is due."""
        due: list[tuple[int, bytes]] = []
        for client_id, reply in ready.replies:
            if ready.records or client_id in self._replies:
                self._replies[client_id] = self._replies.get(client_id, b"") + reply
            else:
                due.append((client_id, reply))
        self._closing += [client_id for client_id in ready.closing if client_id in self._replies]
        return Ready([], due, [client_id for client_id in ready.closing if client_id not in self._replies])

    def release(self) -> Ready:
        """The records are written."""
        ready = Ready([], list(self._replies.items()), self._closing)
        self._replies = {}
        self._closing = []
        return ready

    def __len__(self) -> int:
        return len(self.records)


class RoomyNode:
    """The node, as links see it; a message from a peer waits for room on the disk like a client's request."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._node = loop.node
        self.link_opened = loop.node.link_opened
        self.link_closed = loop.node.link_closed
        self.outgoing = loop.node.outgoing
        self.peer_met = loop.node.peer_met
        self.welcomes = loop.node.exchange.welcomes
        self.link_verdict = loop.node.link_verdict

    def receive(self, link_id: int, message: Message, now_ms: int) -> None:
        if not self._loop.failed:
            self._loop.expect(0, message.ByteSize())
            self._node.receive(link_id, message, now_ms)


class Loop:
    """One region's node on an event loop; `make_port` makes the server that carries its clients.

    `failed` holds until the start is in the log, and from a failure on: nothing is appended then.
    """

    def __init__(self, config: Config, make_port: Callable[[Loop], ClientPort]) -> None:
        self.config = config
        self.node = Node(config, now_ms())
        self._introduce()
        self._disk = RealDisk(config.data)
        self._log, self._checkpointer = self._open_storage()
        self._unwritten = Unwritten()
        self._server = make_port(self)
        self._transport = GrpcTransport(config, RoomyNode(self), self.schedule, now_ms, self.fail)
        self._scheduled = False
        self.failed = True
        self._turn_bytes = 0
        self._room_needed = 0
        self._damages_told = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ended: asyncio.Future[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def _introduce(self) -> None:
        """What only the process knows of itself, and a clock for statistics."""
        self.node.context.stopwatch = Stopwatch(time.perf_counter_ns)
        about = self.node.context.about
        about.process_id = os.getpid()
        about.run_id = secrets.token_hex(RUN_ID_BYTES)
        about.system_bytes = process.system_bytes()
        self.node.observe(*process.usage())

    def _open_storage(self) -> tuple[Log, Checkpointer]:
        """The collector rests meanwhile, and never visits what was read: it finds nothing to free there."""
        began_s = time.monotonic()
        gc.disable()
        try:
            log, checkpointer = open_storage(
                self._disk,
                self.node,
                salt=secrets.randbelow(2**32 - 1) + 1,
                segment_bytes_max=self.config.limits.segment_bytes_max,
            )
        finally:
            gc.enable()
        gc.freeze()
        begun = 0 if checkpointer.manifest is None else checkpointer.manifest.begun
        seconds = round(time.monotonic() - began_s, 3)
        logger.info("disk read", checkpoint=begun, records=log.last_position - begun, seconds=seconds)
        log.sync()
        return log, checkpointer

    async def run(self) -> None:
        """Serve until `stop` or a failure; raises RegionFailed after a failure."""
        self._ended = asyncio.get_running_loop().create_future()
        try:
            await self._start()
            await self._ended
        finally:
            await self._close()

    async def _start(self) -> None:
        running = asyncio.get_running_loop()
        saver = Saver(self.node, self._log, self._checkpointer, self._settle, now_ms)
        self.node.start(self._log, boot_id(), secrets.randbits(NONCE_BITS), now_ms())
        self._sync_now()
        self.failed = False
        address = await self._server.start()
        await self._transport.start()
        self._tasks = [running.create_task(self._guard(work)) for work in (self._tick(), self._sync(), saver.run())]
        self.schedule()
        logger.info(
            "serving",
            region=self.config.name,
            redis=address,
            replication=f"{self.config.replication_bind}:{self._transport.port}",
        )

    async def _guard(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception as error:
            self.fail(error)

    def stop(self) -> None:
        """Stop cleanly: everything pending is written, synced and marked."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._transport.stop()
        if not self.failed:
            self._stop_log()
        self.failed = True
        if self._timer is not None:
            self._timer.cancel()
        self._server.stop()
        self._disk.close()

    def _stop_log(self) -> None:
        """The last turn, with the mark of a clean stop; a log that does not take it has none."""
        try:
            self._perform(self.node.stop())
            self._log.sync()
        except (LogError, DiskError) as error:
            logger.error("the stop is not clean", reason=str(error))
        if self._unwritten.records:
            logger.error("the disk is full: what nobody was told of is not written", records=len(self._unwritten))

    # Turns

    def schedule(self) -> None:
        """A turn at the next pass of the event loop, after all input of this pass is in."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self.failed:
            return
        try:
            self._perform_all()
        except Exception as error:
            self.fail(error)
            return
        self._turn_bytes = 0
        if self.node.exchange.staging is not None:
            gc.freeze()  # a state that arrives is no garbage, and visiting it again and again takes seconds
        self._transport.wake()
        self._arm_timer()

    def _settle(self) -> bool:
        """A turn now; whether all that the node knows is in the log."""
        self._turn()
        return not self.failed and not self._unwritten.records

    def _perform_all(self) -> None:
        ready = self.node.ready()
        while ready is not None:
            self._perform(ready)
            if (ready.urgent or self.config.fsync == ALWAYS) and self._log.synced_position < self._log.last_position:
                self._sync_now()
            ready = self.node.ready()
        if self.node.notices:
            self._tell()
        context = self.node.context
        if context.rewrite_wanted:
            self.node.config_rewritten(rewrite_file(context.config))
            self.schedule()
        if context.stop_wanted:
            self.stop()

    def _tell(self) -> None:
        for text, error in self.node.notices:
            logger.warning(text, exc_info=error)
        self.node.notices.clear()

    def _perform(self, ready: Ready) -> None:
        if ready.records:
            self._append(ready.records)
        kept = self._unwritten.keep(ready) if self._unwritten.records else ready
        for client_id, reply in kept.replies:
            self._server.write(client_id, reply)
        for client_id in kept.closing:
            self._server.close(client_id)

    def _append(self, records: list[Record]) -> None:
        """Append, behind what waits for room."""
        unwritten = self._unwritten
        if unwritten.records:
            records = unwritten.records + records
        try:
            self._log.append(records)
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
        self.node.synced(self._log.sync())

    def fail(self, error: Exception) -> None:
        """The region ends, and appends nothing more."""
        if self.failed:
            return
        self.failed = True
        expected = isinstance(error, LogError | DiskError)
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        logger.error("the region ends", reason=reason, exc_info=None if expected else error)
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(RegionFailed(reason))

    # Room

    def expect(self, arrived_bytes: int, held_bytes: int) -> None:
        """Input is about to be executed: bytes that arrived now, and earlier ones of a request that they complete.

        Small requests may become records of several times their size; a large one is mostly its values.
        """
        self._turn_bytes += GROWTH * arrived_bytes + held_bytes
        if self.node.context.writable:
            self._ask_room(ROOM_BYTES + self._turn_bytes)

    def finish_input(self) -> None:
        """Input was executed: a turn follows, at once when much came already."""
        if self._turn_bytes > GROWTH * TURN_BYTES_MAX:
            self._turn()
        else:
            self.schedule()

    def _ask_room(self, byte_count: int) -> bool:
        try:
            room = self._log.has_room(byte_count)
        except (LogError, DiskError) as error:
            self.fail(error)
            return False
        if not room:
            self._lack_room(byte_count)
        return room

    def _lack_room(self, byte_count: int) -> None:
        self._room_needed = max(self._room_needed, 2 * ROOM_BYTES, byte_count)
        if self.node.context.writable:
            logger.warning("disk is full: writes are refused", data=self.config.data, needed_bytes=self._room_needed)
            self.node.writable(False)

    def _seek_room(self) -> None:
        """While writes are refused: is there as much room as was asked for?"""
        if self._ask_room(self._room_needed):
            if self._unwritten.records:
                self._append([])
            if not self._unwritten.records:
                logger.warning("disk has room again", data=self.config.data)
                self._room_needed = 0
                self.node.writable(True)

    # Time

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if not self.node.context.writable:
                self._seek_room()
            self.node.observe(*process.usage())
            self.node.tick(now_ms())
            self._follow_config()
            self._tell_damage()
            self.schedule()

    def _follow_config(self) -> None:
        """CONFIG SET changed something, or memory is short: see that what was freed goes back to the system."""
        config = self.node.context.config
        if config is not self.config:
            self.config = config
            configure_logging(config)
        if self.node.context.memory_short:
            process.give_back(time.monotonic())

    def _tell_damage(self) -> None:
        """Peers that lack those records are sent a whole state; a checkpoint that is asked for drops the file."""
        for damage in self._log.damages[self._damages_told :]:
            self._damages_told += 1
            logger.error(
                "the log is damaged: who lacks these records is sent a state",
                file=damage.file,
                offset=damage.offset,
                record=damage.record,
                through=damage.through,
                reason=damage.reason,
            )

    def _tick_once(self) -> None:
        if not self.failed:
            try:
                self.node.tick(now_ms())
            except Exception as error:
                self.fail(error)
            self.schedule()

    def _arm_timer(self) -> None:
        """Wake at the next deadline of a parked client, if it comes before the next tick."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.node.next_deadline_ms()
        if deadline_ms is not None:
            delay_s = max(0.0, (deadline_ms - now_ms()) / 1000)
            if delay_s < TICK_S:
                self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick_once)

    async def _sync(self) -> None:
        interval_s = EVERYSEC_S if self.config.fsync == EVERYSEC else self.config.limits.durable_interval_ms / 1000
        running = asyncio.get_running_loop()
        while self.config.fsync != ALWAYS:
            await asyncio.sleep(interval_s)
            self.node.synced(await running.run_in_executor(None, self._log.sync))
            self.schedule()
