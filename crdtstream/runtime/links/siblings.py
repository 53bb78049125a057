"""What clients publish to one shard, for the clients of the others: a stream from each shard to each other one.

A stream is opened at the first message. Messages for a shard that cannot be reached, or that reads too slowly, are
dropped and counted: PUBLISH promises its listeners nothing, in Redis neither. A sibling shows the certificate of its
region, or proves its secret, as regions do; where there is neither, it must be on this machine, unless the network is
trusted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

import grpc.aio
import structlog

from crdtstream.connections.outputs import Messages
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication import wire_pb2_grpc as wire_grpc
from crdtstream.runtime.links.handshake import Handshake, HandshakeCall, HandshakeContext, HandshakeRefused
from crdtstream.runtime.links.link import LOST, reason_of
from crdtstream.runtime.logs.rate_limited_log import Repeats

# One message may be larger than an envelope: then it travels in parts.
PART_BYTES = 1 << 20
WAITING_BYTES_MAX = 16 << 20
ANSWER_S = 5.0
RETRY_S = 1.0

logger = structlog.get_logger()


class StreamLost(Exception):
    """The stream to a shard was not opened, or ended; the text says why."""


class Sibling:
    """The way to one other shard; `address` says where it is now."""

    def __init__(
        self,
        number: int,
        address: Callable[[], str],
        channel: Callable[[str], grpc.aio.Channel],
        handshake: Handshake,
        repeats: Repeats,
    ) -> None:
        self._number = number
        self._address = address
        self._channel = channel
        self._handshake = handshake
        self._repeats = repeats
        self._waiting: deque[tuple[bytes, bytes]] = deque()
        self._waiting_bytes = 0
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0

    def send(self, messages: Messages) -> None:
        """Send these after those that wait."""
        for channel, text in messages:
            size = len(channel) + len(text)
            if self._waiting_bytes + size > WAITING_BYTES_MAX and self._waiting:
                self.dropped += 1
                continue
            self._waiting.append((channel, text))
            self._waiting_bytes += size
        self._came.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                await self._stream()
            except (HandshakeRefused, StreamLost) as error:
                self._give_up(str(error))
            except TimeoutError:
                self._give_up("no answer")
            await asyncio.sleep(RETRY_S)

    def _give_up(self, reason: str) -> None:
        self.dropped += len(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        now_s = asyncio.get_running_loop().time()
        repeated = self._repeats.ask("shard-unreachable", str(self._number), now_s)
        if repeated is not None:
            logger.warning(
                "shard-unreachable", number=self._number, reason=reason, dropped=self.dropped, repeated=repeated or None
            )

    async def _stream(self) -> None:
        await self._came.wait()
        async with self._channel(self._address()) as channel:
            metadata, nonce = self._handshake.begin()
            call = wire_grpc.ReplicationStub(channel).Publish(metadata=metadata)
            # An end is noticed at once, so that the next message goes to a stream that is open.
            call.add_done_callback(lambda _: self._came.set())
            try:
                async with asyncio.timeout(ANSWER_S):
                    await call.wait_for_connection()
                    await self._handshake.complete(call, "", nonce)
                    # It says that this shard is admitted; a refusal is raised here, with its reason.
                    await call.read()
                while not call.done():
                    self._came.clear()
                    await self._drain(call)
                    await self._came.wait()
            except LOST as error:
                # What a failed write says is less than how the stream ended.
                raise StreamLost(await said(call) or reason_of(error)) from error
            if await call.code() != grpc.StatusCode.OK:
                raise StreamLost(await said(call))

    async def _drain(self, call: HandshakeCall) -> None:
        while self._waiting and not call.done():
            name, text = self._waiting.popleft()
            self._waiting_bytes -= len(name) + len(text)
            for part in parts_of(name, text):
                await call.write(wire.Envelope(published=part))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


async def said(call: HandshakeCall) -> str:
    """How the other side ended the stream; empty if it did not say so in time."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return str(await call.details() or "")
    except TimeoutError:
        return ""


def parts_of(channel: bytes, text: bytes) -> Iterator[wire.Published]:
    """One message, in parts; all but the last say that more follows."""
    for at in range(0, max(len(text), 1), PART_BYTES):
        yield wire.Published(channel=channel, message=text[at : at + PART_BYTES], continues=at + PART_BYTES < len(text))


class Siblings:
    """All other shards of a region, and what comes from them; `receive` is called with each message."""

    def __init__(
        self,
        own: int,
        addresses: Callable[[], list[str]],
        channel: Callable[[str], grpc.aio.Channel],
        handshake: Handshake,
        receive: Callable[[bytes, bytes], None],
    ) -> None:
        self._handshake = handshake
        self._receive = receive
        repeats = Repeats()

        def to(number: int) -> Sibling:
            return Sibling(number, lambda: addresses()[number], channel, handshake, repeats)

        self._others = [to(number) for number in range(len(addresses())) if number != own]

    def publish(self, messages: Messages) -> None:
        for other in self._others:
            other.send(messages)

    async def serve(self, context: HandshakeContext) -> None:
        """Take what another shard sends, until it ends the stream."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._handshake.admit_sibling(context)
                await context.write(wire.Envelope())
        except TimeoutError:
            return
        except HandshakeRefused as refusal:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(refusal))
        begun = bytearray()
        while True:
            try:
                envelope: object = await context.read()
            except LOST:
                return
            if not isinstance(envelope, wire.Envelope):
                return
            published = envelope.published
            begun += published.message
            if not published.continues:
                self._receive(published.channel, bytes(begun))
                begun.clear()

    async def stop(self) -> None:
        for other in self._others:
            await other.stop()
