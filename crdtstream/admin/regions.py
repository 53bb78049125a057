"""Sends the same command to several regions at once, over the Redis port, before one deadline.

A region that does not answer gets an answer too, whose `error` says why; it is not asked again. Nothing is repeated: an
operator would wait for every attempt, and a command may have been carried out although its reply was lost. What asks
page after page, or follows a change, renews the deadline with each question.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any

from crdtstream.admin.access import Access
from crdtstream.admin.comparison import RegionAnswer

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
        # Imported only here: a region starts without it, and sooner.
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        host, _, port = address.rpartition(":")
        self.name = address
        self._deadline = deadline
        self._lost: RegionAnswer | None = None
        self._client: Any = Redis(
            host=host.strip("[]"),
            port=int(port),
            **access.arguments(),
            # The deadline is for everything together.
            socket_timeout=None,
            socket_connect_timeout=None,
            retry=Retry(NoBackoff(), 0),
            decode_responses=False,
            protocol=2,
        )
        self._client.response_callbacks.clear()

    async def introduce(self) -> None:
        """Learn the region's name; an unreachable region keeps its address as its name."""
        self.name = (await self.fields()).get("region_name", self.name)

    async def fields(self) -> dict[str, str]:
        """The fields of INFO replication; empty if the region does not answer."""
        answer = await self.ask("INFO", "replication")
        if not isinstance(answer.value, bytes):
            return {}
        return dict(line.split(":", 1) for line in answer.value.decode().splitlines() if ":" in line)

    async def ask(self, *words: str | int) -> RegionAnswer:
        import redis

        if self._lost is not None:
            return self._lost
        try:
            async with asyncio.timeout(self._deadline.left_s()):
                return RegionAnswer(self.name, await self._client.execute_command(*words))
        except redis.ResponseError as error:
            return RegionAnswer(self.name, error=str(error))
        except redis.RedisError as error:
            return self._lose(text_of_failure(error))
        except TimeoutError:
            return self._lose(f"no answer within {self._deadline.timeout_s:g} s: wait longer with --timeout")

    def _lose(self, text: str) -> RegionAnswer:
        self._lost = RegionAnswer(self.name, error=text, unreachable=True)
        return self._lost

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
        await self._client.aclose()


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


def text_of_failure(error: Exception) -> str:
    """Say why a region could not be asked, in the words of the system where it is the network."""
    cause = error.__cause__ or error.__context__
    return os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else str(error)
