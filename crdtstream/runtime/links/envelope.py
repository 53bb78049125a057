"""Messages to envelopes and back: one zstd stream for each direction of a link, flushed after each message, and frames
that all links share.

The stream so far serves as the dictionary, so a small message that resembles earlier ones costs a few bytes. Both sides
must process every envelope in order; one that cannot be unpacked ends the link.

Many batches need no dictionary, and mostly all peers are sent the same ones: they travel as a frame of their own, which
is made once. Only a peer that speaks protocol `FRAMES_SINCE` is sent frames.

The unpacked size is limited in advance: the envelope declares it, `message_bytes_max` bounds it (inclusive), and no
more than that is decompressed. The memory of the stream is bounded by its window.
"""

from __future__ import annotations

from collections import deque

import zstandard
from google.protobuf.message import DecodeError

from crdtstream.replication import wire_pb2 as wire

# Higher levels cost twice the time, and make larger messages: what they search for is not in entries.
LEVEL = 1
WINDOW_LOG = 20
# Below this a frame is larger than what the stream makes of the same bytes.
FRAME_BYTES_MIN = 16 << 10
# A link may be slower than another one by as many messages and still share their frames.
FRAMES_KEPT = 4
# The fields of wire.Batches as they are tagged: a number, and bytes of which the length comes first.
_RESTART = bytes((wire.Batches.RESTART_FIELD_NUMBER << 3 | 0,))
_PAYLOAD = bytes((wire.Batches.PAYLOADS_FIELD_NUMBER << 3 | 2,))


class EnvelopeError(ValueError):
    """The envelope does not hold exactly one message of a permitted size."""


class Frames:
    """Makes frames; the same content soon afterwards gets the same frame."""

    __slots__ = ("_compressor", "_kept", "made")

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._kept: deque[tuple[object, wire.Frame]] = deque(maxlen=FRAMES_KEPT)
        self.made = 0

    def of_batches(self, restart: int, payloads: list[bytes]) -> wire.Frame:
        said = (restart, payloads)
        return self._known(said) or self._make(said, encoded_batches(restart, payloads))

    def of_part(self, data: bytes) -> wire.Frame:
        """The frame of a part, which is encoded already."""
        return self._known(data) or self._make(data, data)

    def _known(self, said: object) -> wire.Frame | None:
        for known, frame in self._kept:
            if known == said:
                return frame
        return None

    def _make(self, said: object, data: bytes) -> wire.Frame:
        frame = wire.Frame(zstd=self._compressor.compress(data), size_bytes=len(data))
        self._kept.appendleft((said, frame))
        self.made += 1
        return frame


def encoded_batches(restart: int, payloads: list[bytes]) -> bytes:
    """The bytes of `wire.Batches` with these values. The library would copy the payloads several times to grow its
    buffer, and they are most of what a region sends.
    """
    parts = [_RESTART, varint(restart)] if restart else []
    for payload in payloads:
        parts += (_PAYLOAD, varint(len(payload)), payload)
    return b"".join(parts)


def varint(number: int) -> bytes:
    """A number as Protocol Buffers write it: seven bits in each byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


class EnvelopePacker:
    """The sending end of one direction; with `frames` once the peer is known to read them."""

    __slots__ = ("_compressor", "frames")

    def __init__(self) -> None:
        parameters = zstandard.ZstdCompressionParameters.from_level(LEVEL, window_log=WINDOW_LOG)
        self._compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        self.frames: Frames | None = None

    def pack(self, message: wire.Message, apart: list[bytes] | None = None) -> wire.Envelope:
        """Take the message apart; nobody else may use it afterwards. `apart` are batches that belong in it."""
        envelope = wire.Envelope()
        if self.frames is not None and message.HasField("batches"):
            _frame_batches(message, apart or list(message.batches.payloads), envelope, self.frames)
        elif self.frames is not None and message.HasField("part"):
            _frame_part(message, envelope, self.frames)
        if apart and message.HasField("batches"):
            message.batches.payloads.extend(apart)
        data = message.SerializeToString()
        if data:
            envelope.zstd = self._compressor.compress(data) + self._compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            envelope.size_bytes = len(data)
        return envelope


def _frame_batches(message: wire.Message, payloads: list[bytes], envelope: wire.Envelope, frames: Frames) -> None:
    if sum(map(len, payloads)) >= FRAME_BYTES_MIN:
        envelope.batches.CopyFrom(frames.of_batches(message.batches.restart, payloads))
        message.ClearField("batches")


def _frame_part(message: wire.Message, envelope: wire.Envelope, frames: Frames) -> None:
    data = message.part.SerializeToString()
    if len(data) >= FRAME_BYTES_MIN:
        envelope.part.CopyFrom(frames.of_part(data))
        message.ClearField("part")


def size_of(envelope: wire.Envelope) -> int:
    """The size of the message before compression, as the envelope declares it."""
    return envelope.size_bytes + envelope.batches.size_bytes + envelope.part.size_bytes


class _Source:
    """Passes the bytes of one envelope to the decompressor, once."""

    __slots__ = ("packed",)

    def __init__(self) -> None:
        self.packed = b""

    def read(self, _size: int = -1) -> bytes:
        packed = self.packed
        self.packed = b""
        return packed


class EnvelopeUnpacker:
    """The receiving end of one direction."""

    __slots__ = ("_bytes_max", "_decompressor", "_reader", "_source")

    def __init__(self, message_bytes_max: int) -> None:
        self._bytes_max = message_bytes_max
        self._source = _Source()
        decompressor = zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG)
        self._reader = decompressor.stream_reader(self._source)  # type: ignore[arg-type]
        self._decompressor = zstandard.ZstdDecompressor()

    def unpack(self, envelope: wire.Envelope) -> wire.Message:
        size = size_of(envelope)
        if not 0 < size <= self._bytes_max:
            raise EnvelopeError(f"a message of {size} bytes is outside the permitted 1 to {self._bytes_max}")
        try:
            message = self._streamed(envelope) if envelope.size_bytes else wire.Message()
            self._add_framed(envelope, message)
        except zstandard.ZstdError as error:
            raise EnvelopeError(f"the envelope does not continue the zstd stream: {error}") from error
        except DecodeError as error:
            raise EnvelopeError(f"the envelope holds no message: {error}") from error
        return message

    def _streamed(self, envelope: wire.Envelope) -> wire.Message:
        size = envelope.size_bytes
        if self._source.packed:
            raise EnvelopeError("the previous message was longer than it declared")
        self._source.packed = envelope.zstd
        data = self._reader.read(size)
        if len(data) != size:
            raise EnvelopeError(f"a message has {len(data)} bytes, but declared {size}")
        return wire.Message.FromString(data)

    def _add_framed(self, envelope: wire.Envelope, message: wire.Message) -> None:
        if envelope.HasField("batches"):
            message.batches.MergeFromString(self._content(envelope.batches))
        if envelope.HasField("part"):
            message.part.MergeFromString(self._content(envelope.part))

    def _content(self, frame: wire.Frame) -> bytes:
        # The size that a frame names is the memory that it takes, so it is looked at before.
        try:
            size = zstandard.frame_content_size(frame.zstd)
            if size == frame.size_bytes:
                return self._decompressor.decompress(frame.zstd, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise EnvelopeError(f"the envelope holds a frame that cannot be read: {error}") from error
        raise EnvelopeError(f"a frame has {size} bytes, but declared {frame.size_bytes}")
