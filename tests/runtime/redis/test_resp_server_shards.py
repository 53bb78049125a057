"""Cluster clients of other people against two shards on real sockets: they find each key, and follow redirections."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import RedisClusterException, ResponseError

from crdtstream.connections.shards import ShardAddress, map_of
from tests.running_region import Running, config_of, running

KEYS = [b"key:%d" % number for number in range(40)]


@asynccontextmanager
async def two_shards(directory: Path, host: str = "127.0.0.1") -> AsyncIterator[list[Running]]:
    """Each is a cluster of its own, because a test of one process has no supervisor to place them."""
    async with (
        running(config_of(directory / "0", cluster="c0")) as first,
        running(config_of(directory / "1", cluster="c1")) as second,
    ):
        shards = [first, second]
        addresses = [ShardAddress(host, region.loop.config.port, 0) for region in shards]
        for number, region in enumerate(shards):
            region.loop.node.follow_shards(map_of("c", 1, number, addresses, 1))
        yield shards


def names(region: Running) -> set[bytes]:
    return set(region.loop.node.replica.keyspace.keys(0))


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
async def test_redis_py_finds_every_key(tmp_path: Path, host: str) -> None:
    async with two_shards(tmp_path, host) as shards:
        client = RedisCluster(host="127.0.0.1", port=shards[1].loop.config.port)
        for key in KEYS:
            await client.xadd(key, {"f": key})
        for key in KEYS:
            found = await client.xrange(key)
            assert found and found[0][1] == {b"f": key}
        assert names(shards[0]) and names(shards[1])
        assert names(shards[0]) | names(shards[1]) == set(KEYS) and not names(shards[0]) & names(shards[1])
        with pytest.raises((RedisClusterException, ResponseError)):
            await client.xread({KEYS[0]: "0", KEYS[1]: "0"})
        await client.aclose()


async def test_redis_py_follows_a_map_that_changed(tmp_path: Path) -> None:
    async with two_shards(tmp_path) as shards:
        client = RedisCluster(host="127.0.0.1", port=shards[0].loop.config.port)
        await client.initialize()
        swapped = [ShardAddress("127.0.0.1", region.loop.config.port, 0) for region in reversed(shards)]
        for number, region in enumerate(reversed(shards)):
            region.loop.node.follow_shards(map_of("c", 1, number, swapped, 2))
        for key in KEYS:
            await client.xadd(key, {"f": key})
        assert names(shards[0]) | names(shards[1]) == set(KEYS) and names(shards[0]) and names(shards[1])
        await client.aclose()


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not installed")
async def test_redis_cli_follows_redirections(tmp_path: Path) -> None:
    async with two_shards(tmp_path) as shards:
        port = shards[0].loop.config.port
        added = await cli(["-c", "-p", str(port)], b"".join([b"XADD %b * f v\n" % key for key in KEYS]))
        assert b"MOVED" not in added
        assert names(shards[0]) and names(shards[1])
        assert names(shards[0]) | names(shards[1]) == set(KEYS)
        told = await cli(["--cluster", "check", f"127.0.0.1:{port}"])
        assert b"[OK] All nodes agree about slots configuration." in told and b"[OK] All 16384 slots covered." in told


async def cli(arguments: list[str], lines: bytes = b"") -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("redis-cli", *arguments, stdin=pipe, stdout=pipe)
    output, _ = await process.communicate(lines)
    return output
