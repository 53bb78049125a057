"""One gRPC stream between two regions: feeds received messages to the node and sends what it pulls from it.

Two tasks read and write. The reader passes messages to the node and schedules a turn. What is due is pulled at a beat
(pull_schedule.py), for all links together, and waits for the writer in a short queue. A link whose queue is full sits
beats out: a slow peer costs little memory, and everything that has accumulated is sent as one message.

The side that was dialled sends nothing before it has received a Hello: a silent stream then costs no compressor.

A link is closed once, with the first reason; from then on the node receives nothing from it. The session's verdict is
checked at every beat, because a write may hang for ever. A message with a refusal is the last one, and has a moment to
arrive before the stream is closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

import grpc.aio

from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.greeting import FRAMES_SINCE, OWN_VERSIONS, agreed, protocols_of
from crdtstream.runtime.links.envelope import EnvelopeError, EnvelopePacker, EnvelopeUnpacker, Frames, size_of
from crdtstream.runtime.links.pace import Pace
from crdtstream.runtime.links.pull_schedule import Beat
from crdtstream.runtime.links.stirring import Segments, SocketAddress, Stirring
from crdtstream.settings.config import NAME_CHARACTERS_MAX

LAST_WORDS_S = 1.0
# Enough that a write may take longer than a beat, and a large turn goes out at once.
QUEUE_MAX = 4
LOST = (grpc.aio.AioRpcError, grpc.aio.InternalError, grpc.aio.UsageError, asyncio.InvalidStateError)


class LinkNode(Protocol):
    """The node as links see it."""

    def link_opened(self, link_id: int, dialled: bool, now_ms: int) -> None: ...
    def link_closed(self, link_id: int, reason: str, now_ms: int) -> None: ...
    def peer_dialled(self, address: str, reached: str) -> None: ...
    def peer_met(self, address: str, region: int) -> None: ...
    def peer_failed(self, address: str, reason: str) -> None: ...
    def welcomes(self, hello: wire.Hello) -> bool:
        """Return whether a link with this Hello may open."""

    def receive(self, link_id: int, message: wire.Message, byte_count: int, now_ms: int) -> None:
        """Take a message of about this size: asking it for its size would encode it."""

    def outgoing(
        self, link_id: int, bytes_max: int, now_ms: int, apart: list[bytes] | None = None
    ) -> wire.Message | None:
        """Return what is due; whole batches may be added to the list `apart` instead."""

    def link_verdict(self, link_id: int) -> str | None: ...
    def link_stirs(self, link_id: int, now_ms: int) -> None:
        """Bytes have come, and no whole message."""


class LinkStream(Protocol):
    """The common interface of both ends of a gRPC stream."""

    async def read(self) -> object: ...
    async def write(self, message: wire.Envelope, /) -> None: ...
    async def done_writing(self) -> None:
        """Declare that nothing more is sent; returns once the peer can rely on that."""

    async def farewell(self) -> str:
        """After the end: what follows "the peer ended the stream", because the peer said why, or where to look."""


class LinkSettings:
    """What all links of a transport share."""

    __slots__ = (
        "admit",
        "beat",
        "failed",
        "frames",
        "message_bytes_max",
        "node",
        "now_ms",
        "opened",
        "pace_of",
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
        beat: Beat,
        frames: Frames,
        pace_of: Callable[[int], Pace],
        message_bytes_max: int,
    ) -> None:
        self.node = node
        self.now_ms = now_ms
        self.schedule_turn = schedule_turn
        self.admit = admit
        self.opened = opened
        self.failed = failed
        self.beat = beat
        self.frames = frames
        self.pace_of = pace_of
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
        # Where that is for this shard.
        self.reached = address
        self.region = 0
        self.origin = 0
        self.name = ""
        self.reason = ""
        self.opened = False
        self.at_odds = False
        self._settings = settings
        self._closed = asyncio.Event()
        self._queue: deque[wire.Envelope] = deque()
        self._queued = asyncio.Event()
        self._may_say = dialled
        self._packer = EnvelopePacker()
        self._unpacker = EnvelopeUnpacker(settings.message_bytes_max)
        self._pace = settings.pace_of(authorised)
        # When the last message came, and when the write began that has not returned, if there is one.
        self._heard_s = 0.0
        self._writing_s: float | None = None
        # Where its connection leads, and what comes over that while no message does.
        self.addresses: frozenset[SocketAddress] = frozenset()
        self._stirring: Stirring | None = None
        # How long nothing had come, and the last write had waited, when the link was closed.
        self.silent_ms = self.write_ms = 0
        self._last_words = False

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    async def run(self, stream: LinkStream) -> None:
        """Run until either side closes the link."""
        self._settings.node.link_opened(self.id, self.dialled, self._settings.now_ms())
        self.pull()
        tasks = [asyncio.create_task(self._guard(work, stream)) for work in (self._read, self._write)]
        try:
            await self._closed.wait()
        finally:
            self.close("the stream was torn down")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def pull(self) -> None:
        """Queue what is due, and close the link if the session wants that."""
        try:
            self._fill_queue()
        except Exception as error:
            self._fail(error)

    def _fill_queue(self) -> None:
        settings, full = self._settings, self._may_say
        while full and not self.is_closed and not self._last_words and len(self._queue) < QUEUE_MAX:
            apart: list[bytes] = []
            message_bytes = self._pace.message_bytes
            message = settings.node.outgoing(self.id, message_bytes, settings.now_ms(), apart)
            if message is None:
                break
            if message.HasField("refused"):
                self._last_words = True
                asyncio.get_running_loop().call_later(LAST_WORDS_S, self._apply_verdict)
            envelope = self._packer.pack(message, apart)
            self._queue.append(envelope)
            self._queued.set()
            # A large message means that more is due now.
            full = 2 * size_of(envelope) >= message_bytes
        if not self._last_words:
            self._apply_verdict()

    @property
    def message_bytes(self) -> int:
        """The size that messages aim at now."""
        return self._pace.message_bytes

    def look_for_life(self, quiet_s: float, segments: Segments) -> None:
        """If no message has come for this long, see whether bytes come all the same."""
        if not self.opened or self.is_closed or asyncio.get_running_loop().time() - self._heard_s < quiet_s:
            self._stirring = None
        elif self._stirring is None:
            self._stirring = Stirring(self.addresses, segments)
        elif self._stirring.stirs(segments):
            self._settings.node.link_stirs(self.id, self._settings.now_ms())

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def close(self, reason: str) -> None:
        if self._closed.is_set():
            return
        # The session's verdict explains more than the transport's reason, which is only its consequence.
        verdict = self._settings.node.link_verdict(self.id)
        self.at_odds = self.at_odds or verdict is not None
        self.reason = reason if verdict is None else verdict
        now_s = asyncio.get_running_loop().time()
        self.silent_ms = _ms(now_s - self._heard_s) if self._heard_s else 0
        self.write_ms = 0 if self._writing_s is None else _ms(now_s - self._writing_s)
        self._closed.set()
        self._settings.node.link_closed(self.id, self.reason, self._settings.now_ms())
        self._settings.schedule_turn()

    def _apply_verdict(self) -> None:
        if self.is_closed:
            return
        verdict = self._settings.node.link_verdict(self.id)
        if verdict is not None:
            self.close(verdict)

    async def _guard(self, work: Callable[[LinkStream], object], stream: LinkStream) -> None:
        try:
            await work(stream)  # type: ignore[misc]
        except LOST as error:
            self.at_odds = self.at_odds or is_refusal(error)
            self.close(reason_of(error))
        except EnvelopeError as error:
            self.at_odds = self.region != 0
            self.close(f"cannot read what the peer sent: {error}")
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.close(f"failed: {error!r}")
        self._settings.failed(error)

    async def _read(self, stream: LinkStream) -> None:
        while True:
            envelope = await self._next(stream)
            if self.is_closed:
                return
            if not isinstance(envelope, wire.Envelope):
                self.close(f"the peer ended the stream{await stream.farewell()}")
                return
            self._heard_s = asyncio.get_running_loop().time()
            self._receive(self._unpacker.unpack(envelope), size_of(envelope))

    async def _next(self, stream: LinkStream) -> object:
        """Read an envelope; gRPC raises here if the bytes are none, which is the peer's fault, not the node's."""
        try:
            return await stream.read()
        except LOST:
            raise
        except Exception as error:
            raise EnvelopeError(f"the message is not an envelope: {error}") from error

    def _receive(self, message: wire.Message, byte_count: int) -> None:
        if message.HasField("hello") and not self.region:
            if message.hello.region != self.authorised:
                self.at_odds = True
                self.close(f"region {self.authorised} greets as region {message.hello.region}")
                return
            self.region = message.hello.region
            self.origin = message.hello.origin
            self.name = message.hello.name[:NAME_CHARACTERS_MAX]
            if agreed(OWN_VERSIONS.protocol, protocols_of(message.hello)) >= FRAMES_SINCE:
                self._packer.frames = self._settings.frames
            self._may_say = True
            if self._settings.node.welcomes(message.hello) and not self._settings.admit(self):
                return
        elif not self.opened and not message.HasField("refused"):
            self.opened = True
            self._settings.opened(self)
        self._settings.node.receive(self.id, message, byte_count, self._settings.now_ms())
        self._settings.schedule_turn()

    async def _write(self, stream: LinkStream) -> None:
        while not self.is_closed:
            await self._queued.wait()
            while self._queue:
                await self._write_one(stream, self._queue[0])
                self._queue.popleft()
            self._queued.clear()
            if self._last_words:
                await stream.done_writing()
                self._apply_verdict()
                return
            self._settings.beat.ask()

    async def _write_one(self, stream: LinkStream, envelope: wire.Envelope) -> None:
        clock_s = asyncio.get_running_loop().time
        begun_s = self._writing_s = clock_s()
        try:
            await stream.write(envelope)
        finally:
            self._writing_s = None
            self._pace.wrote(size_of(envelope), clock_s() - begun_s)


def is_refusal(error: BaseException) -> bool:
    """Return whether the dialled region refused this one."""
    return isinstance(error, grpc.aio.AioRpcError) and error.code() == grpc.StatusCode.PERMISSION_DENIED


def reason_of(error: BaseException) -> str:
    if is_refusal(error):
        return f"the peer refused: {error.details()}"  # type: ignore[attr-defined]
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name.lower().replace('_', ' ')}: {error.details()}"
    if isinstance(error, grpc.aio.InternalError):
        return f"the connection was lost while a message was sent ({error})"
    return str(error) or type(error).__name__


def _ms(seconds: float) -> int:
    return int(1000 * seconds)
