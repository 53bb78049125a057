"""The library with regions of two shards as real processes: keys of both, sessions, failover, producers, consumers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from crdtstream.client import (
    AsyncConsumer,
    AsyncProducer,
    AsyncRegions,
    Consumer,
    Entry,
    OutcomeUnknown,
    Producer,
    Regions,
)
from crdtstream.client.failover import asking
from crdtstream.processes.sharded import ShardedRegion
from tests.sharded_regions import two_regions

# Their hash slots are 3300, of shard 0, and 15495, of shard 1.
KEYS = ("b", "a")


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[tuple[ShardedRegion, ShardedRegion]]:
    with two_regions(tmp_path) as made:
        yield made


def addresses(*regions: ShardedRegion) -> list[str]:
    return [f"127.0.0.1:{region.port}" for region in regions]


def test_a_session_finds_the_keys_of_all_shards_in_another_region(
    regions: tuple[ShardedRegion, ShardedRegion],
) -> None:
    east, west = addresses(*regions)
    with Regions([east, west], session=True, patience_s=60, await_ms=9_000) as session:
        for number in range(5):
            for key in KEYS:
                session.call(asking("XADD", key, "*", "n", number))
            assert [token[:2] for token in session.tokens[0].split(b".")] == [b"0:", b"1:"]
            assert session.move((west, east)[number % 2])
            lengths = [session.call(asking("XLEN", key), repeat=True) for key in KEYS]
            assert lengths == [number + 1] * 2
        tokens = session.tokens
    regions[0].stop()
    with Regions([east, west], tokens=tokens, patience_s=60) as later:
        assert later.call(lambda client: client.xlen("a")) == 5
        assert later.address == west


def test_a_region_with_a_shard_that_is_down_is_left(regions: tuple[ShardedRegion, ShardedRegion]) -> None:
    east, west = regions
    with Regions(addresses(east, west), patience_s=60) as clients:
        clients.call(lambda client: client.xadd("b", {"n": 0}))
        assert clients.address == addresses(east)[0]
        east.ask_shard(1, "XADD", "a", "*", "n", 0)
        with pytest.raises(redis.ConnectionError):
            east.ask_shard(1, "SHUTDOWN")
        clients.call(lambda client: client.xadd("a", {"n": 1}))
        assert clients.address == addresses(west)[0], "nothing was sent, so the outcome is known"
        assert not clients.move(addresses(east)[0])


@pytest.mark.parametrize("all_of_them", [False, True])
def test_what_was_sent_to_a_shard_that_is_lost_is_unknown(
    regions: tuple[ShardedRegion, ShardedRegion], all_of_them: bool
) -> None:
    east, west = regions

    def lose(client: redis.Redis) -> object:
        assert client.xlen("a") == 0
        # Its supervisor would start the shard again.
        east.signal(signal.SIGSTOP)
        east.kill_shard(1)
        if all_of_them:
            east.kill_shard(0)
            east.kill()
        return client.xadd("a", {"n": 1})

    with Regions(addresses(east, west), patience_s=60) as clients:
        try:
            with pytest.raises(OutcomeUnknown):
                clients.call(lose)
        finally:
            if not all_of_them:
                east.signal(signal.SIGCONT)
        assert clients.call(lambda client: client.xlen("b"), repeat=True) == 0


def test_producers_and_consumers_use_the_shard_of_their_stream(regions: tuple[ShardedRegion, ShardedRegion]) -> None:
    with Regions(addresses(*regions), patience_s=60) as clients:
        for key in KEYS:
            seen: list[int] = []
            producer = Producer(clients, key, name="p")
            first = producer.add({"n": 1}, name="x")
            assert producer.add({"n": 1}, name="x") == first

            def ship(entry: Entry, seen: list[int] = seen) -> None:
                if entry.deliveries < 2:
                    raise OSError("out of paper")
                seen.append(entry.deliveries)

            owned = ("DELIVER", "OWNER", "region2", "MAXDELIVERIES", 5, "DEADLETTER", f"{{{key}}}.dead")
            consumer = Consumer(
                clients,
                key,
                "g",
                ship,
                name="c",
                properties=owned,
                on_failure=lambda *_: False,
                retry_after_ms=100,
                block_ms=200,
            )
            while not seen:
                consumer.run(idle_exit_ms=500)
            assert seen == [2] and consumer.redrive() == 0
            assert clients.address == addresses(regions[1])[0], "it follows the region that delivers"


async def used(east: str, west: str) -> None:
    seen: list[bytes] = []
    async with AsyncRegions([east, west], session=True, patience_s=60, await_ms=9_000) as session:
        for key in KEYS:
            await AsyncProducer(session, key, name="p").add({"n": 1})
        assert await session.move(west)
        for key in KEYS:
            consumer = AsyncConsumer(session, key, "g", lambda entry: seen.append(entry.key), name="c", block_ms=200)
            await consumer.run(idle_exit_ms=300)
    assert seen == [b"b", b"a"]


def test_so_do_those_of_asyncio(regions: tuple[ShardedRegion, ShardedRegion]) -> None:
    asyncio.run(used(*addresses(*regions)))


async def left(east: ShardedRegion, west: ShardedRegion) -> None:
    async with AsyncRegions(addresses(east, west), patience_s=60) as clients:
        await clients.call(lambda client: client.xadd("b", {"n": 0}))
        await asyncio.to_thread(east.stop)
        assert await clients.call(lambda client: client.xlen("a"), repeat=True) == 0
        assert clients.address == addresses(west)[0]


def test_asyncio_leaves_a_region_that_is_stopped(regions: tuple[ShardedRegion, ShardedRegion]) -> None:
    asyncio.run(left(*regions))
