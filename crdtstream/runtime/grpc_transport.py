"""Links to the other regions over gRPC: a server for those that dial, a dialler for each configured peer.

One stream for each pair of regions. Either side may dial; when two streams meet, both sides see it by the Hellos and
keep the same one: the one that the lower region number dialled, and of two from one side the later. The other closes
quietly. Who displaces its own streams again and again is two processes, of which one runs on a copy of the other's
data directory: then the stream that is there stays.

While a peer is linked its dialler rests; else it tries again after a delay that doubles from `backoff_ms_min` to
`backoff_ms_max` and is drawn from its upper half, so that regions that lost each other do not return in step.

Every dial makes a channel of its own: a channel's idea of when to connect again, and a dead connection inside it,
would outlive the link.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import grpc.aio
import structlog

from crdtstream.config import Config
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication import wire_pb2_grpc as wire_grpc
from crdtstream.runtime.credentials import join_address, read_credentials, split_address
from crdtstream.runtime.link import LOST, Link, LinkNode, LinkSettings, reason_of

LINKS_MAX = 1024
STOP_S = 1.0
ENVELOPE_BYTES = 64 << 10
SUPERSEDED = "another stream links the same two regions"
DISPLACED_MAX = 3
CONTEST_MS = 60_000
CONTESTED = (
    "this region is linked already, and links anew again and again: if two processes run with copies of one data"
    " directory, stop one, and start it again with an empty --data"
)

logger = structlog.get_logger()


class TransportError(Exception):
    """The transport cannot start; the text says what to do."""


class GrpcTransport:
    """All links of one region; `failed` hears of errors that are the node's, after the link that met them is closed."""

    def __init__(
        self,
        config: Config,
        node: LinkNode,
        schedule_turn: Callable[[], None],
        now_ms: Callable[[], int],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        limits = config.limits
        self._config = config
        self._credentials = read_credentials(config)
        self._settings = LinkSettings(
            node=node,
            now_ms=now_ms,
            schedule_turn=schedule_turn,
            admit=self._admit,
            opened=self._opened,
            failed=failed or _report,
            interval_s=limits.replication_interval_ms / 1000,
            message_bytes=limits.message_bytes,
            message_bytes_max=limits.message_bytes_max,
        )
        self._options = grpc_options(limits.message_bytes_max)
        self._links: dict[int, Link] = {}
        self._regions: dict[int, Link] = {}
        self._told: dict[str, str] = {}
        self._contests: dict[int, tuple[int, int]] = {}
        self._last_id = 0
        self._stopping = False
        self._server: grpc.aio.Server | None = None
        self._diallers: list[asyncio.Task[None]] = []
        self.port = config.replication_port

    async def start(self) -> None:
        """Listen and begin to dial; raises TransportError."""
        self._server = grpc.aio.server(options=self._options)
        wire_grpc.add_ReplicationServicer_to_server(_Servicer(self), self._server)
        self.port = self._listen(self._server)
        await self._server.start()
        self._diallers = [asyncio.create_task(self._guard(peer)) for peer in self._config.peers]

    def _listen(self, server: grpc.aio.Server) -> int:
        address = join_address(self._config.replication_bind, self._config.replication_port)
        try:
            if self._credentials is None:
                return server.add_insecure_port(address)
            return server.add_secure_port(address, self._credentials.server())
        except RuntimeError as error:
            raise TransportError(
                f"cannot listen for other regions on {address}: {error}; choose another --replication-port"
            ) from error

    async def stop(self) -> None:
        self._stopping = True
        for task in self._diallers:
            task.cancel()
        for link in list(self._links.values()):
            link.close("this region stops")
        await asyncio.gather(*self._diallers, return_exceptions=True)
        if self._server is not None:
            await self._server.stop(STOP_S)

    def wake(self) -> None:
        """A turn has ended: every link pulls."""
        for link in list(self._links.values()):
            link.wake()

    def linked_regions(self) -> list[int]:
        return sorted(region for region in self._regions if self._linked(region) is not None)

    # Links

    def _open(self, dialled: bool, address: str) -> Link:
        self._last_id += 1
        link = self._links[self._last_id] = Link(self._last_id, dialled, address, self._settings)
        return link

    def _admit(self, link: Link) -> bool:
        """The peer has greeted: keep one stream for each pair. A node that meets itself is the session's to refuse."""
        own = self._config.region
        if link.region not in (0, own):
            other = self._linked(link.region)
            lower_dialled = link.dialled == (own < link.region)
            if other is not None and not lower_dialled and other.dialled != link.dialled:
                link.close(SUPERSEDED)
                return False
            if other is not None and other.dialled == link.dialled and self._contested(link.region):
                link.at_odds = True
                link.close(CONTESTED)
                return False
            self._regions[link.region] = link
            if other is not None:
                other.close(SUPERSEDED)
        return True

    def _contested(self, region: int) -> bool:
        """The region displaces a stream of its own; a network that loses them makes it do so now and then."""
        if len(self._contests) >= LINKS_MAX:
            self._contests.clear()
        now_ms = self._settings.now_ms()
        count, last_ms = self._contests.get(region, (0, now_ms))
        count = count + 1 if now_ms - last_ms <= CONTEST_MS else 1
        self._contests[region] = (count, now_ms)
        return count > DISPLACED_MAX

    def _opened(self, link: Link) -> None:
        self._told.pop(_key(link), None)
        logger.info("link opened", **_fields(link))

    def _linked(self, region: int) -> Link | None:
        link = self._regions.get(region)
        return None if link is None or link.is_closed else link

    def _retire(self, link: Link) -> None:
        """Forget a link that is closed, and say why."""
        self._links.pop(link.id, None)
        if self._regions.get(link.region) is link:
            del self._regions[link.region]
        if link.at_odds:
            self._warn_once(_key(link), "link closed", link.reason, _fields(link))
        elif link.opened:
            logger.info("link lost", reason=link.reason, **_fields(link))
        elif link.reason != SUPERSEDED:
            logger.debug("link lost", reason=link.reason, **_fields(link))

    def _warn_once(self, key: str, event: str, reason: str, fields: dict[str, object]) -> None:
        """What fails each time that it is tried again is told of when the reason changes."""
        if self._told.get(key) != reason:
            if len(self._told) >= LINKS_MAX:
                self._told.clear()
            self._told[key] = reason
            logger.warning(event, reason=reason, **fields)

    async def serve(self, context: grpc.aio.ServicerContext[wire.Envelope, wire.Envelope]) -> None:
        """A stream that another region dialled."""
        if self._stopping:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this region stops")
        if len(self._links) >= LINKS_MAX:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{LINKS_MAX} links are open")
        try:
            # With the first message they could be under way when the handler returns, which then sends them again.
            await context.send_initial_metadata(())
        except LOST:
            return
        await self._run(self._open(False, _host(context.peer())), _Accepted(context))

    async def _run(self, link: Link, stream: _Accepted | _Dialled) -> None:
        try:
            await link.run(stream)
        finally:
            self._retire(link)

    # Dialling

    async def _guard(self, peer: str) -> None:
        try:
            await self._keep_dialling(peer)
        except Exception as error:
            self._settings.failed(error)

    async def _keep_dialling(self, peer: str) -> None:
        limits = self._config.limits
        delay_ms = limits.backoff_ms_min
        region = 0
        while True:
            linked = self._linked(region)
            if linked is not None:
                await linked.wait_closed()
                continue
            link = await self._dial(peer)
            if link is not None and link.region:
                region = link.region
            if self._linked(region) is not None:
                continue
            if link is not None and link.opened and not link.at_odds:
                delay_ms = limits.backoff_ms_min
            await asyncio.sleep(random.uniform(0.5, 1.0) * delay_ms / 1000)
            delay_ms = min(2 * delay_ms, limits.backoff_ms_max)

    async def _dial(self, peer: str) -> Link | None:
        """One stream, from its connection to its end; None when there was no connection."""
        async with self._channel(peer) as channel:
            call = wire_grpc.ReplicationStub(channel).Exchange()
            try:
                async with asyncio.timeout(self._config.limits.peer_timeout_ms / 1000):
                    await call.wait_for_connection()
            except TimeoutError:
                self._warn_once(peer, "cannot connect", "no answer", {"address": peer})
                return None
            except LOST as error:
                self._warn_once(peer, "cannot connect", reason_of(error), {"address": peer})
                return None
            self._told.pop(peer, None)
            link = self._open(True, peer)
            await self._run(link, _Dialled(call))
            call.cancel()
            return link

    def _channel(self, peer: str) -> grpc.aio.Channel:
        address = join_address(*split_address(peer))
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, options=self._options)
        return grpc.aio.secure_channel(address, self._credentials.channel(), options=self._options)


class _Servicer(wire_grpc.ReplicationServicer):
    """The server's end of the contract."""

    def __init__(self, transport: GrpcTransport) -> None:
        self._transport = transport

    # This is gRPC's style of read and write on the context; the generated types know only that of iterators.
    async def Exchange(  # type: ignore[override]
        self, _requests: AsyncIterator[wire.Envelope], context: grpc.aio.ServicerContext[wire.Envelope, wire.Envelope]
    ) -> None:
        await self._transport.serve(context)


class _Accepted:
    """A stream, as its server sees it."""

    def __init__(self, context: grpc.aio.ServicerContext[wire.Envelope, wire.Envelope]) -> None:
        self._context = context

    async def read(self) -> object:
        return await self._context.read()

    async def write(self, envelope: wire.Envelope) -> None:
        await self._context.write(envelope)

    async def done_writing(self) -> None:
        """The handler's return sends what was written."""


class _Dialled:
    """A stream, as its client sees it."""

    def __init__(self, call: grpc.aio.StreamStreamCall[wire.Envelope, wire.Envelope]) -> None:
        self._call = call

    async def read(self) -> object:
        return await self._call.read()

    async def write(self, envelope: wire.Envelope) -> None:
        await self._call.write(envelope)

    async def done_writing(self) -> None:
        """The server ends the stream once it has read all; before that a cancel could overtake what was written."""
        await self._call.done_writing()
        await self._call.code()


def grpc_options(message_bytes_max: int) -> list[tuple[str, int]]:
    """An envelope may be a little larger than its message; heartbeats find a silent peer before keepalive does."""
    size = message_bytes_max + ENVELOPE_BYTES
    return [
        ("grpc.max_receive_message_length", size),
        ("grpc.max_send_message_length", size),
        ("grpc.so_reuseport", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ]


def _host(peer: str) -> str:
    """`ipv4:10.0.0.1:5432` without the port, which differs each time."""
    return peer.partition(":")[2].rpartition(":")[0]


def _key(link: Link) -> str:
    return f"{link.address} {link.region}"


def _fields(link: Link) -> dict[str, object]:
    side = "dialled" if link.dialled else "accepted"
    return {"region": link.region, "name": link.name, "address": link.address, "side": side}


def _report(error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": "the node failed", "exception": error})
