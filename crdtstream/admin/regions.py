"""Sends the same command to several regions at once, over the Redis port.

A region that does not answer gets an answer too, whose `error` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from crdtstream.admin.access import Access
from crdtstream.admin.comparison import Answer

TIMEOUT_S = 5.0


class Region:
    """The Redis port of one region."""

    def __init__(self, address: str, access: Access, timeout_s: float = TIMEOUT_S) -> None:
        # Imported only here: a region starts without it, and sooner.
        import redis

        host, _, port = address.rpartition(":")
        self.name = address
        self._client: Any = redis.Redis(
            host=host.strip("[]"),
            port=int(port),
            **access.arguments(),
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            decode_responses=False,
            protocol=2,
        )
        self._client.response_callbacks.clear()

    def introduce(self) -> None:
        """Learn the region's name; an unreachable region keeps its address as its name."""
        self.name = self.fields().get("region_name", self.name)

    def fields(self) -> dict[str, str]:
        """The fields of INFO replication; empty if the region does not answer."""
        answer = self.ask("INFO", "replication")
        if not isinstance(answer.value, bytes):
            return {}
        return dict(line.split(":", 1) for line in answer.value.decode().splitlines() if ":" in line)

    def ask(self, *words: str | int) -> Answer:
        import redis

        try:
            return Answer(self.name, self._client.execute_command(*words))
        except redis.ResponseError as error:
            return Answer(self.name, error=str(error))
        except redis.RedisError as error:
            return Answer(self.name, error=str(error), unreachable=True)


class Regions:
    """Several regions, queried at once."""

    def __init__(self, addresses: Sequence[str], access: Access) -> None:
        self._regions = [Region(address, access) for address in addresses]
        self._pool = ThreadPoolExecutor(max(1, len(self._regions)))
        list(self._pool.map(Region.introduce, self._regions))

    def ask(self, *words: str | int) -> list[Answer]:
        """Return the answer of each region, in the order in which they were named."""
        return list(self._pool.map(lambda region: region.ask(*words), self._regions))

    def ask_first(self, *words: str | int) -> Answer:
        return self._regions[0].ask(*words)

    def fields_of_first(self) -> dict[str, str]:
        return self._regions[0].fields()

    def keys(self) -> list[bytes]:
        """Return the names of all keys of all regions that answer, sorted."""
        found: dict[bytes, None] = {}
        for region in self._regions:
            found.update(dict.fromkeys(_scan(region)))
        return sorted(found)


def _scan(region: Region) -> list[bytes]:
    names: list[bytes] = []
    cursor = b"0"
    while True:
        answer = region.ask("SCAN", cursor.decode(), "COUNT", 1000)
        if not isinstance(answer.value, list):
            return names
        cursor, page = answer.value
        names += page
        if cursor == b"0":
            return names
