"""The event loop of a region: its node, its log and its ports on asyncio, from the start to the end.

The loop decides nothing. What it does at each turn is in runtime/turns.py.

`always` syncs on the loop's thread, once per turn, because handing over to a thread costs more than it saves.
`everysec` and `no` sync on another thread; `no` syncs too, at long intervals, because peers count on durable progress.

An exception here ends the region: nothing more is appended, and the next start restores the state from the log.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from functools import partial

import structlog

from crdtstream.connections.outputs import Messages
from crdtstream.connections.statistics import Stopwatch
from crdtstream.region.departing import ready_away
from crdtstream.region.node import Node
from crdtstream.runtime import acl_file, process
from crdtstream.runtime.announcing import announced
from crdtstream.runtime.blocked_turn import NO_ROOM
from crdtstream.runtime.build import build
from crdtstream.runtime.fetcher import Fetcher
from crdtstream.runtime.links.grpc_transport import GrpcTransport
from crdtstream.runtime.logs.logging import configure_logging
from crdtstream.runtime.moving import Moving, require_unserved
from crdtstream.runtime.opening import open_region
from crdtstream.runtime.optional_ports import bulk_server_of, observing_of
from crdtstream.runtime.packer import Packer
from crdtstream.runtime.partition_port import PartitionPort
from crdtstream.runtime.ports import ClientPort, EdgePort, GatewayPort, TracingPort
from crdtstream.runtime.redis.connections import clients_possible
from crdtstream.runtime.room_ensuring_node import RoomEnsuringNode
from crdtstream.runtime.saver import Saver
from crdtstream.runtime.service_manager import ServiceManager
from crdtstream.runtime.shard_map_file import ShardMapFile
from crdtstream.runtime.shard_place import Claim, open_directory
from crdtstream.runtime.spiller import Spiller
from crdtstream.runtime.stopping import Stopping
from crdtstream.runtime.tls.certificates import Renewal
from crdtstream.runtime.tls.credentials import read_client_credentials, read_web_credentials, tls_ports
from crdtstream.runtime.turns import TICK_S, RegionFailed, Turns, now_ms
from crdtstream.settings.config import ALWAYS, EVERYSEC, Config
from crdtstream.settings.reloading import Reloading
from crdtstream.settings.rewriting import rewrite_file
from crdtstream.settings.sharding import number_of
from crdtstream.storage.disk import DiskError
from crdtstream.storage.disk_room import DiskRoom
from crdtstream.storage.recovery import LogError

FAREWELL_S = 1.0
EVERYSEC_S = 1.0
FORGOTTEN_KEYS = 10_000
SEED_BITS = 64
RUN_ID_BYTES = 20

logger = structlog.get_logger()


class Loop(Turns):
    """The node of one region on an event loop; `make_port` creates the server for its clients, `make_gateway` the one
    for clients of OCI Streaming; `reread` reads the settings file again.
    """

    def __init__(
        self,
        config: Config,
        make_port: Callable[[Loop], ClientPort],
        make_gateway: Callable[[Loop], GatewayPort] | None = None,
        reread: Callable[[], Config] | None = None,
        tracing: TracingPort | None = None,
    ) -> None:
        self._reloading = Reloading(config, reread)
        node = Node(config, now_ms())
        introduce(node)
        self._shards = ShardMapFile(config) if config.shards > 1 else None
        if self._shards is not None:
            node.follow_shards(self._shards.current())
        self._disk = open_directory(config)
        self._claim = None if self._shards is None else Claim(config, self._disk, self._shards)
        if self._claim is not None:
            self._claim.require_place()
        region_log, checkpointer = open_region(self._disk, node, config.limits.segment_bytes_max)
        if self._claim is not None:
            self._claim.confirm(region_log.last_position, node.birth.stopped)
        region_log.limit_tail(config.limits.log_tail_bytes_max)
        limits = config.limits
        room = DiskRoom(self._disk, region_log, checkpointer, limits.disk_reserve_bytes, limits.segment_bytes_max)
        super().__init__(config, node, region_log, room)
        self.certificates = read_client_credentials(config)
        self.web_certificates = read_web_credentials(config)
        self._server = make_port(self)
        ensuring = RoomEnsuringNode(self.node, self.expect, lambda: self.failed)
        self._traced = None if tracing is None else tracing.links(ensuring, self._effects)
        self.transport = GrpcTransport(config, self._traced or ensuring, self.schedule, now_ms, self.fail)
        if self._shards is not None:
            self.transport.placement = self._shards.placement
            siblings = partial(self._shards.sibling_addresses, config)
            self.transport.join_siblings(number_of(config), siblings, self._receive_published)
        used = (self.certificates, self.web_certificates, self.transport.certificates)
        self._renewal = Renewal([each for each in used if each is not None])
        self._tls_ports = tls_ports(config, self.transport.certificates, self.certificates, self.web_certificates)
        self._look_at_certificates()
        self.partitions = PartitionPort(self, now_ms)
        self.bulk = bulk_server_of(config, self, now_ms, self.certificates)
        self._observing = observing_of(config, self)
        self.gateway = None if make_gateway is None else make_gateway(self)
        edges: dict[str, EdgePort | None] = {"bulk": self.bulk, "oci": self.gateway, "http": self._observing}
        self._edges = {name: edge for name, edge in edges.items() if edge is not None}
        self._damages_told = 0
        self._forgotten_given = 0
        around = nullcontext if tracing is None else tracing.checkpoint
        self._saver = Saver(self.node, self.log, checkpointer, room, self._flush, now_ms, self.meters, around)
        self._fetcher = Fetcher(self.node.context.block_reads, self.schedule, self.fail)
        self._users = acl_file.SharedUsers(self.node.context)
        self._manager = ServiceManager(os.environ.get("NOTIFY_SOCKET", ""))
        self._stopping = Stopping(self.node, self._saver, self._end, self.schedule)
        self._moving: asyncio.Task[None] | None = None
        self._leaves: asyncio.TimerHandle | None = None
        self._ended: asyncio.Future[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def _effects(self) -> int:
        return self.node.replica.applied.vector.total()

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
        if self._shards is not None and not self._shards.is_here:
            await require_unserved(self.config, self._shards.place)
        self.node.start(self.log, secrets.randbits(SEED_BITS), now_ms())
        self._sync_now()
        self.failed = False
        if self.room.full:
            self._lack_room(0)
        addresses = await self._server.start()
        await self.transport.start()
        others = await self._start_others()
        self._tasks = [
            running.create_task(self._guard(work))
            for work in (
                self._tick(),
                self._sync(),
                self._saver.run(),
                Packer(self.node).run(),
                Spiller(self.node, self.log).run(),
            )
        ]
        self.schedule()
        self._addresses = {
            **addresses,
            "replication": f"{self.config.replication_bind}:{self.transport.port}",
            **others,
        }
        logger.info("listening", **self._addresses)
        self.node.birth.announce(announced(self.config, self._addresses))
        self._log_notices()
        self._notify_manager()
        self._follow_place()

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
        if self.failed or self.has_moved:
            self._end()
        elif self._ended is None or not self._ended.done():
            self._stopping.ask(saves, hands_over)
            self._manager.notify("", is_stopping=True)

    def reload(self) -> None:
        """Read the files of certificates, settings and users again."""
        self._manager.notify_reload()
        self._renewal.reload()
        self._look_at_certificates()
        self._follow_shards()
        self.node.reconfigure(self._reloading.reload(self.node.settings.config))
        self._users.reload()
        self.schedule()
        self._notify_manager()

    def _look_at_certificates(self) -> None:
        self.node.context.about.certificates = {port: each.ends_s for port, each in self._tls_ports.items()}

    def _notify_manager(self) -> None:
        self._manager.notify(self.node.standing.loading, self.is_stopping)

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def _end_work(self) -> None:
        """End everything but the last turn and the port of the clients."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.partitions.stop()
        for edge in self._edges.values():
            await edge.stop()
        await self.transport.stop()

    async def _close(self) -> None:
        for task in (self._stopping.task, self._moving):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if not self.has_moved:
            await self._end_work()
        if not (self.has_moved or self.failed):
            self._stop_log()
        self.failed = True
        for timer in (self._timer, self._leaves):
            if timer is not None:
                timer.cancel()
        self._server.stop()
        self._fetcher.stop()
        if not self.has_moved:
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

    async def _give_up_directory(self, address: str) -> None:
        """End the log, and let the process of the shard at this address have the directory."""
        assert self._claim is not None
        await self._end_work()
        self._require_written(self._flush())
        ended = self.node.stop()
        ended.closing.clear()
        self._perform(ended)
        self._require_written(NO_ROOM if self._unwritten.records else "")
        self.node.synced(self.log.sync())
        self._claim.hand_over(address, self.log.last_position)
        self.has_moved = True
        self._manager.notify_moved()
        self.perform_turn = self._perform_away
        self._disk.close()
        logger.info("shard-handed-over", address=address, record=self.log.last_position)

    def _require_written(self, reason: str) -> None:
        """Raise if something is not in the log, for this reason."""
        if reason:
            raise RegionFailed(
                f"shard {self.config.shard} cannot move: {reason}; free space on the disk, then send SIGHUP to the"
                " supervisor"
            )

    def _perform_away(self) -> None:
        """A turn of a shard that has moved."""
        ready = ready_away(self.node)
        while ready is not None:
            self._perform(ready)
            if self.node.is_behind():
                self.schedule()
                break
            ready = ready_away(self.node)
        self._log_notices()
        self._serve_requests()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.task is not None

    # Turns

    def _turn_ended(self) -> None:
        if self.node.context.block_reads.wanted:
            self._fetcher.start()
        if self.has_moved:
            return
        if not self._unwritten.records:
            self.partitions.turn_ended()
        if self._traced is not None:
            self._traced.turn_ended()
        self.transport.wake()

    def _serve_requests(self) -> None:
        """Rewrite the settings file, read or write users, stop, leave."""
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
            self._manager.notify_left()
            # A program that follows the leave sees its end before the port closes.
            running = asyncio.get_running_loop()
            self._leaves = running.call_later(FAREWELL_S, partial(self.stop, saves=False, hands_over=False))
        if requests.stop and (requests.stop_at_once or self._stopping.task is None):
            saves, requests.stop_at_once = not requests.stop_at_once, False
            self.stop(saves, not requests.stop_alone)

    def _follow_config(self, config: Config) -> None:
        configure_logging(config)
        self.transport.routes.follow(config.peers)
        self.transport.follow(self.node.neighbours.to_dial())

    def _publish(self, messages: Messages) -> None:
        if self.transport.siblings is not None:
            self.transport.siblings.publish(messages)

    def _receive_published(self, channel: bytes, message: bytes) -> None:
        self.node.receive_published(channel, message)
        self.schedule()

    def _fail_with(self, reason: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(RegionFailed(reason))

    async def await_settled(self) -> None:
        """Wait until everything done so far is in the log, and durable if replies wait for that."""
        waiting = asyncio.get_running_loop().create_future()
        self._settling.append(waiting)
        self.schedule()
        await waiting

    # Time

    async def _tick(self) -> None:
        while True:
            await self.meters.sleep(TICK_S)
            if not self.node.standing.writable:
                self._seek_room()
            self.measure()
            self.node.observe(*process.usage())
            self._expect_waiting()
            self.node.reseed(secrets.randbits(SEED_BITS))
            self.transport.look_for_life()
            self.node.tick(now_ms())
            self.transport.follow(self.node.neighbours.to_dial())
            self._follow_shards()
            self._renewal.follow(time.monotonic())
            self._look_at_certificates()
            if self._observing is not None:
                self._observing.record(now_ms())
            self._give_back()
            self._log_damage()
            self._notify_manager()
            self.schedule()

    def _follow_shards(self) -> None:
        """Take a map that the supervisor has replaced. By one that has this shard elsewhere it first moves there."""
        if self._shards is None or self._moving is not None or not self._shards.has_changed():
            return
        shard_map = self._shards.current()
        if self._shards.is_here:
            self.node.follow_shards(shard_map)
        self._follow_place()
        logger.info("shard-map-read", epoch=shard_map.epoch)

    def _follow_place(self) -> None:
        """Stay or move, as the map says."""
        if self._shards is None or self._claim is None:
            return
        if self._shards.is_here:
            self._claim.follow(self._shards.place.address)
        else:
            self._moving = asyncio.get_running_loop().create_task(self._guard(self._move(self._shards)))

    async def _move(self, shards: ShardMapFile) -> None:
        await Moving(self.node, self._stopping, shards, self._give_up_directory, self.schedule, now_ms).run()
        self._end()

    def _expect_waiting(self) -> None:
        """Ensure room on the disk for batches that waited for it, of which a tick applies some."""
        waiting_bytes = self.node.exchange.waiting()[1]
        if waiting_bytes:
            self.expect(0, min(waiting_bytes, self.node.limits.message_bytes_max))

    def _give_back(self) -> None:
        """If memory is short, or much was forgotten, return freed memory to the system."""
        forgotten = self.node.replica.keyspace.collection.forgotten
        much = forgotten - self._forgotten_given >= FORGOTTEN_KEYS
        if (much or self.node.standing.memory_short) and process.give_back(time.monotonic()):
            self._forgotten_given = forgotten

    def _log_damage(self) -> None:
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

    async def _sync(self) -> None:
        interval_s = EVERYSEC_S if self.config.fsync == EVERYSEC else self.config.limits.durable_interval_ms / 1000
        running = asyncio.get_running_loop()
        while self.config.fsync != ALWAYS:
            await asyncio.sleep(interval_s)
            self.node.synced(await running.run_in_executor(None, self.meters.sync_log, self.log))
            self.schedule()


def introduce(node: Node) -> None:
    """Give the node what only the process knows about itself, and a clock for statistics."""
    node.time_with(Stopwatch(time.perf_counter_ns))
    about = node.context.about
    about.process_id = os.getpid()
    about.commit, about.commit_date = build()
    about.run_id = secrets.token_hex(RUN_ID_BYTES)
    about.system_bytes = process.system_bytes()
    about.clients_possible = clients_possible()
    node.context.random_bytes = secrets.token_bytes
    acl_file.load_users(node.context)
    node.observe(*process.usage())
