"""One gRPC stream between two regions: reads into the node, and pulls from it.

Two tasks. The reader feeds the node and has a turn scheduled. The writer pulls one message at a time, when it is
woken and the last write has completed, but not before `interval_s` has passed since the last pull, unless that one
was large: so a slow peer costs no queue, and everything that gathered meanwhile goes as one message.

A link is closed once, with the first reason; from then on the node hears nothing more of it. What the session wants
(its verdict) is asked when there is nothing to say, and on every wake, because a write may hang for ever. A message
that refuses is the last, and gets a moment to arrive before the stream is torn down.
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
    """The node, as links see it."""

    def link_opened(self, link_id: int, dialled: bool, now_ms: int) -> None: ...
    def link_closed(self, link_id: int, reason: str, now_ms: int) -> None: ...
    def peer_met(self, address: str, region: int) -> None: ...
    def welcomes(self, hello: wire.Hello) -> bool:
        """Nothing speaks against a link with who greets so."""

    def receive(self, link_id: int, message: wire.Message, now_ms: int) -> None: ...
    def outgoing(self, link_id: int, bytes_max: int, now_ms: int) -> wire.Message | None: ...
    def link_verdict(self, link_id: int) -> str | None: ...


class Stream(Protocol):
    """A gRPC stream, as both of its ends look."""

    async def read(self) -> object: ...
    async def write(self, message: wire.Envelope, /) -> None: ...
    async def done_writing(self) -> None:
        """Nothing more comes from this end; it returns once that may be relied on."""


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
    """A stream; `region` is 0 until the peer has greeted, `opened` is set once it goes on after that. `at_odds` is set
    where the two sides refuse or cannot read each other, so that the next try is likely to end as this one did.
    """

    def __init__(self, link_id: int, dialled: bool, address: str, settings: LinkSettings) -> None:
        self.id = link_id
        self.dialled = dialled
        self.address = address
        self.region = 0
        self.name = ""
        self.reason = ""
        self.opened = False
        self.at_odds = False
        self._settings = settings
        self._closed = asyncio.Event()
        self._woken = asyncio.Event()
        self._packer = Packer()
        self._unpacker = Unpacker(settings.message_bytes_max)
        self._last_words = False

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    async def run(self, stream: Stream) -> None:
        """Until either side closes the link."""
        self._settings.node.link_opened(self.id, self.dialled, self._settings.now_ms())
        tasks = [asyncio.create_task(self._guard(work, stream)) for work in (self._read, self._write)]
        try:
            await self._closed.wait()
        finally:
            self.close("the peer tore the stream down")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """The node may have something to say, or want the link closed."""
        self._woken.set()
        if not self._last_words:
            self._heed_verdict()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def close(self, reason: str) -> None:
        if self._closed.is_set():
            return
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
        """gRPC raises here what it thinks of bytes that are no envelope; they are the peer's fault, not the node's."""
        try:
            return await stream.read()
        except LOST:
            raise
        except Exception as error:
            raise EnvelopeError(f"no envelope: {error}") from error

    def _take(self, message: wire.Message) -> None:
        if message.HasField("hello") and not self.region:
            self.region = message.hello.region
            self.name = message.hello.name[:NAME_CHARACTERS_MAX]
            if self.dialled:
                self._settings.node.peer_met(self.address, self.region)
            if self._settings.node.welcomes(message.hello) and not self._settings.admit(self):
                return
        elif not self.opened and not message.HasField("refused"):
            self.opened = True
            self._settings.opened(self)
        self._settings.node.receive(self.id, message, self._settings.now_ms())
        self._settings.schedule_turn()

    async def _write(self, stream: Stream) -> None:
        settings = self._settings
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


def reason_of(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name.lower().replace('_', ' ')}: {error.details()}"
    return str(error) or type(error).__name__
