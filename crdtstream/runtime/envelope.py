"""Messages to envelopes and back: one zstd stream for each direction of a link, flushed after each message.

The stream so far serves as the dictionary, so a small message that resembles earlier ones costs a few bytes. Both sides
must process every envelope in order; one that cannot be unpacked ends the link. The unpacked size is limited in
advance: the envelope declares it, `message_bytes_max` bounds it (inclusive), and no more than that is decompressed. The
memory of the stream is bounded by its window.
"""

from __future__ import annotations

import zstandard
from google.protobuf.message import DecodeError

from crdtstream.replication import wire_pb2 as wire

# Higher levels cost twice the time, and make larger messages: what they search for is not in entries.
LEVEL = 1
WINDOW_LOG = 20


class EnvelopeError(ValueError):
    """The envelope does not hold exactly one message of a permitted size."""


class Packer:
    """The sending end of one direction."""

    __slots__ = ("_compressor",)

    def __init__(self) -> None:
        parameters = zstandard.ZstdCompressionParameters.from_level(LEVEL, window_log=WINDOW_LOG)
        self._compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()

    def pack(self, message: wire.Message) -> wire.Envelope:
        data = message.SerializeToString()
        packed = self._compressor.compress(data) + self._compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        return wire.Envelope(zstd=packed, size_bytes=len(data))


class _Source:
    """Passes the bytes of one envelope to the decompressor, once."""

    __slots__ = ("packed",)

    def __init__(self) -> None:
        self.packed = b""

    def read(self, _size: int = -1) -> bytes:
        packed = self.packed
        self.packed = b""
        return packed


class Unpacker:
    """The receiving end of one direction."""

    __slots__ = ("_bytes_max", "_reader", "_source")

    def __init__(self, message_bytes_max: int) -> None:
        self._bytes_max = message_bytes_max
        self._source = _Source()
        decompressor = zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG)
        self._reader = decompressor.stream_reader(self._source)  # type: ignore[arg-type]

    def unpack(self, envelope: wire.Envelope) -> wire.Message:
        size = envelope.size_bytes
        if not 0 < size <= self._bytes_max:
            raise EnvelopeError(f"a message of {size} bytes is outside the permitted 1 to {self._bytes_max}")
        if self._source.packed:
            raise EnvelopeError("the previous message was longer than it declared")
        self._source.packed = envelope.zstd
        try:
            data = self._reader.read(size)
            if len(data) != size:
                raise EnvelopeError(f"a message has {len(data)} bytes, but declared {size}")
            return wire.Message.FromString(data)
        except zstandard.ZstdError as error:
            raise EnvelopeError(f"the envelope does not continue the zstd stream: {error}") from error
        except DecodeError as error:
            raise EnvelopeError(f"the envelope holds no message: {error}") from error
