"""When the client of a region of several shards is made again, and what becomes of the one before."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import redis.asyncio

from crdtstream.client.connecting import AsyncConnecting, Connecting
from crdtstream.client.failover import Region

LOST = redis.ConnectionError("reset")
REFUSAL = redis.OutOfMemoryError("OOM full")
NO_SHARD = redis.exceptions.RedisClusterException("Redis Cluster cannot be connected")


class CalmCluster:
    """A client of no shards, for threads."""

    def get_primaries(self) -> list[Any]:
        return []


class FakeNode:
    def __init__(self) -> None:
        self.is_open = True

    async def disconnect(self) -> None:
        self.is_open = False


class FakeAsyncCluster(redis.asyncio.RedisCluster):
    """A client of one shard, which answers PING with `reply`."""

    def __init__(self, reply: object = b"PONG") -> None:
        self.reply = reply
        self.node = FakeNode()
        self.nodes_manager: Any = SimpleNamespace(startup_nodes={}, nodes_cache={"1": self.node})

    def __del__(self, *_words: Any) -> None:
        """Nothing is open."""

    async def initialize(self, *_words: Any, **_options: Any) -> Any:
        return self

    async def aclose(self) -> None:
        self.node.is_open = False

    def get_primaries(self) -> list[Any]:
        return [self.node]

    async def execute_command(self, *_words: Any, **_options: Any) -> Any:
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


class ClosedPlain:
    async def aclose(self) -> None:
        pass


def test_a_client_is_made_again_after_a_lost_connection_and_not_after_a_refusal() -> None:
    connecting = Connecting(None, CalmCluster)
    connecting.is_sharded = True
    region = Region("east:1", None, connecting)
    connecting(region)
    first = region.client
    for error, remains in ((REFUSAL, True), (LOST, False)):
        region.error = error
        connecting(region)
        assert (region.client is first) is remains
    second = region.client
    connecting(region)
    assert region.client is second, "once for each error"


def several(made: list[FakeAsyncCluster], socket_timeout_s: float) -> tuple[AsyncConnecting, Region]:
    clients = iter(made)
    connecting = AsyncConnecting(ClosedPlain(), lambda: next(clients), socket_timeout_s)
    connecting.is_sharded = True
    return connecting, Region("east:1", None, connecting)


async def left(socket_timeout_s: float) -> list[bool]:
    """Return what is open after two lost connections, and see to it that nothing is after `aclose`."""
    made = [FakeAsyncCluster() for _ in range(3)]
    connecting, region = several(made, socket_timeout_s)
    for error in (None, REFUSAL, LOST, redis.TimeoutError("slow")):
        region.error = error
        await connecting(region)
        assert error is not REFUSAL or region.client is made[0]
    assert region.client is made[2]
    are_open = [client.node.is_open for client in made]
    await connecting.aclose()
    assert not any(client.node.is_open for client in made)
    return are_open


def test_the_asyncio_client_before_is_closed_when_its_calls_have_timed_out() -> None:
    assert asyncio.run(left(60.0)) == [True, True, True]
    assert asyncio.run(left(0.0)) == [False, True, True]


def test_a_region_whose_shards_are_not_found_by_the_ping_is_one_without_connection() -> None:
    connecting, region = several([FakeAsyncCluster(NO_SHARD)], 10.0)
    with pytest.raises(redis.ConnectionError, match="cannot be connected"):
        asyncio.run(connecting(region))
