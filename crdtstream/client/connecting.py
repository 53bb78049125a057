"""Connections to a region: to its only shard, or to all of its shards, which the first connection finds out.

A region with a shard that cannot be reached cannot be used: what its clients have seen there is then looked for in
another region. Of several shards redis-py's own client of a cluster is made, and made again after each failure: it may
ask for ever where a shard was that has moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import redis

from crdtstream.client.failover import Region
from crdtstream.client.sharding import shards_of

NO_PERMISSION = redis.exceptions.NoPermissionError


class Connecting:
    """Connects to one region through `plain`, or through what `made` makes of several shards."""

    def __init__(self, plain: Any, made: Callable[[], Any]) -> None:
        self.plain = plain
        self.made = made
        self.is_sharded: bool | None = None
        self.cluster: Any = None
        # The last error of the region when this client was made.
        self.error: Exception | None = None

    def __call__(self, region: Region) -> None:
        """Raises redis.ConnectionError if no command can be sent; asks the region nothing once connections are open."""
        if self.is_sharded is None:
            opened(self.plain)
            self.is_sharded = told_shards(self._facts())
        if not self.is_sharded:
            opened(self.plain)
            return
        if self.cluster is None or region.error not in (None, self.error):
            # Other threads may be in the middle of a call of the one before, so it is closed once none is.
            error = region.error
            region.client = self.cluster = self._made()
            self.error = error
        for node in self.cluster.get_primaries():
            opened(self.cluster.get_redis_connection(node))

    def _facts(self) -> dict[str, Any]:
        try:
            facts: dict[str, Any] = self.plain.info("cluster")
        except NO_PERMISSION:
            return {}
        return facts

    def _made(self) -> Any:
        try:
            return self.made()
        except redis.exceptions.RedisClusterException as error:
            raise redis.ConnectionError(str(error)) from error

    def close(self) -> None:
        self.plain.close()
        if self.cluster is not None:
            self.cluster.close()


class AsyncConnecting:
    """As `Connecting`."""

    def __init__(self, plain: Any, made: Callable[[], Any]) -> None:
        self.plain = plain
        self.made = made
        self.is_sharded: bool | None = None
        self.cluster: Any = None
        self.error: Exception | None = None
        self.lock = asyncio.Lock()

    async def __call__(self, region: Region) -> None:
        """As `Connecting`, but for several shards: each is asked whether it is there."""
        if self.is_sharded is None:
            await opened_async(self.plain)
            self.is_sharded = told_shards(await self._facts())
        if not self.is_sharded:
            await opened_async(self.plain)
            return
        async with self.lock:
            if self.cluster is None or region.error not in (None, self.error):
                error = region.error
                region.client = self.cluster = await self._made()
                self.error = error
        pings = [region.client.execute_command("PING", **shard) for shard in shards_of(region.client)]
        for reply in await asyncio.gather(*pings, return_exceptions=True):
            if isinstance(reply, BaseException):
                raise reply

    async def _facts(self) -> dict[str, Any]:
        try:
            facts: dict[str, Any] = await self.plain.info("cluster")
        except NO_PERMISSION:
            return {}
        return facts

    async def _made(self) -> Any:
        await self._leave()
        made = self.made()
        try:
            await made.initialize()
        except redis.RedisError:
            await close_async(made)
            raise
        except redis.exceptions.RedisClusterException as error:
            await close_async(made)
            raise redis.ConnectionError(str(error)) from error
        return made

    async def _leave(self) -> None:
        if self.cluster is not None:
            await close_async(self.cluster)
            self.cluster = None

    async def aclose(self) -> None:
        await self.plain.aclose()
        await self._leave()


def told_shards(facts: dict[str, Any]) -> bool:
    return bool(facts.get("cluster_enabled"))


def opened(client: redis.Redis) -> None:
    """Raises redis.ConnectionError if no command can be sent; asks nothing if a connection is open."""
    pool = client.connection_pool
    pool.release(pool.get_connection())


async def opened_async(client: Any) -> None:
    """As `opened`."""
    pool = client.connection_pool
    await pool.release(await pool.get_connection())


async def close_async(cluster: Any) -> None:
    """Close all connections: after a lost one, `aclose` alone leaves the others open."""
    manager = cluster.nodes_manager
    for node in [*manager.startup_nodes.values(), *manager.nodes_cache.values()]:
        await node.disconnect()
    await cluster.aclose()
