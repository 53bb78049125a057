"""Connections to a region: to its only shard, or to all of its shards, which the first connection finds out.

A region with a shard that cannot be reached cannot be used: what its clients have seen there is then looked for in
another region. Of several shards redis-py's own client of a cluster is made, and made again after a lost connection: it
may ask for ever where a shard was that has moved.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import redis

from crdtstream.client.errors import shards_in_doubt
from crdtstream.client.failover import Region
from crdtstream.client.sharding import shards_of

NO_PERMISSION = redis.exceptions.NoPermissionError


class _Door:
    """One region, with `plain` for its only shard, and what `made` makes of several."""

    def __init__(self, plain: Any, made: Callable[[], Any]) -> None:
        self.plain = plain
        self.made = made
        self.is_sharded: bool | None = None
        self.cluster: Any = None
        # The last error of the region when this client was made.
        self.error: Exception | None = None

    def _in_doubt(self, region: Region) -> bool:
        return self.cluster is None or (region.error is not self.error and shards_in_doubt(region.error))


class Connecting(_Door):
    """Connects to one region through `plain`, or through what `made` makes of several shards."""

    def __call__(self, region: Region) -> None:
        """Raises redis.ConnectionError if no command can be sent; asks the region nothing once connections are open."""
        if self.is_sharded is None:
            opened(self.plain)
            self.is_sharded = told_shards(self._facts())
        if not self.is_sharded:
            opened(self.plain)
            return
        if self._in_doubt(region):
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


class AsyncConnecting(_Door):
    """As `Connecting`; tasks may be in the middle of calls of a client before, so it is closed once they timed out."""

    def __init__(self, plain: Any, made: Callable[[], Any], socket_timeout_s: float) -> None:
        super().__init__(plain, made)
        self.socket_timeout_s = socket_timeout_s
        # The clients before, each with the time at which it was left.
        self.left: list[tuple[float, Any]] = []
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
            if self._in_doubt(region):
                await self._renew(region)
        pings = [region.client.execute_command("PING", **shard) for shard in shards_of(region.client)]
        for reply in await asyncio.gather(*pings, return_exceptions=True):
            if isinstance(reply, redis.exceptions.RedisClusterException):
                raise redis.ConnectionError(str(reply)) from reply
            if isinstance(reply, BaseException):
                raise reply

    async def _facts(self) -> dict[str, Any]:
        try:
            facts: dict[str, Any] = await self.plain.info("cluster")
        except NO_PERMISSION:
            return {}
        return facts

    async def _renew(self, region: Region) -> None:
        await self._close_left(time.monotonic() - self.socket_timeout_s)
        error, before = region.error, self.cluster
        region.client = self.cluster = await self._made()
        self.error = error
        if before is not None:
            self.left.append((time.monotonic(), before))

    async def _made(self) -> Any:
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

    async def _close_left(self, until_s: float) -> None:
        """Close the clients that were left by then."""
        while self.left and self.left[0][0] <= until_s:
            _, before = self.left.pop(0)
            await close_async(before)

    async def aclose(self) -> None:
        await self.plain.aclose()
        await self._close_left(time.monotonic())
        if self.cluster is not None:
            await close_async(self.cluster)
            self.cluster = None


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
