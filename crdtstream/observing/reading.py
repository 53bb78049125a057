"""Asks all regions at once, and finds those that the named ones announce.

A `RegionReading` is what one region replied last. One that does not answer keeps its name and its last report, beside
the error, so that it can still be said who is missing and how far it had come.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from crdtstream.observing.access import Access
from crdtstream.observing.asking import NO_REPLY, RedisPort, RegionAnswer, Words
from crdtstream.observing.info import RegionReport, fields_of_info, report_of
from crdtstream.observing.rows import EVICTED, LinkRow, OriginRow, link_rows, origin_rows

TIMEOUT_S = 2.0
QUESTIONS: tuple[Words, ...] = (("INFO",), ("CRDT.REGIONS",), ("CRDT.MEMBERS",))


@dataclass(frozen=True)
class RegionReading:
    """The last replies of one region; `error` says why the newest question got none. `known_as` is what another region
    says of one that has not answered yet.
    """

    address: str
    report: RegionReport | None = None
    links: tuple[LinkRow, ...] = ()
    origins: tuple[OriginRow, ...] = ()
    error: str = ""
    known_as: LinkRow | None = None

    @property
    def name(self) -> str:
        if self.report is not None and self.report.name:
            return self.report.name
        return self.known_as.name if self.known_as is not None and self.known_as.name else self.address

    @property
    def region(self) -> int:
        if self.report is not None:
            return self.report.region
        return self.known_as.region if self.known_as is not None else 0

    @property
    def answers(self) -> bool:
        return not self.error


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
    return reading_of(before, await ports.port(before.address).ask_all(QUESTIONS, timeout_s, late))


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
    )


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
    return sorted(readings, key=lambda reading: (reading.region == 0, reading.region, reading.address))


# Finding the others


async def explore(before: Iterable[RegionReading], read: Read, finds_others: bool = True) -> list[RegionReading]:
    """Read these regions and those that they announce, all at once: one that is silent holds up no other."""
    readings = {reading.address: reading for reading in before}
    waiting = {asyncio.ensure_future(read(reading)) for reading in readings.values()}
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            found = task.result()
            readings[found.address] = found
        for row in announced(readings.values()) if finds_others else ():
            reading = readings[row.redis_address] = RegionReading(row.redis_address, known_as=row)
            waiting.add(asyncio.ensure_future(read(reading)))
    return each_once(recognised(list(readings.values())))


def announced(readings: Iterable[RegionReading]) -> list[LinkRow]:
    """A row for each region that has said where its Redis port is reached, and that nobody asks yet; in order."""
    known = list(readings)
    asked, addresses = {reading.region for reading in known}, {reading.address for reading in known}
    gone = evicted(known)
    found: dict[int, LinkRow] = {}
    for reading in known:
        for row in reading.links:
            if row.redis_address and row.region not in asked | gone and row.redis_address not in addresses:
                found.setdefault(row.region, row)
    return [found[region] for region in sorted(found)]


def recognised(readings: Sequence[RegionReading]) -> list[RegionReading]:
    """Name the regions that do not answer, where others announce their addresses."""
    rows = {row.redis_address: row for reading in readings for row in reading.links if row.redis_address}
    return [
        replace(reading, known_as=rows[reading.address]) if not reading.region and reading.address in rows else reading
        for reading in readings
    ]


def each_once(readings: Sequence[RegionReading]) -> list[RegionReading]:
    """Without those that are reached at a second address; one that answers is kept, else the first."""
    found: dict[int | str, RegionReading] = {}
    for reading in sorted(readings, key=lambda reading: not reading.answers):
        found.setdefault(reading.region or reading.address, reading)
    kept = {reading.address for reading in found.values()}
    return [reading for reading in readings if reading.address in kept]


def evicted(readings: Iterable[RegionReading]) -> set[int]:
    """The numbers of regions that belong to the cluster no more, as those say that answer."""
    origins = [origin for reading in readings if reading.answers for origin in reading.origins]
    present = {origin.region for origin in origins if origin.state != EVICTED}
    return {origin.region for origin in origins} - present
