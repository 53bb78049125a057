"""Asks all regions at once, and finds those that the named ones announce.

A `RegionReading` is what one region replied last. One that does not answer keeps its name and its last report, beside
the error, so that a page can still say who is missing and how far it had come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from crdtstream.observing.access import Access
from crdtstream.observing.asking import RedisPort, RegionAnswer, Words
from crdtstream.observing.info import RegionReport, fields_of_info, report_of
from crdtstream.observing.rows import LinkRow, OriginRow, link_rows, origin_rows

TIMEOUT_S = 2.0
QUESTIONS: tuple[Words, ...] = (("INFO",), ("CRDT.REGIONS",), ("CRDT.MEMBERS",))


@dataclass(frozen=True)
class RegionReading:
    """The last replies of one region; `error` says why the newest question got none."""

    address: str
    report: RegionReport | None = None
    links: tuple[LinkRow, ...] = ()
    origins: tuple[OriginRow, ...] = ()
    error: str = ""

    @property
    def name(self) -> str:
        return self.report.name if self.report is not None else self.address

    @property
    def region(self) -> int:
        return self.report.region if self.report is not None else 0

    @property
    def answers(self) -> bool:
        return not self.error


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


async def read_region(ports: RedisPorts, before: RegionReading) -> RegionReading:
    answers = await ports.port(before.address).ask_all(QUESTIONS, TIMEOUT_S)
    return reading_of(before, answers)


def reading_of(before: RegionReading, answers: Sequence[RegionAnswer]) -> RegionReading:
    error = next((answer.error for answer in answers if answer.error), "")
    if error:
        return replace(before, error=error)
    information, links, origins = (answer.value for answer in answers)
    report = report_of(fields_of_info(information))
    return RegionReading(before.address, report, tuple(link_rows(links)), tuple(origin_rows(origins)))


def discover(readings: Sequence[RegionReading]) -> list[str]:
    """The Redis addresses that regions announce, of regions that nobody asks yet."""
    asked = {reading.region for reading in readings if reading.region}
    found: dict[int, str] = {}
    for reading in readings:
        for row in reading.links:
            if row.redis_address and row.region not in asked:
                found.setdefault(row.region, row.redis_address)
    known = {reading.address for reading in readings}
    return [address for _, address in sorted(found.items()) if address not in known]


async def read_all(ports: RedisPorts, before: Sequence[RegionReading]) -> list[RegionReading]:
    """Read every known region, and those that they announce; ordered by number."""
    readings = list(await asyncio.gather(*[read_region(ports, reading) for reading in before]))
    announced = [RegionReading(address) for address in discover(readings)]
    readings += await asyncio.gather(*[read_region(ports, reading) for reading in announced])
    return sorted(readings, key=lambda reading: (reading.region == 0, reading.region, reading.address))


async def needs_password(ports: RedisPorts, addresses: Iterable[str]) -> bool:
    """Whether the default user needs one, as the first region says that answers; true if none does."""
    for address in addresses:
        answer = await ports.ask(address, "ACL", "WHOAMI")
        if not answer.unreachable:
            return bool(answer.error) and not answer.error.startswith("LOADING")
    return True
