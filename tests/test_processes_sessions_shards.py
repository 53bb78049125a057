"""Tokens of regions of two shards as processes, with the cluster clients of redis-py."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from crdtstream.processes.ports import HOST
from crdtstream.processes.sharded import ShardedRegion
from tests.sharded_regions import two_regions

PATIENCE_MS = 20_000
# Their hash slots are 3300, of shard 0, and 15495, of shard 1.
KEYS = ("b", "a")


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[tuple[ShardedRegion, ShardedRegion]]:
    with two_regions(tmp_path) as made:
        yield made


def cluster_of(region: ShardedRegion) -> Any:
    return redis.RedisCluster(host=HOST, port=region.port, protocol=2, socket_timeout=30)


# --8<-- [start:carried]
def carry_keys(here: Any, there: Any, keys: Sequence[str]) -> None:
    """What was written to these keys is found there, and what was read of them."""
    tokens = [here.execute_command("CRDT.TOKEN", key) for key in keys]
    for key in keys:
        assert there.execute_command("CRDT.AWAIT", b".".join(tokens), 20_000, key) == b"OK"


def carry_all(here: Any, there: Any) -> None:
    """The same of all keys."""
    tokens = here.execute_command("CRDT.TOKEN", target_nodes=here.get_primaries()).values()
    replies = there.execute_command("CRDT.AWAIT", b".".join(tokens), 20_000, target_nodes=there.get_primaries())
    assert {*replies.values()} == {b"OK"}


# --8<-- [end:carried]


def test_cluster_clients_carry_tokens_of_keys_and_of_all_shards(regions: tuple[ShardedRegion, ShardedRegion]) -> None:
    east, west = regions
    with cluster_of(east) as here, cluster_of(west) as there:
        for number in range(10):
            for key in KEYS:
                here.xadd(key, {"n": number})
            if number % 2:
                carry_keys(here, there, KEYS)
            else:
                carry_all(here, there)
            assert [there.xlen(key) for key in KEYS] == [number + 1] * 2
        for words in (("CRDT.TOKEN",), ("CRDT.AWAIT", here.execute_command("CRDT.TOKEN", "a"), 0)):
            with pytest.raises(redis.exceptions.RedisClusterException, match="No way to dispatch"):
                there.execute_command(*words)


def test_a_token_of_one_shard_holds_up_no_other(regions: tuple[ShardedRegion, ShardedRegion]) -> None:
    east, west = regions
    east.ask_shard(1, "XADD", KEYS[1], "*", "n", 0)
    token = east.ask_shard(1, "CRDT.TOKEN")
    assert token.startswith(b"1:t1-")
    assert east.ask_shard(0, "CRDT.AWAIT", token, 0) == west.ask_shard(0, "CRDT.AWAIT", token, 0) == b"OK"
    west.stop()
    east.ask_shard(1, "XADD", KEYS[1], "*", "n", 1)
    token = east.ask_shard(1, "CRDT.TOKEN")
    west.start(incarnation=0)
    west.await_serving()
    assert west.ask_shard(1, "CRDT.AWAIT", token, 100) is None


async def carried(east: ShardedRegion, west: ShardedRegion) -> None:
    async with (
        redis.asyncio.RedisCluster(host=HOST, port=east.port, protocol=2) as here,
        redis.asyncio.RedisCluster(host=HOST, port=west.port, protocol=2) as there,
    ):
        for key in KEYS:
            await here.xadd(key, {"n": 0})
        tokens: dict[str, bytes] = await here.execute_command("CRDT.TOKEN", target_nodes=here.get_primaries())
        for key in KEYS:
            assert await there.execute_command("CRDT.AWAIT", b".".join(tokens.values()), PATIENCE_MS, key) == b"OK"
            assert await there.xlen(key) == 1
        own = await here.execute_command("CRDT.TOKEN", KEYS[1])
        assert own.startswith(b"1:t1-") and len(tokens) == 2


def test_so_do_those_of_asyncio(regions: tuple[ShardedRegion, ShardedRegion]) -> None:
    asyncio.run(carried(*regions))
