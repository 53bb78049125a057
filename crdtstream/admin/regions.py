"""Sends the same command to several regions at once, over the Redis port, before one deadline.

A region that does not answer gets an answer too, whose `error` says why; it is not asked again. Nothing is repeated: an
operator would wait for every attempt, and a command may have been carried out although its reply was lost. The deadline
is that of the whole command; only what follows a change renews it with each question. The regions that the named ones
announce are asked, too, unless only the named ones are wanted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from crdtstream.observing.access import Access
from crdtstream.observing.asking import NO_REPLY, RedisPort, RegionAnswer, Words
from crdtstream.observing.info import fields_of_info, report_of
from crdtstream.observing.reading import RegionReading, explore
from crdtstream.observing.rows import link_rows, origin_rows

TIMEOUT_S = 5.0
# The part of the time that is kept for the last page; and for comparing keys, once they have been looked for.
NEAR = 0.2
SCANNED = 0.5
# What is left for the command itself where a region is silent, so that the others are asked nevertheless.
INTRODUCED = 0.6


class Deadline:
    """When all regions must have answered."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._ends_s = 0.0
        self.renew()

    def renew(self) -> None:
        self._ends_s = time.monotonic() + self.timeout_s

    def is_near(self) -> bool:
        """Whether another page might not come in time."""
        return self.left_s() < NEAR * self.timeout_s

    def is_scanned(self) -> bool:
        """Whether what is left of the time is for comparing."""
        return self.left_s() < SCANNED * self.timeout_s

    def left_s(self) -> float:
        return max(0.0, self._ends_s - time.monotonic())


class Region:
    """The Redis port of one region."""

    def __init__(self, address: str, access: Access, deadline: Deadline) -> None:
        self.name = self.address = address
        self._deadline = deadline
        self._lost: RegionAnswer | None = None
        self._port = RedisPort(address, access)

    async def introduce(self, finds_others: bool) -> RegionReading:
        """Learn its name, and what it says of the others; one that does not answer is named by its address
        until another one names it.
        """
        answers = [await self.ask("INFO", "replication", kept=INTRODUCED)]
        if answers[0].error:
            return RegionReading(self.address, error=answers[0].error)
        report = report_of(fields_of_info(answers[0].value))
        self.rename(report.name or self.name)
        if not finds_others:
            return RegionReading(self.address, report)
        links, origins = [await self.ask(command, kept=INTRODUCED) for command in ("CRDT.REGIONS", "CRDT.MEMBERS")]
        return RegionReading(
            self.address,
            report,
            # A user who may not ask for them finds no others.
            () if links.error else tuple(link_rows(links.value)),
            () if origins.error else tuple(origin_rows(origins.value)),
        )

    def rename(self, name: str) -> None:
        self.name = self._port.name = name
        if self._lost is not None:
            self._lost = replace(self._lost, region=name)

    async def fields(self) -> dict[str, str]:
        """The fields of INFO replication; empty if the region does not answer."""
        answer = await self.ask("INFO", "replication")
        if not isinstance(answer.value, bytes):
            return {}
        return fields_of_info(answer.value)

    async def ask(self, *words: str | bytes | int, kept: float = 0.0) -> RegionAnswer:
        """`kept` is the part of the time for the command that is kept for what follows."""
        if self._lost is not None:
            return self._lost
        late = f"{NO_REPLY.format(self._deadline.timeout_s)}: wait longer with --timeout"
        answer = await self._port.ask(words, max(0.0, self._deadline.left_s() - kept * self._deadline.timeout_s), late)
        if answer.unreachable:
            self._lost = answer
        return answer

    async def ask_each(self, questions: Sequence[Words]) -> list[RegionAnswer]:
        """Ask several questions at once."""
        if self._lost is not None:
            return [self._lost] * len(questions)
        late = f"{NO_REPLY.format(self._deadline.timeout_s)}: wait longer with --timeout"
        answers = await self._port.ask_all(questions, self._deadline.left_s(), late)
        self._lost = next((answer for answer in answers if answer.unreachable), None)
        return answers

    async def scan(self) -> tuple[list[bytes], bool]:
        """Return the names of all keys, or of those that were told before the region stopped answering; and whether
        there may be more, because the time for this was over.
        """
        names: list[bytes] = []
        cursor = b"0"
        while True:
            answer = await self.ask("SCAN", cursor.decode(), "COUNT", 1000)
            if not isinstance(answer.value, list):
                return names, False
            cursor, page = answer.value
            names += page
            if cursor == b"0" or self._deadline.is_scanned():
                return names, cursor != b"0"

    async def close(self) -> None:
        await self._port.close()


class Regions:
    """Several regions, queried at once; `close` ends their connections."""

    def __init__(
        self, addresses: Sequence[str], access: Access, timeout_s: float = TIMEOUT_S, finds_others: bool = False
    ) -> None:
        self.deadline = Deadline(timeout_s)
        self._access = access
        self._regions: list[Region] = []
        self._others: list[Region] = []
        self._runner = asyncio.Runner()
        self._runner.run(self._introduce(addresses, finds_others))

    async def _introduce(self, addresses: Sequence[str], finds_others: bool) -> None:
        """The named regions come first, in the order in which they were named."""
        known = {address: Region(address, self._access, self.deadline) for address in addresses}
        # The first one imported the client, which is no time that a region took.
        self.deadline.renew()

        async def introduce(reading: RegionReading) -> RegionReading:
            if reading.address not in known:
                known[reading.address] = Region(reading.address, self._access, self.deadline)
            return await known[reading.address].introduce(finds_others)

        readings = await explore([RegionReading(address) for address in known], introduce)
        for reading in readings:
            known[reading.address].rename(reading.name)
        kept = {reading.address for reading in readings}
        self._regions = [region for address, region in known.items() if address in kept]
        self._others = [region for address, region in known.items() if address not in kept]

    @property
    def names(self) -> list[str]:
        return [region.name for region in self._regions]

    def ask(self, *words: str | bytes | int) -> list[RegionAnswer]:
        """Return the answer of each region, in the order in which they were named."""
        return self._runner.run(self._ask(words))

    async def _ask(self, words: tuple[str | bytes | int, ...], but: str | None = None) -> list[RegionAnswer]:
        return await asyncio.gather(*[region.ask(*words) for region in self._regions if region.name != but])

    def ask_each(self, questions: Sequence[Words]) -> list[list[RegionAnswer]]:
        """Return for each question the answers of all regions."""

        async def ask() -> list[list[RegionAnswer]]:
            found = await asyncio.gather(*[region.ask_each(questions) for region in self._regions])
            return [list(answers) for answers in zip(*found, strict=True)]

        return self._runner.run(ask())

    def ask_one(self, name: str, *words: str | bytes | int) -> RegionAnswer:
        return self._runner.run(self._regions[self.names.index(name)].ask(*words))

    def ask_others(self, name: str, *words: str | bytes | int) -> list[RegionAnswer]:
        """Return the answers of all regions but this one."""
        return self._runner.run(self._ask(words, name))

    def ask_first(self, *words: str | bytes | int) -> RegionAnswer:
        return self._runner.run(self._regions[0].ask(*words))

    def fields_of_first(self) -> dict[str, str]:
        return self._runner.run(self._regions[0].fields())

    def keys(self) -> tuple[list[bytes], bool]:
        """Return the names of all keys of all regions that answer, sorted, and whether the time sufficed for all."""
        return self._runner.run(self._keys())

    async def _keys(self) -> tuple[list[bytes], bool]:
        found = await asyncio.gather(*[region.scan() for region in self._regions])
        return sorted({name for names, _ in found for name in names}), not any(more for _, more in found)

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()

    async def _close(self) -> None:
        await asyncio.gather(*[region.close() for region in (*self._regions, *self._others)])
