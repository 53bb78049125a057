"""Sends the same command to several regions at once, over the Redis port, before one deadline.

A region that does not answer gets an answer too, whose `error` says why; it is not asked again. Nothing is repeated: an
operator would wait for every attempt, and a command may have been carried out although its reply was lost. What asks
page after page, or follows a change, renews the deadline with each question.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from crdtstream.observing.access import Access
from crdtstream.observing.asking import NO_REPLY, RedisPort, RegionAnswer
from crdtstream.observing.info import fields_of_info

TIMEOUT_S = 5.0


class Deadline:
    """When all regions must have answered."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._ends_s = 0.0
        self.renew()

    def renew(self) -> None:
        self._ends_s = time.monotonic() + self.timeout_s

    def left_s(self) -> float:
        return max(0.0, self._ends_s - time.monotonic())


class Region:
    """The Redis port of one region."""

    def __init__(self, address: str, access: Access, deadline: Deadline) -> None:
        self.name = address
        self._deadline = deadline
        self._lost: RegionAnswer | None = None
        self._port = RedisPort(address, access)

    async def introduce(self) -> None:
        """Learn the region's name; an unreachable region keeps its address as its name."""
        self.name = self._port.name = (await self.fields()).get("region_name", self.name)

    async def fields(self) -> dict[str, str]:
        """The fields of INFO replication; empty if the region does not answer."""
        answer = await self.ask("INFO", "replication")
        if not isinstance(answer.value, bytes):
            return {}
        return fields_of_info(answer.value)

    async def ask(self, *words: str | int) -> RegionAnswer:
        if self._lost is not None:
            return self._lost
        late = f"{NO_REPLY.format(self._deadline.timeout_s)}: wait longer with --timeout"
        answer = await self._port.ask(words, self._deadline.left_s(), late)
        if answer.unreachable:
            self._lost = answer
        return answer

    async def scan(self) -> list[bytes]:
        """Return the names of all keys, or of those that were told before the region stopped answering."""
        names: list[bytes] = []
        cursor = b"0"
        while True:
            self._deadline.renew()
            answer = await self.ask("SCAN", cursor.decode(), "COUNT", 1000)
            if not isinstance(answer.value, list):
                return names
            cursor, page = answer.value
            names += page
            if cursor == b"0":
                return names

    async def close(self) -> None:
        await self._port.close()


class Regions:
    """Several regions, queried at once; `close` ends their connections."""

    def __init__(self, addresses: Sequence[str], access: Access, timeout_s: float = TIMEOUT_S) -> None:
        self.deadline = Deadline(timeout_s)
        self._regions = [Region(address, access, self.deadline) for address in addresses]
        self._runner = asyncio.Runner()
        self._runner.run(self._introduce())

    async def _introduce(self) -> None:
        await asyncio.gather(*[region.introduce() for region in self._regions])

    def ask(self, *words: str | int) -> list[RegionAnswer]:
        """Return the answer of each region, in the order in which they were named."""
        return self._runner.run(self._ask(words))

    async def _ask(self, words: tuple[str | int, ...]) -> list[RegionAnswer]:
        return await asyncio.gather(*[region.ask(*words) for region in self._regions])

    def ask_first(self, *words: str | int) -> RegionAnswer:
        return self._runner.run(self._regions[0].ask(*words))

    def fields_of_first(self) -> dict[str, str]:
        return self._runner.run(self._regions[0].fields())

    def keys(self) -> list[bytes]:
        """Return the names of all keys of all regions that answer, sorted."""
        return self._runner.run(self._keys())

    async def _keys(self) -> list[bytes]:
        found = await asyncio.gather(*[region.scan() for region in self._regions])
        return sorted({name for names in found for name in names})

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()

    async def _close(self) -> None:
        await asyncio.gather(*[region.close() for region in self._regions])
