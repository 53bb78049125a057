"""Streams that say nothing: how long, and how many."""

from __future__ import annotations

import asyncio
import dataclasses

import grpc.aio
import pytest

from crdtstream.replication.links.authorisation import NONCE_BYTES
from crdtstream.replication.wire_pb2_grpc import ReplicationStub
from crdtstream.runtime.links.handshake import NONCE_KEY, REGION_KEY
from crdtstream.settings.config import Config
from tests.runtime.speakers import LIMITS, Speaker, Transports, config, until


def bounded(**limits: int) -> Config:
    return dataclasses.replace(config(1), limits=dataclasses.replace(LIMITS, **limits))


def silent(channel: grpc.aio.Channel, region: int) -> grpc.aio.StreamStreamCall:  # type: ignore[type-arg]
    return ReplicationStub(channel).Exchange(metadata=[(REGION_KEY, str(region)), (NONCE_KEY, bytes(NONCE_BYTES))])


async def test_a_stream_that_is_let_in_and_says_nothing_is_closed(transports: Transports) -> None:
    east = Speaker(1)
    listening = await transports.start(bounded(greeting_timeout_ms=50), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{listening.port}") as channel:
        assert await silent(channel, 2).read() is grpc.aio.EOF
    assert [reason for _, reason in east.closed] == ["no greeting within greeting_timeout_ms = 50"]
    assert not any(message is not None for message in east.heard) and not east.pulls


async def test_a_stream_that_waits_for_leave_is_closed(transports: Transports) -> None:
    """On loopback, where a configured peer has not answered yet: it may be that one."""
    east = Speaker(1)
    settings = dataclasses.replace(bounded(greeting_timeout_ms=50), allowed_regions=(), peers=("127.0.0.1:9",))
    listening = await transports.start(settings, east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{listening.port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="no greeting within greeting_timeout_ms = 50"):
            await silent(channel, 2).read()
    assert not east.closed


async def test_of_too_many_silent_streams_the_oldest_is_closed(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(bounded(ungreeted_links_max=3), east)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{listening.port}") as channel:
        calls = []
        for count in range(1, 11):
            calls.append(silent(channel, 3))
            await calls[-1].initial_metadata()
            await until(lambda count=count: len(east.open) + len(east.closed) == count)  # type: ignore[misc]
        assert len(east.open) == 3
        assert {reason for _, reason in east.closed} == {
            "more than ungreeted_links_max = 3 streams of peers that have not greeted"
        }
        await transports.start(config(2, listening.port), west)
        await until(lambda: east.greetings() == 1, "a sound peer is heard all the same")


async def test_a_peer_that_has_greeted_is_none_of_them(transports: Transports) -> None:
    east, west = Speaker(1), Speaker(2)
    listening = await transports.start(bounded(ungreeted_links_max=1, greeting_timeout_ms=20), east)
    await transports.start(config(2, listening.port), west)
    await until(lambda: bool(east.greetings() and west.greetings()), "the greeting")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{listening.port}") as channel:
        for _ in range(3):
            assert await silent(channel, 3).read() is grpc.aio.EOF
        await asyncio.sleep(0)
    assert west.closed == [] and len(east.open) == 1
