"""Asks all regions at once, and finds those that the named ones announce.

A `RegionReading` is what one region, or one shard of a region that has several, replied last. One that does not answer
keeps its name and its last report, beside the error, so that it can still be said who is missing and how far it had
come. Shards are linked with those of the same number: what is said of links, members and vectors is said of these.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from crdtstream.observing.access import Access
from crdtstream.observing.asking import NO_REPLY, RedisPort, RegionAnswer, Words
from crdtstream.observing.info import RegionReport, fields_of_info, report_of
from crdtstream.observing.rows import ENDED, LinkRow, OriginRow, link_rows, origin_rows, shard_addresses

TIMEOUT_S = 2.0
QUESTIONS: tuple[Words, ...] = (("INFO",), ("CRDT.REGIONS",), ("CRDT.MEMBERS",))
SHARDS_QUESTION: Words = ("CLUSTER", "SLOTS")


@dataclass(frozen=True)
class Whereabouts:
    """What a region says of another one, or of another shard of its own: where its Redis port is reached."""

    address: str
    region: int
    name: str
    shard: int
    shards: int


@dataclass(frozen=True)
class RegionReading:
    """The last replies of one region, or of one of its shards; `error` says why the newest question got none.
    `known_as` is what another one says of one that has not answered yet; `shard_addresses` are those of all shards of
    its region, none where it has one.
    """

    address: str
    report: RegionReport | None = None
    links: tuple[LinkRow, ...] = ()
    origins: tuple[OriginRow, ...] = ()
    error: str = ""
    known_as: Whereabouts | None = None
    shard_addresses: Mapping[int, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """That of its region."""
        if self.report is not None and self.report.name:
            return self.report.name
        return self.known_as.name if self.known_as is not None and self.known_as.name else self.address

    @property
    def label(self) -> str:
        """Its name, and its shard where the region has several."""
        return labelled(self.name, self.shard if self.shards > 1 else None)

    @property
    def region(self) -> int:
        if self.report is not None:
            return self.report.region
        return self.known_as.region if self.known_as is not None else 0

    @property
    def shard(self) -> int:
        if self.report is not None:
            return self.report.shard
        return self.known_as.shard if self.known_as is not None else 0

    @property
    def shards(self) -> int:
        if self.report is not None:
            return self.report.shards
        return self.known_as.shards if self.known_as is not None else 1

    @property
    def place(self) -> tuple[int, int]:
        return self.region, self.shard

    @property
    def answers(self) -> bool:
        return not self.error


def labelled(name: str, shard: int | None) -> str:
    return name if shard is None else f"{name} shard {shard}"


Read = Callable[[RegionReading], Awaitable[RegionReading]]


class RedisPorts:
    """The Redis ports of all known regions, asked with one user's rights."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._ports: dict[str, RedisPort] = {}

    def port(self, address: str) -> RedisPort:
        found = self._ports.get(address)
        if found is None:
            found = self._ports[address] = RedisPort(address, self.access)
        return found

    def prepare(self, readings: Iterable[RegionReading]) -> None:
        """Make their ports. The first one imports the client, which is no time that a region took."""
        for reading in readings:
            self.port(reading.address)

    async def ask(self, address: str, *words: str | bytes | int, timeout_s: float = TIMEOUT_S) -> RegionAnswer:
        return await self.port(address).ask(words, timeout_s)

    async def ask_all(
        self, addresses: Iterable[str], questions: Sequence[Words], timeout_s: float = TIMEOUT_S
    ) -> dict[str, list[RegionAnswer]]:
        """The answers of each region to these questions, by its address."""
        asked = list(addresses)
        found = await asyncio.gather(*[self.port(address).ask_all(questions, timeout_s) for address in asked])
        return dict(zip(asked, found, strict=True))

    async def close(self) -> None:
        await asyncio.gather(*[port.close() for port in self._ports.values()])


async def read_region(
    ports: RedisPorts, before: RegionReading, timeout_s: float = TIMEOUT_S, late: str = ""
) -> RegionReading:
    """`late` is the error where there is no answer in time."""
    ends_s = time.monotonic() + timeout_s
    found = reading_of(before, await ports.port(before.address).ask_all(QUESTIONS, timeout_s, late))
    if not found.answers or found.shards == 1:
        return found
    places = await ports.port(before.address).ask(SHARDS_QUESTION, max(0.0, ends_s - time.monotonic()), late)
    return with_shards(found, places)


def reading_of(before: RegionReading, answers: Sequence[RegionAnswer]) -> RegionReading:
    """What a region says now; it says nothing of members, or of links, to a user who may not ask for them."""
    information, links, origins = answers
    if information.error:
        return replace(before, error=information.error)
    report = report_of(fields_of_info(information.value))
    return RegionReading(
        before.address,
        report,
        () if links.error else tuple(link_rows(links.value)),
        () if origins.error else tuple(origin_rows(origins.value)),
        known_as=before.known_as,
        shard_addresses=before.shard_addresses,
    )


def with_shards(reading: RegionReading, answer: RegionAnswer) -> RegionReading:
    """The reading with the addresses of all shards, unless this user may not ask for them."""
    return reading if answer.error else replace(reading, shard_addresses=shard_addresses(answer.value, reading.shards))


async def read_all(
    ports: RedisPorts, before: Iterable[RegionReading], timeout_s: float = TIMEOUT_S, finds_others: bool = True
) -> list[RegionReading]:
    """Read every known region, and those that they announce; ordered by number."""
    known = list(before)
    ports.prepare(known)
    ends_s = time.monotonic() + timeout_s

    async def read(reading: RegionReading) -> RegionReading:
        return await read_region(ports, reading, max(0.0, ends_s - time.monotonic()), NO_REPLY.format(timeout_s))

    readings = await explore(known, read, finds_others)
    return sorted(readings, key=lambda each: (each.region == 0, *each.place, each.address))


# Finding the others


async def explore(before: Iterable[RegionReading], read: Read, finds_others: bool = True) -> list[RegionReading]:
    """Read these regions, all of their shards, and those that they announce, all at once: one that is silent holds up
    no other.
    """
    readings = {reading.address: reading for reading in before}
    named = frozenset(readings)
    waiting = {asyncio.ensure_future(read(reading)) for reading in readings.values()}
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            found = task.result()
            readings[found.address] = found
        for place in announced(readings.values()) if finds_others else siblings(readings.values()):
            reading = readings[place.address] = RegionReading(place.address, known_as=place)
            waiting.add(asyncio.ensure_future(read(reading)))
    return each_once(present(recognised(list(readings.values())), named))


def announced(readings: Iterable[RegionReading]) -> list[Whereabouts]:
    """The regions and shards that have said where their Redis ports are reached, and that nobody asks yet; in order."""
    known = list(readings)
    return unasked(known, (place for reading in known for place in told_by(reading)))


def siblings(readings: Iterable[RegionReading]) -> list[Whereabouts]:
    """The shards of these regions that nobody asks yet."""
    known = list(readings)
    return unasked(known, (place for reading in known for place in shards_told_by(reading)))


def unasked(known: Sequence[RegionReading], places: Iterable[Whereabouts]) -> list[Whereabouts]:
    asked, addresses = {reading.place for reading in known}, {reading.address for reading in known}
    gone = evicted_places(known)
    found: dict[tuple[int, int], Whereabouts] = {}
    for each in places:
        place = (each.region, each.shard)
        if place not in asked | gone and each.address not in addresses:
            found.setdefault(place, each)
    return [found[place] for place in sorted(found)]


def told_by(reading: RegionReading) -> Iterator[Whereabouts]:
    """A shard is linked with the shards of its number, and knows where the others of its region are."""
    for row in reading.links:
        if row.redis_address:
            yield Whereabouts(row.redis_address, row.region, row.name, reading.shard, reading.shards)
    yield from shards_told_by(reading)


def shards_told_by(reading: RegionReading) -> Iterator[Whereabouts]:
    for number, address in reading.shard_addresses.items():
        yield Whereabouts(address, reading.region, reading.name, number, reading.shards)


def recognised(readings: Sequence[RegionReading]) -> list[RegionReading]:
    """Name the regions that do not answer, where others announce their addresses."""
    places = {place.address: place for reading in readings for place in told_by(reading)}
    return [
        replace(reading, known_as=places[reading.address])
        if not reading.region and reading.address in places
        else reading
        for reading in readings
    ]


def present(readings: Sequence[RegionReading], named: Collection[str]) -> list[RegionReading]:
    """Without shards that have left: their region's others still say where they were."""
    gone = evicted_places(readings)
    return [each for each in readings if each.answers or each.place not in gone or each.address in named]


def each_once(readings: Sequence[RegionReading]) -> list[RegionReading]:
    """Without those that are reached at a second address; one that answers is kept, else the first."""
    found: dict[object, RegionReading] = {}
    for reading in sorted(readings, key=lambda reading: not reading.answers):
        found.setdefault(reading.place if reading.region else reading.address, reading)
    kept = {reading.address for reading in found.values()}
    return [reading for reading in readings if reading.address in kept]


def by_shard(readings: Iterable[RegionReading]) -> dict[int, list[RegionReading]]:
    """The readings of the shards with each number, which replicate to each other; all are 0 where regions have one."""
    found: dict[int, list[RegionReading]] = {}
    for reading in readings:
        found.setdefault(reading.shard, []).append(reading)
    return dict(sorted(found.items()))


def evicted(readings: Iterable[RegionReading]) -> set[int]:
    """The numbers of regions that belong to the cluster no more, as those say that answer."""
    origins = [origin for reading in readings if reading.answers for origin in reading.origins]
    present = {origin.region for origin in origins if origin.state not in ENDED}
    return {origin.region for origin in origins} - present


def evicted_places(readings: Iterable[RegionReading]) -> set[tuple[int, int]]:
    """The shards of regions that belong to the cluster no more."""
    return {(region, shard) for shard, each in by_shard(readings).items() for region in evicted(each)}
