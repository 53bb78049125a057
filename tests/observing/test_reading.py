"""Finding regions from one of them; silent ones hold up no other."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.reading import RegionReading, announced, by_shard, evicted, explore, reading_of, with_shards
from tests.observing.made import origin, reading, row, shard, shard_address

INFO = b"region:1\r\nregion_name:r1\r\n"


async def explored(known: dict[str, RegionReading], *addresses: str) -> list[RegionReading]:
    async def read(before: RegionReading) -> RegionReading:
        found = known.get(before.address)
        return replace(before, error="Connection refused") if found is None else found

    return await explore([RegionReading(address) for address in addresses], read)


async def test_one_region_leads_to_all() -> None:
    one = reading(1, row(2, redis_address=b"r2:6379"))
    two = reading(2, row(3, redis_address=b"r3:6379"), row(1, redis_address=b"r1:6379"))
    found = await explored({"r1:6379": one, "r2:6379": two}, "r1:6379")
    assert [(each.name, each.region, each.error) for each in found] == [
        ("r1", 1, ""),
        ("r2", 2, ""),
        ("r3", 3, "Connection refused"),
    ]


async def test_a_region_with_two_addresses_is_one() -> None:
    one = reading(1, row(2, redis_address=b"r2:6379"))
    two = reading(2, row(1, redis_address=b"r1:6379"))
    alias = replace(two, address="localhost:2")
    found = await explored({"r1:6379": one, "r2:6379": two, "localhost:2": alias}, "r1:6379", "localhost:2")
    assert sorted(each.name for each in found) == ["r1", "r2"]


async def test_the_others_are_asked_while_one_is_silent() -> None:
    reached = asyncio.Event()

    async def read(before: RegionReading) -> RegionReading:
        if before.address == "silent:1":
            await reached.wait()
            return replace(before, error="no answer within 5 s")
        if before.address == "r2:6379":
            reached.set()
            return reading(2)
        return reading(1, row(2, redis_address=b"r2:6379"))

    found = await asyncio.wait_for(explore([RegionReading("silent:1"), RegionReading("r1:6379")], read), 5.0)
    assert [each.name for each in found] == ["silent:1", "r1", "r2"]


async def test_a_silent_region_that_was_named_has_its_name_from_the_others() -> None:
    one = reading(1, row(2, redis_address=b"r2:6379"))
    found = await explored({"r1:6379": one}, "r2:6379", "r1:6379")
    assert [(each.name, each.region, each.answers) for each in found] == [("r2", 2, False), ("r1", 1, True)]


def test_regions_that_are_gone_are_not_looked_for() -> None:
    one = replace(reading(1, row(2, "none", redis_address=b"r2:6379")), origins=origin(2, "evicted"))
    assert announced([one]) == [] and evicted([one]) == {2}
    back = replace(one, origins=(*one.origins, *origin(2, "newcomer")))
    assert [each.region for each in announced([back])] == [2]


def test_what_a_user_may_not_ask_is_missing_and_no_failure() -> None:
    refused = RegionAnswer("r1", error="NOPERM")
    found = reading_of(RegionReading("r1:6379"), [RegionAnswer("r1", INFO), refused, refused])
    assert (found.name, found.links, found.origins, found.error) == ("r1", (), (), "")
    assert reading_of(found, [refused, refused, refused]).error == "NOPERM"


async def test_one_shard_leads_to_all_shards_of_all_regions() -> None:
    """To its siblings by the map, and to its counterparts by its links."""
    shards = {
        shard_address(region, number): shard(
            region, number, row(3 - region, redis_address=shard_address(3 - region, number).encode())
        )
        for region in (1, 2)
        for number in (0, 1)
    }
    del shards[shard_address(2, 0)]
    found = await explored(shards, shard_address(1, 1))
    assert {each.place: (each.label, each.error) for each in found} == {
        (1, 0): ("r1 shard 0", ""),
        (1, 1): ("r1 shard 1", ""),
        (2, 0): ("r2 shard 0", "Connection refused"),
        (2, 1): ("r2 shard 1", ""),
    }
    assert {number: len(each) for number, each in by_shard(found).items()} == {0: 2, 1: 2}


async def test_the_shards_of_a_region_are_found_where_no_others_are_wanted() -> None:
    one = shard(1, 0, row(2, redis_address=b"r2:6379"))

    async def read(before: RegionReading) -> RegionReading:
        return one if before.address == one.address else replace(before, error="Connection refused")

    found = await explore([RegionReading(one.address)], read, finds_others=False)
    assert [(each.label, each.answers) for each in found] == [("r1 shard 0", True), ("r1 shard 1", False)]


async def test_a_shard_that_has_left_is_not_missed_unless_it_was_named() -> None:
    """The others of its region have still its address."""
    one, two = shard(1, 0), replace(shard(2, 1), origins=origin(1, "evicted"))
    known = {one.address: one, two.address: two}
    assert [each.label for each in await explored(known, one.address, two.address)] == [
        "r1 shard 0",
        "r2 shard 1",
        "r2 shard 0",
    ]
    named = await explored(known, one.address, two.address, shard_address(1, 1))
    assert "r1 shard 1" in [each.label for each in named]


def test_an_origin_that_was_followed_is_no_member() -> None:
    """A region that came back once and was evicted then is gone."""
    one = replace(reading(1), origins=(*origin(2, "followed"), *origin(2, "evicted")))
    assert evicted([one]) == {2}


def test_addresses_of_shards_come_from_the_map() -> None:
    one = replace(shard(1, 0), shard_addresses={})
    rows = [[0, 8191, [b"fe80::1", 7000, b"id", []]], [8192, 16383, [b"b.example", 7001, b"id", []]]]
    assert with_shards(one, RegionAnswer("r1", rows)).shard_addresses == {0: "[fe80::1]:7000", 1: "b.example:7001"}
    assert with_shards(one, RegionAnswer("r1", rows[1:])).shard_addresses == {1: "b.example:7001"}
    assert with_shards(one, RegionAnswer("r1", error="NOPERM")) == one
