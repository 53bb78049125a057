"""The event loop of a region: performs on asyncio what the node asks for, one turn after another.

A turn begins with the input that one pass of the event loop found, from all connections and links, and ends with one
append, one write for each client, and one pull for each link. The loop decides nothing; the order of its actions is
that of the fields of `Ready`. Requests beyond the limits of a turn run in the next turn, after another pass of the
event loop; until then nothing more is read from their clients.

`always` syncs on the loop's thread, once per turn, because handing over to a thread costs more than it saves.
`everysec` and `no` sync on another thread; `no` syncs too, at long intervals, because peers count on durable progress.

Disk space is reserved before input is executed: what the input will certainly write, and a reserve. If there is none,
the node rejects everything that needs a record until space is freed. A turn that writes more than foreseen (FLUSHALL
with many keys) may still find the disk full. It is then kept in memory; its clients, and all later requests on their
connections, wait. It is appended before anything else once space is freed, and nobody has been told that it happened.

An exception here ends the region: nothing more is appended, and the next start restores the state from the log.
"""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from functools import partial

import structlog

from crdtstream.clients.statistics import Stopwatch
from crdtstream.config import ALWAYS, EVERYSEC, Config
from crdtstream.node import Node, Ready
from crdtstream.replication.membership.chronicle import READY
from crdtstream.replication.turn import Record
from crdtstream.runtime import acl_file, process
from crdtstream.runtime.certificates import Renewal
from crdtstream.runtime.config_file import rewrite_file
from crdtstream.runtime.cooler import Cooler
from crdtstream.runtime.credentials import read_client_credentials, read_web_credentials
from crdtstream.runtime.grpc_transport import GrpcTransport
from crdtstream.runtime.logging import configure_logging, log
from crdtstream.runtime.metrics.meters import Meters
from crdtstream.runtime.opening import open_region
from crdtstream.runtime.optional_ports import bulk_server_of, observing_of
from crdtstream.runtime.partition_port import PartitionPort
from crdtstream.runtime.ports import ClientPort, EdgePort, GatewayPort, Tracing
from crdtstream.runtime.reloading import Reloading
from crdtstream.runtime.roomy_node import RoomyNode
from crdtstream.runtime.saver import Saver
from crdtstream.runtime.stopping import Stopping
from crdtstream.runtime.unwritten import Unwritten
from crdtstream.storage.disk import DiskError, DiskFull, RealDisk
from crdtstream.storage.recovery import LogError
from crdtstream.storage.segment import framed_bytes

TICK_S = 0.1
FAREWELL_S = 1.0
EVERYSEC_S = 1.0
ROOM_BYTES = 1 << 20
# Small inputs of a turn ask for their space together.
RESERVED_BYTES = 1 << 16
GROWTH = 8
TURN_BYTES_MAX = 4 << 20
FORGOTTEN_KEYS = 10_000
SEED_BITS = 64
RUN_ID_BYTES = 20

logger = structlog.get_logger()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class RegionFailed(Exception):
    """The region cannot continue: its log refused an append or a sync."""


class Loop:
    """The node of one region on an event loop; `make_port` creates the server for its clients, `make_gateway` the one
    for clients of OCI Streaming; `reread` reads the settings file again.

    `failed` is true until the start is in the log, and again after a failure: nothing is appended while it is true.
    """

    def __init__(
        self,
        config: Config,
        make_port: Callable[[Loop], ClientPort],
        make_gateway: Callable[[Loop], GatewayPort] | None = None,
        reread: Callable[[], Config] | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.config = config
        self._reloading = Reloading(config, reread)
        self.node = Node(config, now_ms())
        self._introduce()
        self._disk = RealDisk(config.data)
        self.log, self._checkpointer = open_region(self._disk, self.node, self.config.limits.segment_bytes_max)
        self.meters = Meters()
        self._unwritten = Unwritten()
        self.certificates = read_client_credentials(config)
        self.web_certificates = read_web_credentials(config)
        self._server = make_port(self)
        roomy = RoomyNode(self.node, self.expect, lambda: self.failed)
        self._traced = None if tracing is None else tracing.links(roomy, self._effects)
        self.transport = GrpcTransport(config, self._traced or roomy, self.schedule, now_ms, self.fail)
        used = (self.certificates, self.web_certificates, self.transport.certificates)
        self._renewal = Renewal([each for each in used if each is not None])
        self.partitions = PartitionPort(self, now_ms)
        self.bulk = bulk_server_of(config, self, now_ms, self.certificates)
        self._observing = observing_of(config, self)
        self.gateway = None if make_gateway is None else make_gateway(self)
        edges: dict[str, EdgePort | None] = {"bulk": self.bulk, "oci": self.gateway, "http": self._observing}
        self._edges = {name: edge for name, edge in edges.items() if edge is not None}
        self._settling: list[asyncio.Future[None]] = []
        self._scheduled = False
        self.failed: bool = True
        self._turn_bytes = self._reserved_bytes = 0
        self._behind_bytes = 0
        self._room_needed = 0
        self._damages_told = 0
        self._forgotten_given = 0
        around = nullcontext if tracing is None else tracing.checkpoint
        self._saver = Saver(self.node, self.log, self._checkpointer, self._settle, now_ms, self.meters, around)
        self._stopping = Stopping(self.node, self._saver, self._end, self.schedule)
        self._addresses: dict[str, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._leaves: asyncio.TimerHandle | None = None
        self._ended: asyncio.Future[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def _effects(self) -> int:
        return self.node.replica.applied.vector.total()

    def _introduce(self) -> None:
        """Give the node what only the process knows about itself, and a clock for statistics."""
        self.node.time_with(Stopwatch(time.perf_counter_ns))
        about = self.node.context.about
        about.process_id = os.getpid()
        about.run_id = secrets.token_hex(RUN_ID_BYTES)
        about.system_bytes = process.system_bytes()
        self.node.context.random_bytes = secrets.token_bytes
        acl_file.load_users(self.node.context)
        self.node.observe(*process.usage())

    async def run(self) -> None:
        """Serve until `stop` or a failure; a failure raises RegionFailed."""
        self._ended = asyncio.get_running_loop().create_future()
        try:
            await self._start()
            await self._ended
        finally:
            await self._close()

    async def _start(self) -> None:
        running = asyncio.get_running_loop()
        self.node.start(self.log, secrets.randbits(SEED_BITS), now_ms())
        self._sync_now()
        self.failed = False
        addresses = await self._server.start()
        await self.transport.start()
        others = await self._start_others()
        self._tasks = [
            running.create_task(self._guard(work))
            for work in (self._tick(), self._sync(), self._saver.run(), Cooler(self.node).run())
        ]
        self.schedule()
        self._addresses = {
            **addresses,
            "replication": f"{self.config.replication_bind}:{self.transport.port}",
            **others,
        }
        logger.info("listening", **self._addresses)
        self._tell()

    async def _start_others(self) -> dict[str, str]:
        """Open the ports that are off unless they are given; return their addresses."""
        try:
            return {name: await edge.start() for name, edge in self._edges.items()}
        except OSError as error:
            raise RegionFailed(f"cannot listen for HTTP: {error}; choose another --http-port") from error

    async def _guard(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception as error:
            self.fail(error)

    def stop(self, saves: bool = True, hands_over: bool = True) -> None:
        """Stop cleanly: take a checkpoint if it pays, let linked peers take what they lack, then write and sync
        everything pending and mark the stop. A second call skips what is left of the first two.
        """
        if self.failed:
            self._end()
        elif self._ended is None or not self._ended.done():
            self._stopping.ask(saves, hands_over)

    def reload(self) -> None:
        """Read the files of certificates and of settings again."""
        self._renewal.reload()
        self.node.reconfigure(self._reloading.reload(self.node.settings.config))
        self.schedule()

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def _close(self) -> None:
        tasks = self._tasks if self._stopping.task is None else [*self._tasks, self._stopping.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.partitions.stop()
        for edge in self._edges.values():
            await edge.stop()
        await self.transport.stop()
        if not self.failed:
            self._stop_log()
        self.failed = True
        for timer in (self._timer, self._leaves):
            if timer is not None:
                timer.cancel()
        self._server.stop()
        self._disk.close()

    def _stop_log(self) -> None:
        """Perform the last turn, with the mark of a clean stop; if the log does not accept it, there is no mark."""
        try:
            self._perform(self.node.stop())
            self.log.sync()
        except (LogError, DiskError) as error:
            logger.error("stop-unclean", reason=str(error))
        if self._unwritten.records:
            logger.error("records-lost", records=len(self._unwritten))

    @property
    def is_stopping(self) -> bool:
        return self._stopping.task is not None

    # Turns

    def schedule(self) -> None:
        """Schedule a turn for the next pass of the event loop, when all input of this pass has arrived."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self.failed:
            return
        try:
            self.meters.turn.time(self._perform_all)
        except Exception as error:
            self.fail(error)
            return
        self._turn_bytes = self._reserved_bytes = 0
        if not self._unwritten.records:
            if self._settling:
                self._tell_settled()
            self.partitions.turn_ended()
        self._behind_bytes = self.node.behind_bytes()
        self._server.turn_ended()
        if self._traced is not None:
            self._traced.turn_ended()
        if self.node.is_staging():
            gc.freeze()  # staged state is not garbage, and visiting it repeatedly takes seconds
        self.transport.wake()
        self._arm_timer()

    async def await_settled(self) -> None:
        """Wait until everything done so far is in the log, and durable if replies wait for that."""
        waiting = asyncio.get_running_loop().create_future()
        self._settling.append(waiting)
        self.schedule()
        await waiting

    def _tell_settled(self) -> None:
        for waiting in self._settling:
            if not waiting.done():
                waiting.set_result(None)
        self._settling.clear()

    def _settle(self) -> bool:
        """Run a turn now; return whether everything the node knows is in the log."""
        self._turn()
        return not self.failed and not self._unwritten.records

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
        self._tell()
        self._follow_config()
        context = self.node.context
        requests = context.requests
        if requests.rewrite:
            self.node.config_rewritten(rewrite_file(context.settings.config))
            self.schedule()
        if requests.acl:
            acl_file.perform_all(requests.acl, context.settings.config.aclfile)
            self.node.serving.wake_keyless()
            self.schedule()
        if self._leaves is None and self.node.leaving.has_left():
            # Whoever follows the leave sees its end before the port closes.
            running = asyncio.get_running_loop()
            self._leaves = running.call_later(FAREWELL_S, partial(self.stop, saves=False, hands_over=False))
        if requests.stop and (requests.stop_at_once or self._stopping.task is None):
            saves, requests.stop_at_once = not requests.stop_at_once, False
            self.stop(saves, not requests.stop_alone)

    def _tell(self) -> None:
        """Log what the node noticed; `serving` follows the event `ready`, once the ports listen."""
        node = self.node
        for notices in (node.notices, node.news):
            for notice in notices:
                log(logger, notice.event, detail=notice.text, exc_info=notice.error)
            notices.clear()
        if self._addresses:
            self._tell_events()

    def _tell_events(self) -> None:
        events = self.node.chronicle.events
        for event, fields in events:
            log(logger, event, **fields)
            if event == READY:
                logger.info("serving", **self._addresses)
        events.clear()

    def _perform(self, ready: Ready) -> None:
        if ready.records:
            self._append(ready.records)
        kept = self._unwritten.keep(ready) if self._unwritten.records else ready
        for client_id, reply in kept.replies:
            self._server.write(client_id, reply)
        for client_id in kept.closing:
            self._server.close(client_id)

    def _append(self, records: list[Record]) -> None:
        """Append records behind those that wait for disk space."""
        unwritten = self._unwritten
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
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        logger.error("region-failed", reason=reason, exc_info=None if expected else error)
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(RegionFailed(reason))

    # Room

    def expect(self, arrived_bytes: int, held_bytes: int) -> None:
        """Reserve space for input that is about to be executed: new bytes, and earlier ones of a request that they
        complete.

        Small requests may become records of several times their size; a large request is mostly its values. Requests
        that wait for a later turn need their space then.
        """
        self._turn_bytes += GROWTH * arrived_bytes + held_bytes
        if self._turn_bytes > self._reserved_bytes and self.node.standing.writable:
            reserved_bytes = self._turn_bytes + RESERVED_BYTES
            if self._ask_room(ROOM_BYTES + reserved_bytes + GROWTH * self._behind_bytes):
                self._reserved_bytes = reserved_bytes

    def finish_input(self) -> None:
        """Schedule a turn after input was executed, or run it at once if there was much input."""
        if self._turn_bytes > GROWTH * TURN_BYTES_MAX:
            self._turn()
        else:
            self.schedule()

    def _ask_room(self, byte_count: int) -> bool:
        try:
            room = self.log.has_room(byte_count)
        except (LogError, DiskError) as error:
            self.fail(error)
            return False
        if not room:
            self._lack_room(byte_count)
        return room

    def _lack_room(self, byte_count: int) -> None:
        self._room_needed = max(self._room_needed, 2 * ROOM_BYTES, byte_count)
        if self.node.standing.writable:
            logger.warning("disk-full", data=self.config.data, needed_bytes=self._room_needed)
            self.node.writable(False)

    def _seek_room(self) -> None:
        """While writes are rejected, check whether the needed space is available again."""
        if self._ask_room(self._room_needed):
            if self._unwritten.records:
                self._append([])
            if not self._unwritten.records:
                logger.info("disk-has-space", data=self.config.data)
                self._room_needed = 0
                self.node.writable(True)

    # Time

    async def _tick(self) -> None:
        while True:
            await self.meters.sleep(TICK_S)
            if not self.node.standing.writable:
                self._seek_room()
            self.node.observe(*process.usage())
            self.node.reseed(secrets.randbits(SEED_BITS))
            self.node.tick(now_ms())
            self._renewal.follow(time.monotonic())
            if self._observing is not None:
                self._observing.note(now_ms())
            self._give_back()
            self._tell_damage()
            self.schedule()

    def _follow_config(self) -> None:
        """Apply a changed configuration, once the ports listen, and before peers hear of it."""
        config = self.node.settings.config
        if config is not self.config and self._addresses:
            self.config = config
            configure_logging(config)
            self.transport.follow(config.peers)

    def _give_back(self) -> None:
        """If memory is short, or much was forgotten, return freed memory to the system."""
        forgotten = self.node.forgotten_keys
        much = forgotten - self._forgotten_given >= FORGOTTEN_KEYS
        if (much or self.node.standing.memory_short) and process.give_back(time.monotonic()):
            self._forgotten_given = forgotten

    def _tell_damage(self) -> None:
        """Log new damage. Peers that lack those records receive a full state transfer; the next checkpoint drops the
        file.
        """
        for damage in self.log.damages[self._damages_told :]:
            self._damages_told += 1
            logger.error(
                "log-damaged",
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
        """Wake at the next deadline of a blocked client, if it is before the next tick."""
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
            self.node.synced(await running.run_in_executor(None, self.meters.sync_log, self.log))
            self.schedule()
