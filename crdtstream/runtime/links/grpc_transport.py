"""Links to the other regions over gRPC: a server for regions that dial, and a dialler for each configured peer.

There is one stream for each pair of processes. Either side may dial. When two streams connect the same pair, both sides
recognise that by the Hellos and keep the same one: the stream that the lower region number dialled; of two dialled by
the same side, the later. The other one closes without a warning. If two configured addresses lead to one process, their
streams would displace each other for ever: in that case the existing stream stays.

Peers may be added and removed while the region runs. The node decides which links end with that; here dialling begins
and ends.

A dialler rests while its peer is linked. Otherwise it retries after a delay that doubles from `backoff_ms_min` to
`backoff_ms_max` and is drawn from the upper half of that, so that regions that lost each other do not retry in step.

Every dial creates a new channel: the reconnect timer of a channel, and a dead connection inside it, would outlive the
link.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import grpc.aio
import structlog

from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication import wire_pb2_grpc as wire_grpc
from crdtstream.runtime.links.envelope import Frames
from crdtstream.runtime.links.handshake import Answers, Handshake, HandshakeRefused, host_of, port_of
from crdtstream.runtime.links.link import LAST_WORDS_S, LOST, Link, LinkNode, LinkSettings, is_refusal, reason_of
from crdtstream.runtime.links.pace import Pace
from crdtstream.runtime.links.pending_handshakes import Newcomer, Newcomers
from crdtstream.runtime.links.pull_schedule import Beat
from crdtstream.runtime.links.routes import Routes
from crdtstream.runtime.links.siblings import Siblings
from crdtstream.runtime.links.stirring import Segments, addresses_of, plain
from crdtstream.runtime.links.streams import Accepted, Dialled, grpc_options
from crdtstream.runtime.logs.logging import log
from crdtstream.runtime.logs.rate_limited_log import Repeats
from crdtstream.runtime.tls.credentials import join_address, read_credentials
from crdtstream.runtime.tls.probing import objection
from crdtstream.settings.config import Config, split_address

LINKS_MAX = 1024
DIALLED, ACCEPTED = "dialled", "accepted"
STOP_S = 1.0
PARTING_S = 2 * LAST_WORDS_S
SUPERSEDED = "another stream links the same two regions"
DISPLACED_MAX = 3
CONTEST_MS = 60_000
OBJECTION_S = 30.0
# So many heartbeats must be missing before the connection of a link is looked at.
QUIET_HEARTBEATS = 2
# What gRPC says if a peer answers and the handshake fails.
CLOSED = re.compile("closed|handshake|reset", re.IGNORECASE)
CONTESTED = (
    "this process is already linked and keeps linking again: two configured peer addresses lead to it; remove one of"
    " them"
)

logger = structlog.get_logger()


class TransportError(Exception):
    """The transport cannot start; the text says why and what to do."""


class GrpcTransport:
    """All links of one region. `failed` is called for an error of the node itself, after its link was closed."""

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
        self.certificates = read_credentials(config)
        self.frames = Frames()
        self._beat = Beat(limits.replication_interval_ms / 1000, self._pull)
        self._settings = LinkSettings(
            node=node,
            now_ms=now_ms,
            schedule_turn=schedule_turn,
            admit=self._admit,
            opened=self._record_opened,
            failed=failed or _report,
            beat=self._beat,
            frames=self.frames,
            pace_of=self._pace_of,
            message_bytes_max=limits.message_bytes_max,
        )
        self._options = grpc_options(limits.message_bytes_max)
        self._answers = Answers(config.peers, self._seek)
        self._handshake = Handshake(config, self._answers)
        self._newcomers = Newcomers(limits)
        self.routes = Routes(config, self._channel)
        # Where the shards of this region are reached; None if it has one.
        self.placement: Callable[[], wire.PlacementReply] | None = None
        self.siblings: Siblings | None = None
        self._sought = asyncio.Event()
        self._paces: dict[int, Pace] = {}
        self._looked_s = 0.0
        self._links: dict[int, Link] = {}
        self._peers: dict[int, Link] = {}
        self._repeats = Repeats()
        # By side and configured address, which is empty for who dialled in.
        self.refusals: Counter[tuple[str, str]] = Counter()
        # By configured address.
        self.dial_failures: Counter[str] = Counter()
        self._unreached_s: dict[str, float] = {}
        self._objections: dict[str, tuple[float, str]] = {}
        self._contests: dict[int, tuple[int, int]] = {}
        self._last_id = 0
        self._stopping = False
        self._server: grpc.aio.Server | None = None
        self._diallers: dict[str, asyncio.Task[None]] = {}
        # Of removed peers, until their links are closed.
        self._leaving: set[asyncio.Task[None]] = set()
        self.port = config.replication_port

    async def start(self) -> None:
        """Listen and start dialling; raises TransportError."""
        self._server = grpc.aio.server(options=self._options)
        wire_grpc.add_ReplicationServicer_to_server(_Servicer(self), self._server)
        self.port = self._listen(self._server)
        await self._server.start()
        self._begin_dialling(self._config.peers)

    def _listen(self, server: grpc.aio.Server) -> int:
        address = join_address(self._config.replication_bind, self._config.replication_port)
        try:
            if self.certificates is None:
                return server.add_insecure_port(address)
            return server.add_secure_port(address, self.certificates.server())
        except RuntimeError as error:
            raise TransportError(
                f"cannot listen for other regions on {address}: {error}; choose another --replication-port"
            ) from error

    def join_siblings(
        self, own: int, addresses: Callable[[], list[str]], receive: Callable[[bytes, bytes], None]
    ) -> Siblings:
        """Exchange with the other shards of this region what their clients publish."""
        self.siblings = Siblings(own, addresses, self._channel, self._handshake, receive)
        return self.siblings

    async def stop(self) -> None:
        self._stopping = True
        if self.siblings is not None:
            await self.siblings.stop()
        self._beat.stop()
        diallers = [*self._diallers.values(), *self._leaving]
        for task in diallers:
            task.cancel()
        for link in list(self._links.values()):
            link.close("this region is shutting down")
        await asyncio.gather(*diallers, return_exceptions=True)
        if self._server is not None:
            await self._server.stop(STOP_S)

    def wake(self) -> None:
        """Let every link pull when it may: a turn has ended."""
        if self._links:
            self._beat.ask()

    def _pull(self) -> None:
        for link in list(self._links.values()):
            link.pull()

    def look_for_life(self) -> None:
        """Once in a heartbeat, see which links that seem silent are not; called at every tick."""
        heartbeat_s, now_s = self._config.limits.heartbeat_ms / 1000, asyncio.get_running_loop().time()
        if now_s - self._looked_s >= heartbeat_s:
            self._looked_s = now_s
            segments = Segments({one for link in self._links.values() for one in link.addresses})
            for link in self._links.values():
                link.look_for_life(QUIET_HEARTBEATS * heartbeat_s, segments)

    def linked_regions(self) -> list[int]:
        return sorted({link.region for link in self._peers.values() if not link.is_closed})

    # Links

    def _pace_of(self, region: int) -> Pace:
        """The pace of what that region is sent, whatever the link."""
        limits = self._config.limits
        return self._paces.setdefault(region, Pace(limits.message_bytes, limits.heartbeat_ms))

    def _open(self, dialled: bool, address: str, authorised: int) -> Link:
        self._last_id += 1
        link = self._links[self._last_id] = Link(self._last_id, dialled, address, self._settings, authorised)
        return link

    def _admit(self, link: Link) -> bool:
        """Decide, after the peer's Hello, whether this stream is kept. A node linked to itself is refused by the
        session instead.
        """
        own = self._config.region
        if link.origin:
            other = self._linked(link.origin)
            # True on both sides for the same stream: the one that the lower region number dialled.
            lower_dialled = link.dialled == (own < link.region)
            if other is not None and not lower_dialled and other.dialled != link.dialled:
                link.close(SUPERSEDED)
                return False
            if other is not None and other.dialled == link.dialled and self._count_contest(link.origin):
                link.at_odds = True
                link.close(CONTESTED)
                return False
            self._peers[link.origin] = link
            if other is not None:
                other.close(SUPERSEDED)
        return True

    def _count_contest(self, origin: int) -> bool:
        """Count a displaced stream; True if the peer keeps doing that, beyond what a lossy network explains."""
        if len(self._contests) >= LINKS_MAX:
            self._contests.clear()
        now_ms = self._settings.now_ms()
        count, last_ms = self._contests.get(origin, (0, now_ms))
        count = count + 1 if now_ms - last_ms <= CONTEST_MS else 1
        self._contests[origin] = (count, now_ms)
        return count > DISPLACED_MAX

    def _record_opened(self, link: Link) -> None:
        logger.info("link-opened", **_fields(link))

    def _linked(self, origin: int) -> Link | None:
        link = self._peers.get(origin)
        return None if link is None or link.is_closed else link

    def _retire(self, link: Link) -> None:
        """Forget a closed link and log the reason."""
        self._links.pop(link.id, None)
        if self._peers.get(link.origin) is link:
            del self._peers[link.origin]
        if link.at_odds:
            self._record_refusal(link.address if link.dialled else "", link.dialled)
            self._warn("link-closed", _key(link), link.reason, {**_fields(link), **_traffic(link)})
        elif link.opened:
            logger.info("link-lost", reason=link.reason, **_fields(link), **_traffic(link))
        elif link.reason != SUPERSEDED:
            logger.debug("link-ended", reason=link.reason, **_fields(link))

    def _record_refusal(self, peer: str, dialled: bool) -> None:
        """Count a refusal; who dials in is not counted by address, because there may be any number of addresses."""
        self.refusals[DIALLED if dialled else ACCEPTED, peer] += 1

    def _warn(self, event: str, about: str, reason: str, fields: dict[str, object]) -> None:
        """Log a failure that repeats with every attempt at once and then once a minute."""
        repeated = self._repeats.ask(event, f"{about}: {reason}", asyncio.get_running_loop().time())
        if repeated is not None:
            log(logger, event, reason=reason, repeated=repeated or None, **fields)

    async def serve(self, context: grpc.aio.ServicerContext[wire.Envelope, wire.Envelope]) -> None:
        """Handle a stream that another region dialled."""
        if self._stopping:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this region is shutting down")
        if len(self._links) >= LINKS_MAX:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"all {LINKS_MAX} links are in use: try again later"
            )
        newcomer = self._newcomers.enter()
        try:
            await self._receive(context, newcomer)
        finally:
            self._newcomers.leave(newcomer)

    async def _receive(
        self, context: grpc.aio.ServicerContext[wire.Envelope, wire.Envelope], newcomer: Newcomer
    ) -> None:
        host = host_of(context.peer())
        try:
            region = await newcomer.in_time(self._handshake.admit(context))
        except LOST:
            return
        except HandshakeRefused as refusal:
            self._record_refusal("", False)
            self._warn("link-refused", host, str(refusal), {"address": host, "side": ACCEPTED})
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(refusal))
        newcomer.link = self._open(False, host, region)
        newcomer.link.addresses = frozenset([(plain(host), port_of(context.peer()))])
        stream = Accepted(context)
        await self._run(newcomer.link, stream)
        stream.end(newcomer.link.reason)

    async def _run(self, link: Link, stream: Accepted | Dialled) -> None:
        try:
            await link.run(stream)
        finally:
            self._retire(link)

    # Dialling

    def follow(self, peers: Sequence[str]) -> None:
        """Dial these peers from now on, and no others; the node closes links of those that were removed."""
        added = [peer for peer in dict.fromkeys(peers) if peer not in self._diallers]
        removed = [peer for peer in self._diallers if peer not in peers]
        if added or removed:
            logger.info("peers-changed", added=" ".join(added), removed=" ".join(removed))
            self._answers.follow(peers)
        for peer in removed:
            self._end_dialling(peer)
        self._begin_dialling(added)

    def _begin_dialling(self, peers: Sequence[str]) -> None:
        for peer in dict.fromkeys(peers):
            self._diallers[peer] = asyncio.create_task(self._guard(peer))

    def _end_dialling(self, peer: str) -> None:
        """Stop now, or where a link has greeted, when the peer has had time to read why it is closed."""
        task = self._diallers.pop(peer)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        greeted = any(link.dialled and link.address == peer and link.region for link in self._links.values())
        if greeted:
            asyncio.get_running_loop().call_later(PARTING_S, task.cancel)
        else:
            task.cancel()
        for known in (self._unreached_s, self._objections, self.dial_failures):
            known.pop(peer, None)

    async def _guard(self, peer: str) -> None:
        try:
            await self._keep_dialling(peer)
        except Exception as error:
            self._settings.failed(error)

    async def _keep_dialling(self, peer: str) -> None:
        limits = self._config.limits
        delay_ms = limits.backoff_ms_min
        origin = 0
        while self._diallers.get(peer) is asyncio.current_task():
            linked = self._linked(origin)
            if linked is not None:
                await linked.wait_closed()
                continue
            link = await self._dial(peer)
            if link is not None and link.origin:
                origin = link.origin
            if self._linked(origin) is not None:
                continue
            if link is not None and link.opened and not link.at_odds:
                delay_ms = limits.backoff_ms_min
            await self._pause(random.uniform(0.5, 1.0) * delay_ms / 1000)
            delay_ms = min(2 * delay_ms, limits.backoff_ms_max)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._sought.wait()

    def _seek(self) -> None:
        """Wake all diallers: a peer's authorisation depends on who answers at the configured addresses."""
        self._sought.set()
        self._sought.clear()

    async def _dial(self, peer: str) -> Link | None:
        """Dial once and run the stream to its end; None if no connection was made."""
        reached = await self.routes.address_of(peer)
        self._settings.node.peer_dialled(peer, reached)
        async with self._channel(reached) as channel:
            metadata, nonce = self._handshake.begin()
            call = wire_grpc.ReplicationStub(channel).Exchange(metadata=metadata)
            try:
                async with asyncio.timeout(self._config.limits.peer_timeout_ms / 1000):
                    await call.wait_for_connection()
                    region = await self._handshake.complete(call, peer, nonce)
            except HandshakeRefused as refusal:
                self._settings.node.peer_failed(peer, str(refusal))
                self._record_refusal(peer, True)
                self._warn("link-refused", peer, str(refusal), {"address": reached, "side": DIALLED})
                return None
            except TimeoutError:
                self._record_unreached(peer, reached, "no answer")
                return None
            except LOST as error:
                if is_refusal(error):
                    self._record_refused(peer, reached, reason_of(error))
                else:
                    self._record_unreached(peer, reached, await self._explained(reached, reason_of(error)))
                return None
            self._unreached_s.pop(peer, None)
            self._settings.node.peer_met(peer, region)
            link = self._open(True, peer, region)
            link.reached = reached
            await self._run_dialled(link, Dialled(call), reached)
            call.cancel()
            if link.reason != SUPERSEDED:
                self._settings.node.peer_failed(peer, link.reason)
            return link

    async def _run_dialled(self, link: Link, stream: Dialled, reached: str) -> None:
        """Look its name up meanwhile: the peer waits for a greeting, and a resolver may take long."""
        finding = asyncio.create_task(self._find(link, reached))
        try:
            await self._run(link, stream)
        finally:
            finding.cancel()

    async def _find(self, link: Link, reached: str) -> None:
        link.addresses = await addresses_of(*split_address(reached))

    async def _explained(self, peer: str, reason: str) -> str:
        """The reason, or what is wrong with a certificate where gRPC does not tell; asked for once in a while."""
        if self.certificates is None or not CLOSED.search(reason):
            return reason
        now_s = asyncio.get_running_loop().time()
        asked_s, known = self._objections.get(peer, (now_s - OBJECTION_S, ""))
        if now_s - asked_s >= OBJECTION_S:
            known = await objection(self.certificates, *split_address(peer))
            self._objections[peer] = (now_s, known)
        return known or reason

    def _record_refused(self, peer: str, reached: str, reason: str) -> None:
        """Note a refusal that came before the peer named its region. Others come later, by the link, and are told
        alike.
        """
        self._settings.node.peer_failed(peer, reason)
        self._record_refusal(peer, True)
        told = {"peer": 0, "peer_name": "", "address": reached, "side": DIALLED}
        self._warn("link-closed", f"{peer} 0", reason, told)

    def _record_unreached(self, peer: str, reached: str, reason: str) -> None:
        """Note a failed dial. When regions start or restart, some are late, so only a lasting failure is logged as a
        warning.
        """
        self.dial_failures[peer] += 1
        self._settings.node.peer_failed(peer, reason)
        now_s = asyncio.get_running_loop().time()
        first_s = self._unreached_s.setdefault(peer, now_s)
        if now_s - first_s >= self._config.limits.peer_timeout_ms / 1000:
            self._warn("peer-unreachable", peer, reason, {"address": reached})
        else:
            logger.debug("dial-failed", reason=reason, address=reached)

    def _channel(self, peer: str) -> grpc.aio.Channel:
        address = join_address(*split_address(peer))
        if self.certificates is None:
            return grpc.aio.insecure_channel(address, options=self._options)
        return grpc.aio.secure_channel(address, self.certificates.channel(), options=self._options)


class _Servicer(wire_grpc.ReplicationServicer):
    """The server side of the contract."""

    def __init__(self, transport: GrpcTransport) -> None:
        self._transport = transport

    # This uses gRPC's reads and writes on the context; the generated types only know the style with iterators.
    async def Exchange(  # type: ignore[override]
        self, _requests: AsyncIterator[wire.Envelope], context: grpc.aio.ServicerContext[wire.Envelope, wire.Envelope]
    ) -> None:
        await self._transport.serve(context)

    async def Placement(
        self,
        request: wire.PlacementRequest,
        context: grpc.aio.ServicerContext[wire.PlacementRequest, wire.PlacementReply],
    ) -> wire.PlacementReply:
        placement = self._transport.placement
        if placement is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this region has one shard")
        return placement()

    async def Publish(  # type: ignore[override]
        self, _requests: AsyncIterator[wire.Envelope], context: grpc.aio.ServicerContext[wire.Envelope, wire.Envelope]
    ) -> None:
        if self._transport.siblings is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this region has one shard")
        await self._transport.siblings.serve(context)


def _key(link: Link) -> str:
    return f"{link.address} {link.region}"


def _fields(link: Link) -> dict[str, object]:
    side = DIALLED if link.dialled else ACCEPTED
    return {"peer": link.region, "peer_name": link.name, "address": link.reached, "side": side}


def _traffic(link: Link) -> dict[str, object]:
    """What passed when the link was closed: a link that is saturated differs from one that is cut."""
    return {"silent_ms": link.silent_ms, "write_ms": link.write_ms, "message_bytes": link.message_bytes}


def _report(error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": "the node failed", "exception": error})
