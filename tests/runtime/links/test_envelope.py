"""One zstd stream for each direction, and frames that links share: what they save, and what they refuse to become."""

from __future__ import annotations

import os
import resource

import pytest
import zstandard

from crdtstream.replication import wire_pb2 as wire
from crdtstream.runtime.links.envelope import (
    FRAME_BYTES_MIN,
    FRAMES_KEPT,
    EnvelopeError,
    EnvelopePacker,
    EnvelopeUnpacker,
    Frames,
    encoded_batches,
    size_of,
)

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
    packer, unpacker = EnvelopePacker(), EnvelopeUnpacker(BYTES_MAX)
    for payload in (b"", b"x", os.urandom(500_000), b"y" * 1_000_000, os.urandom(1 << 17), b"z"):
        message = batches(payload)
        envelope = packer.pack(message)
        assert envelope.size_bytes == message.ByteSize()
        assert unpacker.unpack(wire.Envelope.FromString(envelope.SerializeToString())) == message


def test_the_stream_so_far_is_the_dictionary() -> None:
    packer = EnvelopePacker()
    payload = os.urandom(1000)
    first = packer.pack(batches(payload)).ByteSize()
    second = packer.pack(batches(payload)).ByteSize()
    assert first > 1000
    assert second < 40


def test_the_limit_is_inclusive() -> None:
    message = batches(b"x" * 1000)
    size = message.ByteSize()
    assert EnvelopeUnpacker(size).unpack(EnvelopePacker().pack(message)) == message
    with pytest.raises(EnvelopeError, match=f"a message of {size} bytes is outside the permitted 1 to {size - 1}"):
        EnvelopeUnpacker(size - 1).unpack(EnvelopePacker().pack(message))


@pytest.mark.parametrize("said", [10, 1 << 20])
def test_a_bomb_costs_no_memory_whatever_it_says(said: int) -> None:
    begun = compressor()
    zeros = bytes(1 << 24)
    packed = b"".join(begun.compress(zeros) for _ in range(64)) + begun.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    assert len(packed) < 200_000
    unpacker = EnvelopeUnpacker(BYTES_MAX)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        with pytest.raises(EnvelopeError):
            unpacker.unpack(wire.Envelope(zstd=packed, size_bytes=said))
    with pytest.raises(EnvelopeError):
        unpacker.unpack(wire.Envelope(zstd=packed, size_bytes=(1 << 30)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_a_window_beyond_ours_is_refused() -> None:
    with pytest.raises(EnvelopeError, match="zstd"):
        EnvelopeUnpacker(BYTES_MAX).unpack(packed_by(compressor(27), b"x"))


def test_bytes_that_are_no_stream_are_refused() -> None:
    with pytest.raises(EnvelopeError, match="does not continue the zstd stream"):
        EnvelopeUnpacker(BYTES_MAX).unpack(wire.Envelope(zstd=b"nonsense", size_bytes=5))


@pytest.mark.parametrize(("said", "what"), [(0, "of 0 bytes"), (4, "has 3 bytes, but declared 4")])
def test_a_size_that_is_wrong_is_refused(said: int, what: str) -> None:
    with pytest.raises(EnvelopeError, match=what):
        EnvelopeUnpacker(BYTES_MAX).unpack(packed_by(compressor(), b"abc", said))


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(EnvelopeError, match="holds no message"):
        EnvelopeUnpacker(BYTES_MAX).unpack(packed_by(compressor(), b"\xff\xff\xff"))


def sharing(frames: Frames) -> EnvelopePacker:
    packer = EnvelopePacker()
    packer.frames = frames
    return packer


def large_message(consumed: int = 0) -> wire.Message:
    message = batches(bytes(range(256)) * (FRAME_BYTES_MIN // 256), b"more")
    message.batches.restart = 3
    if consumed:
        message.progress.consumed_bytes = consumed
    return message


def test_links_share_a_frame_and_say_the_rest_for_themselves() -> None:
    frames = Frames()
    for consumed in (0, 7, 8):
        envelope = sharing(frames).pack(large_message(consumed))
        assert size_of(envelope) == large_message(consumed).ByteSize() - 4, "without the tag and the length of batches"
        assert EnvelopeUnpacker(BYTES_MAX).unpack(envelope) == large_message(consumed)
    assert frames.made == 1


@pytest.mark.parametrize("restart", [0, 1, 127, 128, 2**32 - 1])
@pytest.mark.parametrize("sizes", [[], [0], [1, 127, 128, 16_383, 16_384, 300_000]])
def test_batches_are_encoded_as_the_library_does(restart: int, sizes: list[int]) -> None:
    payloads = [os.urandom(size) for size in sizes]
    assert encoded_batches(restart, payloads) == wire.Batches(restart=restart, payloads=payloads).SerializeToString()


def test_what_another_restart_says_is_another_frame() -> None:
    frames, payloads = Frames(), [os.urandom(100)]
    assert frames.of_batches(1, payloads) is frames.of_batches(1, list(payloads))
    assert frames.of_batches(2, payloads) is not frames.of_batches(1, payloads)
    assert frames.made == 2


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("size", [1, FRAME_BYTES_MIN])
@pytest.mark.parametrize("restart", [0, 3])
def test_batches_that_are_apart_arrive_in_the_message(framed: bool, size: int, restart: int) -> None:
    payloads = [b"x" * size, b"", b"y"]
    packer = sharing(Frames()) if framed else EnvelopePacker()
    message = wire.Message(batches=wire.Batches(restart=restart), progress=wire.Progress(consumed_bytes=7))
    envelope = packer.pack(wire.Message.FromString(message.SerializeToString()), payloads)
    assert envelope.HasField("batches") == (framed and size == FRAME_BYTES_MIN)
    message.batches.payloads.extend(payloads)
    assert EnvelopeUnpacker(BYTES_MAX).unpack(envelope) == message


def test_a_part_travels_as_a_frame() -> None:
    part = wire.Message(part=wire.Part(restart=1, index=2, count=5, payload=os.urandom(1 << 18)))
    envelope = sharing(Frames()).pack(wire.Message.FromString(part.SerializeToString()))
    assert envelope.HasField("part") and not envelope.zstd
    assert EnvelopeUnpacker(BYTES_MAX).unpack(envelope) == part


def test_small_batches_stay_in_the_stream_and_so_does_what_another_release_is_sent() -> None:
    small = sharing(Frames()).pack(batches(b"x" * (FRAME_BYTES_MIN - 100)))
    assert small.zstd and not small.HasField("batches")
    assert not EnvelopePacker().pack(large_message()).HasField("batches")


def test_streams_go_on_around_frames() -> None:
    frames, packer, unpacker = Frames(), EnvelopePacker(), EnvelopeUnpacker(BYTES_MAX)
    for number in range(10):
        packer.frames = frames if number % 3 else None
        message = large_message(number) if number % 2 else batches(b"small %d" % number)
        expected = wire.Message.FromString(message.SerializeToString())
        assert unpacker.unpack(packer.pack(message)) == expected


def test_few_frames_are_kept() -> None:
    frames = Frames()
    for number in [*range(FRAMES_KEPT + 1), 0, FRAMES_KEPT]:
        frames.of_part(b"%d" % number)
    assert frames.made == FRAMES_KEPT + 2


def test_the_limit_counts_what_is_framed() -> None:
    envelope = sharing(Frames()).pack(large_message(9))
    assert envelope.size_bytes and envelope.batches.size_bytes
    assert EnvelopeUnpacker(size_of(envelope)).unpack(envelope) == large_message(9)
    with pytest.raises(EnvelopeError, match="outside the permitted"):
        EnvelopeUnpacker(size_of(envelope) - 1).unpack(envelope)


@pytest.mark.parametrize(
    ("zstd", "said", "what"),
    [
        (zstandard.compress(bytes(1 << 30)), 100, "a frame has 1073741824 bytes, but declared 100"),
        (zstandard.compress(b"four"), 5, "a frame has 4 bytes, but declared 5"),
        (zstandard.ZstdCompressor(write_content_size=False).compress(b"four"), 4, "a frame has"),
        (zstandard.compress(b"four") + b"surplus", 4, "a frame that cannot be read"),
        (b"nonsense", 8, "a frame that cannot be read"),
        (zstandard.compress(b"\xff\xff\xff"), 3, "holds no message"),
    ],
    ids=["bomb", "size", "no size", "surplus", "nonsense", "no message"],
)
def test_a_frame_that_no_sound_region_sends_is_refused(zstd: bytes, said: int, what: str) -> None:
    for envelope in (
        wire.Envelope(batches=wire.Frame(zstd=zstd, size_bytes=said)),
        wire.Envelope(part=wire.Frame(zstd=zstd, size_bytes=said)),
    ):
        with pytest.raises(EnvelopeError, match=what):
            EnvelopeUnpacker(BYTES_MAX).unpack(envelope)
