"""Finding regions from one of them; silent ones hold up no other."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.reading import RegionReading, announced, evicted, explore, reading_of
from tests.observing.made import origin, reading, row

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
