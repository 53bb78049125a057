"""Sends the same command to several regions at once, over the Redis port, before one deadline.

A region that does not answer gets an answer too, whose `error` says why; it is not asked again. Nothing is repeated: an
operator would wait for every attempt, and a command may have been carried out although its reply was lost. The deadline
is that of the whole command; only what follows a change renews it with each question. The regions that the named ones
announce are asked, too, unless only the named ones are wanted.

Where regions have several shards, each shard has *counterparts*: the shards of its number in the other regions, which
replicate to it. A command on a key is for the counterparts that have it, any other one for all, one after the other.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from crdtstream.observing.access import Access
from crdtstream.observing.asking import NO_REPLY, RedisPort, RegionAnswer, Words
from crdtstream.observing.info import fields_of_info, report_of
from crdtstream.observing.reading import SHARDS_QUESTION, RegionReading, by_shard, evicted_places, explore, with_shards
from crdtstream.observing.rows import link_rows, origin_rows
from crdtstream.protocols.hash_slots import shard_of

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
    """The Redis port of one region, or of one of its shards."""

    def __init__(self, address: str, access: Access, deadline: Deadline) -> None:
        self.name = self.address = address
        self._deadline = deadline
        self._lost: RegionAnswer | None = None
        self._port = RedisPort(address, access)

    async def introduce(self, finds_others: bool) -> RegionReading:
        """Learn its name, and what it says of the others; one that does not answer is named by its address
        until another one names it.
        """
        answer = await self.ask("INFO", "replication", "cluster", kept=INTRODUCED)
        if answer.error:
            return RegionReading(self.address, error=answer.error)
        report = report_of(fields_of_info(answer.value))
        self.rename(report.name or self.name)
        found = RegionReading(self.address, report)
        if report.shards > 1:
            found = with_shards(found, await self.ask(*SHARDS_QUESTION, kept=INTRODUCED))
        if not finds_others:
            return found
        links, origins = [await self.ask(command, kept=INTRODUCED) for command in ("CRDT.REGIONS", "CRDT.MEMBERS")]
        return replace(
            found,
            # A user who may not ask for them finds no others.
            links=() if links.error else tuple(link_rows(links.value)),
            origins=() if origins.error else tuple(origin_rows(origins.value)),
        )

    def rename(self, name: str) -> None:
        self.name = self._port.name = name
        if self._lost is not None:
            self._lost = replace(self._lost, region=name)

    async def fields(self) -> dict[str, str]:
        """The fields of INFO on the server and on replication; empty if the region does not answer."""
        answer = await self.ask("INFO", "server", "replication")
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


class Counterparts:
    """The shards with one number in several regions, queried at once; the regions themselves where they have one shard.
    The region that was named first is the first one; `shard` is None where regions have one shard.
    """

    def __init__(
        self, shard: int | None, regions: Sequence[Region], deadline: Deadline, runner: asyncio.Runner
    ) -> None:
        self.shard = shard
        self.deadline = deadline
        self._regions = regions
        self._runner = runner

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


class Regions:
    """Several regions, shard by shard; `close` ends their connections. `named` is what was said at the address that was
    named first, `gone` are shards, by region and number, that belong to the cluster no more.
    """

    def __init__(
        self, addresses: Sequence[str], access: Access, timeout_s: float = TIMEOUT_S, finds_others: bool = False
    ) -> None:
        self.deadline = Deadline(timeout_s)
        self._access = access
        self._opened: list[Region] = []
        self._runner = asyncio.Runner()
        self.counterparts = self._runner.run(self._introduce(addresses, finds_others))

    async def _introduce(self, addresses: Sequence[str], finds_others: bool) -> list[Counterparts]:
        """The named regions come first, in the order in which they were named."""
        known = {address: Region(address, self._access, self.deadline) for address in addresses}
        # The first one imported the client, which is no time that a region took.
        self.deadline.renew()

        async def introduce(reading: RegionReading) -> RegionReading:
            if reading.address not in known:
                known[reading.address] = Region(reading.address, self._access, self.deadline)
            return replace(await known[reading.address].introduce(finds_others), known_as=reading.known_as)

        readings = await explore([RegionReading(address) for address in known], introduce, finds_others)
        for reading in readings:
            known[reading.address].rename(reading.name)
        self._opened = list(known.values())
        return self._grouped(readings, known)

    def _grouped(self, readings: Sequence[RegionReading], known: Mapping[str, Region]) -> list[Counterparts]:
        """A region stands where its first shard that was found does."""
        regions = list(dict.fromkeys(each.name for each in readings))
        self.shards = max(each.shards for each in readings)
        self.named = readings[0]
        self.gone = evicted_places(readings)
        shards = by_shard(sorted(readings, key=lambda each: regions.index(each.name)))
        return [
            Counterparts(
                number if self.shards > 1 else None,
                [known[each.address] for each in found],
                self.deadline,
                self._runner,
            )
            for number, found in shards.items()
        ]

    @property
    def names(self) -> list[str]:
        """Those of all regions, in the order in which they were named."""
        return list(dict.fromkeys(name for each in self.counterparts for name in each.names))

    @property
    def of_first(self) -> list[Counterparts]:
        """The counterparts of each shard of the region that was named first, of which it is the first one."""
        return [each for each in self.counterparts if each.names[0] == self.names[0]]

    def of(self, key: str | bytes) -> Counterparts:
        """The counterparts that have this key."""
        name = key if isinstance(key, bytes) else os.fsencode(key)
        shard = shard_of(name, self.shards)
        return next((each for each in self.counterparts if each.shard == shard), self.counterparts[0])

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()

    async def _close(self) -> None:
        await asyncio.gather(*[region.close() for region in self._opened])
