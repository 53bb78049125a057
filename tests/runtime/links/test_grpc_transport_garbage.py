"""The wire: what the contract says, and what ends a link."""

from __future__ import annotations

import asyncio

import grpc.aio
import zstandard
from grpc.aio import StreamStreamMultiCallable

from crdtstream.processes.waiting import DEADLINE_S
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.wire_pb2_grpc import ReplicationStub
from crdtstream.runtime.links.envelope import EnvelopePacker, EnvelopeUnpacker
from tests.runtime.speakers import LIMITS, Speaker, Transports, claim, config, pair, until

EXCHANGE = "/crdtstream.replication.Replication/Exchange"


async def test_a_compressed_bomb_ends_its_link_and_nothing_else(transports: Transports) -> None:
    east, west = await pair(transports)
    compressor = zstandard.ZstdCompressor().compressobj()
    bomb = compressor.compress(bytes(1 << 28)) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    assert len(bomb) < 1 << 16
    port = transports.running[0].port
    for said in (10, LIMITS.message_bytes_max, 1 << 28):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = ReplicationStub(channel).Exchange(metadata=claim(2))
            await call.write(wire.Envelope(zstd=bomb, size_bytes=said))
            while await call.read() is not grpc.aio.EOF:
                pass
    assert len(east.closed) == 3
    assert all(reason.startswith("cannot read what the peer sent: ") for _, reason in east.closed)
    west.say(b"still here")
    await until(lambda: east.payloads() == [b"still here"])
    assert not transports.failures


async def test_bytes_that_are_no_envelope_end_their_link_and_nothing_else(transports: Transports) -> None:
    east, west = await pair(transports)
    port = transports.running[0].port
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        exchange: StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(EXCHANGE)
        for garbage in (b"\xff" * 20, b"\x0a\xff", b"GET / HTTP/1.1\r\n\r\n") * 20:
            call = exchange(metadata=claim(2))
            await call.write(garbage)
            async with asyncio.timeout(DEADLINE_S):
                while await call.read() is not grpc.aio.EOF:
                    pass
    assert [reason.partition(":")[0] for _, reason in east.closed] == ["cannot read what the peer sent"] * 60
    assert not transports.failures
    west.say(b"still here")
    await until(lambda: east.payloads() == [b"still here"])


async def test_an_envelope_larger_than_permitted_ends_its_link(transports: Transports) -> None:
    east = Speaker(1)
    listening = await transports.start(config(1), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{listening.port}") as channel:
        call = ReplicationStub(channel).Exchange(metadata=claim(2))
        await call.write(wire.Envelope(zstd=bytes(2 << 20), size_bytes=5))
        await until(lambda: bool(east.closed), "the end")
    assert not east.heard


async def test_the_wire_is_what_the_contract_says(transports: Transports) -> None:
    east = Speaker(1)
    listening = await transports.start(config(1), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{listening.port}") as channel:
        call = ReplicationStub(channel).Exchange(metadata=claim(2))
        await call.write(EnvelopePacker().pack(wire.Message(hello=wire.Hello(region=2, origin=2))))
        unpacker = EnvelopeUnpacker(1 << 20)
        envelope = await call.read()
        assert isinstance(envelope, wire.Envelope)
        assert unpacker.unpack(envelope).hello.name == "east"
