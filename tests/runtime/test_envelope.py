"""One zstd stream for each direction: what it saves, and what it refuses to become."""

from __future__ import annotations

import os
import resource

import pytest
import zstandard

from crdtstream.replication import wire_pb2 as wire
from crdtstream.runtime.envelope import EnvelopeError, Packer, Unpacker

BYTES_MAX = 1 << 20


def batches(*payloads: bytes) -> wire.Message:
    return wire.Message(batches=wire.Batches(payloads=payloads))


def packed_by(compressor: zstandard.ZstdCompressionObj, data: bytes, size: int | None = None) -> wire.Envelope:
    packed = compressor.compress(data) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return wire.Envelope(zstd=packed, size_bytes=len(data) if size is None else size)


def compressor(window_log: int = 20) -> zstandard.ZstdCompressionObj:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=window_log)
    return zstandard.ZstdCompressor(compression_params=parameters).compressobj()


def test_messages_come_out_as_they_went_in() -> None:
    packer, unpacker = Packer(), Unpacker(BYTES_MAX)
    for payload in (b"", b"x", os.urandom(500_000), b"y" * 1_000_000, os.urandom(1 << 17), b"z"):
        message = batches(payload)
        envelope = packer.pack(message)
        assert envelope.size_bytes == message.ByteSize()
        assert unpacker.unpack(wire.Envelope.FromString(envelope.SerializeToString())) == message


def test_the_stream_so_far_is_the_dictionary() -> None:
    packer = Packer()
    payload = os.urandom(1000)
    first = packer.pack(batches(payload)).ByteSize()
    second = packer.pack(batches(payload)).ByteSize()
    assert first > 1000
    assert second < 40


def test_the_limit_is_inclusive() -> None:
    message = batches(b"x" * 1000)
    size = message.ByteSize()
    assert Unpacker(size).unpack(Packer().pack(message)) == message
    with pytest.raises(EnvelopeError, match=f"a message of {size} bytes is outside the permitted 1 to {size - 1}"):
        Unpacker(size - 1).unpack(Packer().pack(message))


@pytest.mark.parametrize("said", [10, 1 << 20])
def test_a_bomb_costs_no_memory_whatever_it_says(said: int) -> None:
    begun = compressor()
    zeros = bytes(1 << 24)
    packed = b"".join(begun.compress(zeros) for _ in range(64)) + begun.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    assert len(packed) < 200_000
    unpacker = Unpacker(BYTES_MAX)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        with pytest.raises(EnvelopeError):
            unpacker.unpack(wire.Envelope(zstd=packed, size_bytes=said))
    with pytest.raises(EnvelopeError):
        unpacker.unpack(wire.Envelope(zstd=packed, size_bytes=(1 << 30)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_a_window_beyond_ours_is_refused() -> None:
    with pytest.raises(EnvelopeError, match="zstd"):
        Unpacker(BYTES_MAX).unpack(packed_by(compressor(27), b"x"))


def test_bytes_that_are_no_stream_are_refused() -> None:
    with pytest.raises(EnvelopeError, match="does not continue the zstd stream"):
        Unpacker(BYTES_MAX).unpack(wire.Envelope(zstd=b"nonsense", size_bytes=5))


@pytest.mark.parametrize(("said", "what"), [(0, "of 0 bytes"), (4, "has 3 bytes, but declared 4")])
def test_a_size_that_is_wrong_is_refused(said: int, what: str) -> None:
    with pytest.raises(EnvelopeError, match=what):
        Unpacker(BYTES_MAX).unpack(packed_by(compressor(), b"abc", said))


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(EnvelopeError, match="holds no message"):
        Unpacker(BYTES_MAX).unpack(packed_by(compressor(), b"\xff\xff\xff"))
