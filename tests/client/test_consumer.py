"""Consumers: retries, a stop in good order, and groups that move or lose the region that delivers them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from crdtstream.client import AsyncConsumer, AsyncRegions, Consumer, Entry, Regions
from crdtstream.client.consumer import deliverer_of, entries_of
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until
from tests.client.clients import Clock, FakeRegion, failover_of
from tests.region_processes import linked

PATIENCE_S = 60.0
OWNED = ("DELIVER", "OWNER", "region1", "TAKEOVER", 1_000)
QUICK = {"peer_timeout_ms": 1_000, "heartbeat_ms": 200}
Pair = tuple[RegionProcess, RegionProcess]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with regions_in(tmp_path) as made:
        east, west = made.make(1, 2)
        linked(east, west, **QUICK)
        yield east, west


def addresses(*regions: RegionProcess) -> list[str]:
    return [f"127.0.0.1:{region.port}" for region in regions]


def add(region: RegionProcess, count: int) -> set[bytes]:
    return {region.ask("XADD", "jobs", "*", "n", number) for number in range(count)}


def pending(region: RegionProcess) -> int:
    return int(region.ask("XPENDING", "jobs", "workers")[0])


def test_entries_are_handled_and_failures_come_again(pair: Pair) -> None:
    added = add(pair[0], 20)
    seen: Counter[bytes] = Counter()
    given_up: list[tuple[bytes, int, str]] = []

    def handle(entry: Entry) -> None:
        seen[entry.id] += 1
        if entry.fields[b"n"] == b"3" or (entry.fields[b"n"] == b"4" and entry.deliveries < 2):
            raise ValueError(entry.fields[b"n"].decode())

    def on_failure(entry: Entry, error: Exception, deliveries: int) -> bool:
        if deliveries == 3:
            given_up.append((entry.fields[b"n"], deliveries, str(error)))
        return deliveries == 3

    with Regions(addresses(*pair), patience_s=PATIENCE_S) as regions:
        consumer = Consumer(
            regions, "jobs", "workers", handle, name="c", on_failure=on_failure, retry_after_ms=50, block_ms=200
        )
        consumer.run(idle_exit_ms=400)
    assert seen.keys() == added and sorted(seen.values()) == [1] * 18 + [2, 3]
    assert given_up == [(b"3", 3, "3")]
    assert (consumer.handled, consumer.failed, consumer.redelivered) == (19, 4, 3)
    assert pending(pair[0]) == 0


def test_what_always_fails_becomes_a_dead_letter_and_comes_back(pair: Pair) -> None:
    add(pair[0], 3)
    is_broken = True
    seen: Counter[bytes] = Counter()

    def handle(entry: Entry) -> None:
        seen[entry.fields[b"n"]] += 1
        if is_broken and entry.fields[b"n"] == b"1":
            raise ValueError("broken")

    limited = ("MAXDELIVERIES", 2, "DEADLETTER", "jobs:dead")
    with Regions(addresses(*pair), patience_s=PATIENCE_S) as regions:
        consumer = Consumer(
            regions, "jobs", "workers", handle, name="c", properties=limited, retry_after_ms=50, block_ms=200
        )
        consumer.run(idle_exit_ms=400)
        assert seen == {b"0": 1, b"1": 2, b"2": 1}
        assert (pair[0].ask("XLEN", "jobs:dead"), pending(pair[0])) == (1, 0)
        is_broken = False
        assert (consumer.redrive(count=5), consumer.redrive()) == (1, 0)
        consumer.run(idle_exit_ms=400)
    assert seen == {b"0": 1, b"1": 3, b"2": 1}


def test_without_a_hook_failures_are_logged(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    add(pair[0], 1)

    def handle(_entry: Entry) -> None:
        raise ValueError("bad")

    with Regions(addresses(*pair), patience_s=PATIENCE_S) as regions:
        Consumer(regions, "jobs", "workers", handle, name="c", block_ms=100).run(idle_exit_ms=100)
    assert "failed at delivery 1, and the entry comes again in 60000 ms" in caplog.text
    assert pending(pair[0]) == 1


def test_stop_finishes_what_is_held(pair: Pair) -> None:
    add(pair[0], 30)
    with Regions(addresses(*pair), patience_s=PATIENCE_S) as regions:
        consumer: Consumer

        def handle(_entry: Entry) -> None:
            consumer.stop()

        consumer = Consumer(regions, "jobs", "workers", handle, name="c", count=10)
        consumer.run()
    assert consumer.handled == 10 and pending(pair[0]) == 0
    assert pair[0].ask("XINFO", "GROUPS", "jobs")[0][11] == 20, "the rest was not delivered"


def test_a_group_moves_without_a_repeat_and_consumers_follow(pair: Pair) -> None:
    east, west = pair
    added = add(east, 40)
    assert west.ask("CRDT.AWAIT", east.ask("CRDT.TOKEN"), 20_000) == b"OK"
    seen: list[bytes] = []
    with Regions(addresses(east, west), patience_s=PATIENCE_S) as near, Regions(addresses(west, east)) as far:
        first = Consumer(near, "jobs", "workers", lambda entry: seen.append(entry.id), name="a", properties=OWNED)
        second = Consumer(far, "jobs", "workers", lambda entry: seen.append(entry.id), name="b", properties=OWNED)
        first.run(idle_exit_ms=100)
        assert {*seen} == added
        first.move("region2", wait_ms=5_000)
        added |= add(east, 40)
        thread = threading.Thread(target=first.run)
        thread.start()
        until(lambda: len(seen) == 80, "the consumer has followed its group to the west")
        first.stop()
        thread.join()
        assert near.address == addresses(west)[0]
        second.run(idle_exit_ms=100)
        with pytest.raises(redis.ResponseError, match=r"unknown region mars"):
            second.move("mars")
    assert sorted(seen) == sorted(added), "each once"


async def test_consumers_survive_the_kill_of_their_region(pair: Pair) -> None:
    """What was pending in the east when it died comes again in the west, and nothing else."""
    east, west = pair
    added = add(east, 200)
    assert west.ask("CRDT.AWAIT", east.ask("CRDT.TOKEN"), 20_000) == b"OK"
    seen: Counter[bytes] = Counter()
    held = 0

    async def handle(entry: Entry) -> None:
        nonlocal held
        seen[entry.id] += 1
        if len(seen) == 100 and held == 0:
            assert west.ask("CRDT.AWAIT", east.ask("CRDT.TOKEN"), 20_000) == b"OK", "it knows all acknowledgements"
            held = pending(east)
            east.kill()
        await asyncio.sleep(0)

    async with AsyncRegions(addresses(east, west), patience_s=PATIENCE_S) as regions:
        consumers = [
            AsyncConsumer(regions, "jobs", "workers", handle, name=name, properties=OWNED, count=16, block_ms=200)
            for name in ("a", "b", "c")
        ]
        await asyncio.gather(*[consumer.run(idle_exit_ms=4_000) for consumer in consumers])
    assert 0 < held <= 48 and regions.address == addresses(west)[0]
    assert seen.keys() == added and pending(west) == 0
    assert sum(consumer.handled for consumer in consumers) - len(added) <= held


def test_replies_are_parsed() -> None:
    reply = [[b"jobs", [[b"1-1", [b"a", b"1"], 0, 0], [b"1-2", [b"a", b"2"], 70, 2]]]]
    assert [*entries_of(reply)] == [
        Entry(b"jobs", b"1-1", {b"a": b"1"}, 1),
        Entry(b"jobs", b"1-2", {b"a": b"2"}, 3),
    ]
    assert [*entries_of(None)] == [*entries_of([])] == []


@pytest.mark.parametrize(
    ("mode", "delivers", "number"),
    [(b"owner", [1, 2, 2, 2], 2), (b"owner", [1, 1, 2, 2], 0), (b"owner", [], 0), (b"everywhere", [], 0)],
)
def test_who_delivers(mode: bytes, delivers: list[int], number: int) -> None:
    assert deliverer_of([b"deliver", mode, b"delivers", delivers]) == number


@pytest.mark.parametrize("refusal", [redis.BusyLoadingError("LOADING"), redis.ConnectionError("reset"), None])
def test_a_region_that_does_not_tell_its_number_is_not_followed(refusal: Exception | None) -> None:
    error = refusal or redis.exceptions.RedisClusterException("Redis Cluster cannot be connected")
    owned = [b"deliver", b"owner", b"delivers", [1, 2]]
    east, west = FakeRegion("east:1", b"OK", None, owned, error, error), FakeRegion("west:1", error)
    with Regions(["127.0.0.1:1"]) as regions:
        regions.failover = failover_of([east, west], Clock())
        Consumer(regions, "jobs", "workers", print, name="c").run(idle_exit_ms=0)
        assert regions.address == "east:1"
    assert [words[0] for words in west.asked] == ["CRDT.REGIONS"]


def test_a_region_that_forbids_to_tell_its_number_ends_the_consumer() -> None:
    owned = [b"deliver", b"owner", b"delivers", [1, 2]]
    east = FakeRegion("east:1", b"OK", None, owned, redis.exceptions.NoPermissionError("NOPERM"))
    with Regions(["127.0.0.1:1"]) as regions:
        regions.failover = failover_of([east], Clock())
        consumer = Consumer(regions, "jobs", "workers", print, name="c")
        with pytest.raises(redis.exceptions.NoPermissionError):
            consumer.run(idle_exit_ms=0)


def test_a_block_longer_than_the_socket_timeout_is_refused() -> None:
    with Regions(["127.0.0.1:1"]) as regions, pytest.raises(ValueError, match="block_ms=10000 is not between"):
        Consumer(regions, "jobs", "workers", print, name="c", block_ms=10_000)
