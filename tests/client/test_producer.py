"""Adds have names, and an add that is repeated in its region adds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.client import AsyncProducer, AsyncRegions, Producer, Regions
from crdtstream.processes.region import RegionProcess, regions_in
from tests.region_processes import ids, linked


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[RegionProcess, RegionProcess]]:
    with regions_in(tmp_path) as made:
        east, west = made.make(1, 2)
        linked(east, west)
        yield east, west


class Forgetful:
    """Executes commands, and loses the replies to the first adds."""

    def __init__(self, client: Any, lost: int) -> None:
        self.client = client
        self.lost = lost

    def execute_command(self, *words: Any) -> Any:
        reply = self.client.execute_command(*words)
        if words[0] == "XADD" and self.lost:
            self.lost -= 1
            raise redis.ConnectionError("reset")
        return reply


def forgetful(regions: Regions, lost: int) -> None:
    near = regions.failover.regions[0]
    near.client = Forgetful(near.client, lost)


def test_a_repeat_in_the_same_region_adds_nothing(pair: tuple[RegionProcess, RegionProcess]) -> None:
    east, west = pair
    with Regions([f"127.0.0.1:{east.port}", f"127.0.0.1:{west.port}"]) as regions:
        producer = Producer(regions, "x", name="shop-1")
        forgetful(regions, lost=2)
        added = [producer.add({"n": number}) for number in range(5)]
        assert ids(east) == added and regions.repeats_elsewhere == 0
        first = producer.add({"n": 7}, name="order-7")
        again = Producer(regions, "x", name="shop-1")
        assert again.add({"n": 7}, name="order-7") == first, "a name outlives its producer"
        assert again.add({"n": 8}) not in added, "names that are counted do not"


def test_a_repeat_elsewhere_is_counted_and_one_entry_stays(pair: tuple[RegionProcess, RegionProcess]) -> None:
    east, west = pair
    with Regions([f"127.0.0.1:{east.port}", f"127.0.0.1:{west.port}"]) as regions:
        forgetful(regions, lost=1)
        Producer(regions, "x", name="shop-1", stay_s=0).add({"n": 1})
        assert regions.repeats_elsewhere == 1
        assert west.ask("CRDT.AWAIT", east.ask("CRDT.TOKEN"), 20_000) == b"OK"
        assert len(ids(west)) == 1


async def test_asyncio(pair: tuple[RegionProcess, RegionProcess]) -> None:
    east, west = pair
    async with AsyncRegions([f"127.0.0.1:{east.port}", f"127.0.0.1:{west.port}"]) as regions:
        producer = AsyncProducer(regions, "x", name="shop-1")
        first = await producer.add({"n": 1}, name="a")
        assert await producer.add({"n": 1}, name="a") == first
        east.kill()
        assert await producer.add({"n": 2}) != first


def test_a_producer_needs_a_name() -> None:
    with Regions(["127.0.0.1:1"]) as regions, pytest.raises(ValueError, match="a producer needs a name"):
        Producer(regions, "x", name="")
