"""One gRPC stream between two regions: feeds received messages to the node and sends what it pulls from it.

There are two tasks. The reader passes messages to the node and schedules a turn. The writer pulls one message at a time
when it is woken and the last write has completed, but at the earliest `interval_s` after the last pull unless that
message was large. A slow peer therefore costs no queue, and everything that has accumulated is sent as one message.

The side that was dialled sends nothing before it has received a Hello: a silent stream then costs no compressor.

A link is closed once, with the first reason; from then on the node receives nothing from it. The session's verdict is
checked when there is nothing to send, and on every wake, because a write may hang for ever. A message with a refusal is
the last one, and has a moment to arrive before the stream is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import grpc.aio

from crdtstream.config import NAME_CHARACTERS_MAX
from crdtstream.replication import wire_pb2 as wire
from crdtstream.runtime.envelope import EnvelopeError, Packer, Unpacker

LAST_WORDS_S = 1.0
LOST = (grpc.aio.AioRpcError, grpc.aio.InternalError, grpc.aio.UsageError, asyncio.InvalidStateError)


class LinkNode(Protocol):
    """The node as links see it."""

    def link_opened(self, link_id: int, dialled: bool, now_ms: int) -> None: ...
    def link_closed(self, link_id: int, reason: str, now_ms: int) -> None: ...
    def peer_met(self, address: str, region: int) -> None: ...
    def peer_failed(self, address: str, reason: str) -> None: ...
    def welcomes(self, hello: wire.Hello) -> bool:
        """Return whether a link with this Hello may open."""

    def receive(self, link_id: int, message: wire.Message, now_ms: int) -> None: ...
    def outgoing(self, link_id: int, bytes_max: int, now_ms: int) -> wire.Message | None: ...
    def link_verdict(self, link_id: int) -> str | None: ...


class Stream(Protocol):
    """The common interface of both ends of a gRPC stream."""

    async def read(self) -> object: ...
    async def write(self, message: wire.Envelope, /) -> None: ...
    async def done_writing(self) -> None:
        """Declare that nothing more is sent; returns once the peer can rely on that."""


class LinkSettings:
    """What all links of a transport share."""

    __slots__ = (
        "admit",
        "failed",
        "interval_s",
        "message_bytes",
        "message_bytes_max",
        "node",
        "now_ms",
        "opened",
        "schedule_turn",
    )

    def __init__(
        self,
        node: LinkNode,
        now_ms: Callable[[], int],
        schedule_turn: Callable[[], None],
        admit: Callable[[Link], bool],
        opened: Callable[[Link], None],
        failed: Callable[[Exception], None],
        interval_s: float,
        message_bytes: int,
        message_bytes_max: int,
    ) -> None:
        self.node = node
        self.now_ms = now_ms
        self.schedule_turn = schedule_turn
        self.admit = admit
        self.opened = opened
        self.failed = failed
        self.interval_s = interval_s
        self.message_bytes = message_bytes
        self.message_bytes_max = message_bytes_max


class Link:
    """One stream. `region` and `origin` are 0 until the peer has greeted; `opened` is set by the first message after
    that. `at_odds`: one side refused or could not read the other, so the next attempt will probably end in the same
    way. The peer may greet only as the region `authorised`.
    """

    def __init__(self, link_id: int, dialled: bool, address: str, settings: LinkSettings, authorised: int) -> None:
        self.authorised = authorised
        self.id = link_id
        self.dialled = dialled
        self.address = address
        self.region = 0
        self.origin = 0
        self.name = ""
        self.reason = ""
        self.opened = False
        self.at_odds = False
        self._settings = settings
        self._closed = asyncio.Event()
        self._woken = asyncio.Event()
        self._greeted = asyncio.Event()
        self._packer = Packer()
        self._unpacker = Unpacker(settings.message_bytes_max)
        self._last_words = False

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    async def run(self, stream: Stream) -> None:
        """Run until either side closes the link."""
        self._settings.node.link_opened(self.id, self.dialled, self._settings.now_ms())
        tasks = [asyncio.create_task(self._guard(work, stream)) for work in (self._read, self._write)]
        try:
            await self._closed.wait()
        finally:
            self.close("the stream was torn down")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """Let the writer pull, and close the link if the session wants that."""
        self._woken.set()
        if not self._last_words:
            self._heed_verdict()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def close(self, reason: str) -> None:
        if self._closed.is_set():
            return
        # The session's verdict explains more than the transport's reason, which is only its consequence.
        verdict = self._settings.node.link_verdict(self.id)
        self.at_odds = self.at_odds or verdict is not None
        self.reason = reason if verdict is None else verdict
        self._closed.set()
        self._settings.node.link_closed(self.id, self.reason, self._settings.now_ms())
        self._settings.schedule_turn()

    def _heed_verdict(self) -> None:
        verdict = self._settings.node.link_verdict(self.id)
        if verdict is not None:
            self.close(verdict)

    async def _guard(self, work: Callable[[Stream], object], stream: Stream) -> None:
        try:
            await work(stream)  # type: ignore[misc]
        except LOST as error:
            self.at_odds = self.at_odds or is_refusal(error)
            self.close(reason_of(error))
        except EnvelopeError as error:
            self.at_odds = self.region != 0
            self.close(f"cannot read what the peer sent: {error}")
        except Exception as error:
            self.close(f"failed: {error!r}")
            self._settings.failed(error)

    async def _read(self, stream: Stream) -> None:
        while True:
            envelope = await self._next(stream)
            if self.is_closed:
                return
            if not isinstance(envelope, wire.Envelope):
                self.close("the peer ended the stream")
                return
            self._take(self._unpacker.unpack(envelope))

    async def _next(self, stream: Stream) -> object:
        """Read an envelope; gRPC raises here if the bytes are none, which is the peer's fault, not the node's."""
        try:
            return await stream.read()
        except LOST:
            raise
        except Exception as error:
            raise EnvelopeError(f"the message is not an envelope: {error}") from error

    def _take(self, message: wire.Message) -> None:
        if message.HasField("hello") and not self.region:
            if message.hello.region != self.authorised:
                self.at_odds = True
                self.close(f"region {self.authorised} greets as region {message.hello.region}")
                return
            self.region = message.hello.region
            self.origin = message.hello.origin
            self.name = message.hello.name[:NAME_CHARACTERS_MAX]
            self._greeted.set()
            if self._settings.node.welcomes(message.hello) and not self._settings.admit(self):
                return
        elif not self.opened and not message.HasField("refused"):
            self.opened = True
            self._settings.opened(self)
        self._settings.node.receive(self.id, message, self._settings.now_ms())
        self._settings.schedule_turn()

    async def _write(self, stream: Stream) -> None:
        settings = self._settings
        if not self.dialled:
            await self._greeted.wait()
        while not self.is_closed:
            self._woken.clear()
            message = settings.node.outgoing(self.id, settings.message_bytes, settings.now_ms())
            if message is None:
                self._heed_verdict()
                await asyncio.sleep(settings.interval_s)
                await self._woken.wait()
                continue
            envelope = self._packer.pack(message)
            if message.HasField("refused"):
                await self._write_last(stream, envelope)
                return
            await stream.write(envelope)
            # A small message emptied the node: wait for more to accumulate. A large one means that more is due now.
            if 2 * envelope.size_bytes < settings.message_bytes:
                await asyncio.sleep(settings.interval_s)

    async def _write_last(self, stream: Stream, envelope: wire.Envelope) -> None:
        self._last_words = True
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                await stream.write(envelope)
                await stream.done_writing()
        except TimeoutError:
            pass
        self._heed_verdict()


def is_refusal(error: BaseException) -> bool:
    """Return whether the dialled region refused this one."""
    return isinstance(error, grpc.aio.AioRpcError) and error.code() == grpc.StatusCode.PERMISSION_DENIED


def reason_of(error: BaseException) -> str:
    if is_refusal(error):
        return f"the peer refused: {error.details()}"  # type: ignore[attr-defined]
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name.lower().replace('_', ' ')}: {error.details()}"
    return str(error) or type(error).__name__
