"""Sends the same command to several regions at once, over the Redis port.

A region that does not answer gets an answer too, whose `error` says why.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import typer

from crdtstream.admin.comparison import Answer

TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Access:
    """What a region asks for: user and password, and on a TLS port authority, certificate and key, as files."""

    user: str | None = None
    password: str | None = None
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None

    def arguments(self) -> dict[str, Any]:
        """For a client of redis-py. An authority means TLS."""
        found: dict[str, Any] = {"username": self.user, "password": self.password}
        if self.authority:
            files = {"ssl_ca_certs": self.authority, "ssl_certfile": self.certificate, "ssl_keyfile": self.key}
            found.update(ssl=True, **files)
        return found


class Region:
    """The Redis port of one region."""

    def __init__(self, address: str, access: Access, timeout_s: float = TIMEOUT_S) -> None:
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


def password_of(path: Path | None) -> str | None:
    """The password, which is no option, because ps would show it."""
    if path is None:
        return os.environ.get("CRDTSTREAM_PASSWORD")
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise typer.BadParameter(f"the password file {path} cannot be read: {error.strerror}") from error
