"""Publish and subscribe over real sockets: with redis-py, and with a listener that does not read."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis.asyncio

from crdtstream.settings.config import Limits
from tests.running_region import config_of, request, running, until


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("fsync", ["always", "everysec"])
async def test_a_client_library_listens(tmp_path: Path, protocol: int, fsync: str) -> None:
    async with running(config_of(tmp_path, fsync=fsync)) as region:
        client = redis.asyncio.Redis(port=region.loop.config.port, protocol=protocol, single_connection_client=False)
        async with client, client.pubsub() as listener:
            await listener.subscribe("news")
            await listener.psubscribe("n*")
            for _ in range(2):
                await listener.get_message(timeout=30)
            assert await client.publish("news", "hello") == 2
            found = [await listener.get_message(timeout=30) for _ in range(2)]
            assert [one and (one["type"], one["data"]) for one in found] == [
                ("message", b"hello"),
                ("pmessage", b"hello"),
            ]
        await until(lambda: not region.loop.node.context.pubsub.clients(), "the listener is forgotten")


async def test_a_listener_that_does_not_read_is_closed(tmp_path: Path) -> None:
    limits = Limits(output_bytes_max=1 << 17, stop_checkpoint_ms_max=0)
    async with running(config_of(tmp_path, limits=limits)) as region:
        listener, other = await region.connect(), await region.connect()
        await listener.send(request("SUBSCRIBE", "a"))
        node = region.loop.node
        await until(lambda: node.context.pubsub.clients() == 1, "it listens")
        listener.reader._transport.pause_reading()  # type: ignore[attr-defined]
        while node.context.pubsub.clients():
            assert await other.ask("PUBLISH", "a", b"x" * 10_000) in (b":1\r\n", b":0\r\n")
        assert node.statistics.output_disconnections == 1
        assert await other.ask("PUBLISH", "a", "x") == b":0\r\n"


async def test_events_of_keys(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, notify_keyspace_events="Et")) as region:
        listener, other = await region.connect(), await region.connect()
        assert await listener.ask("HELLO", "3") == b"%7\r\n"
        await listener.send(request("SUBSCRIBE", "__keyevent@0__:xadd"))
        await until(lambda: region.loop.node.context.pubsub.clients() == 1, "it listens")
        await other.send(request("XADD", "s", "*", "f", "v"))
        await listener.reader.readuntil(b"$7\r\nmessage\r\n$19\r\n__keyevent@0__:xadd\r\n$1\r\ns\r\n")


@pytest.mark.parametrize("fsync", ["always", "everysec"])
async def test_waitaof_waits_for_the_disk(tmp_path: Path, fsync: str) -> None:
    async with running(config_of(tmp_path, fsync=fsync)) as region:
        client = await region.connect()
        await client.send(request("XADD", "s", "*", "f", "v") + request("WAITAOF", "1", "0", "0"))
        await client.reader.readuntil(b"*2\r\n:1\r\n:0\r\n")
