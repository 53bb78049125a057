"""The servers behind one address: the shards of a region, the masters of a Redis Cluster, or that one server alone.

Each key has one of them, so streams are read and written key by key as with one server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from crdtstream.migration.access import Access, at, shown
from crdtstream.migration.source import MigrationError, connect, stream_keys


@dataclass(frozen=True)
class ServedRange:
    """The hash slots from `first` to `last`, inclusive, and a client of their server."""

    first: int
    last: int
    client: Any


class Servers:
    """Either one server for all keys, or several with their hash slots."""

    def __init__(self, ranges: list[ServedRange]) -> None:
        self._ranges = ranges

    def of(self, key: bytes) -> Any:
        """A client of the server that has this key; raises MigrationError."""
        if len(self._ranges) == 1:
            return self._ranges[0].client
        # Imported only here: a region starts without it, and sooner.
        from redis.crc import key_slot

        hash_slot = key_slot(key)
        for each in self._ranges:
            if each.first <= hash_slot <= each.last:
                return each.client
        raise MigrationError(f"no server has hash slot {hash_slot}, that of {key!r}: wait until all shards are up")

    def stream_keys(self, match: str, page: int) -> list[bytes]:
        """The names of the streams of all servers that match the glob, sorted."""
        clients = list({id(each.client): each.client for each in self._ranges}.values())
        return sorted(name for client in clients for name in stream_keys(client, match, page))


def connect_all(access: Access, what: str, timeout_s: float) -> Servers:
    """Return clients of all servers behind an address; raises MigrationError."""
    import redis

    first = connect(access, what, timeout_s)
    try:
        if not is_cluster(first):
            return Servers([ServedRange(0, 0, first)])
        rows = first.execute_command("CLUSTER", "SLOTS")
    except (redis.RedisError, OSError) as error:
        raise MigrationError(f"cannot ask {what} at {shown(access.url)} for its shards: {error}") from error
    clients: dict[tuple[str, int], Any] = {}
    ranges: list[ServedRange] = []
    for low, high, (host, port, *_), *_ in rows:
        place = (host or b"").decode() or urlsplit(access.url).hostname or "", int(port)
        if place not in clients:
            clients[place] = connect(at(access, *place), what, timeout_s)
        ranges.append(ServedRange(int(low), int(high), clients[place]))
    if not ranges:
        raise MigrationError(f"{what} at {shown(access.url)} is a cluster without hash slots: assign them first")
    return Servers(ranges)


def is_cluster(client: Any) -> bool:
    """True if the server is one of several; one that keeps this from its user counts as alone."""
    import redis

    try:
        return b"cluster_enabled:1" in client.execute_command("INFO", "cluster")
    except redis.exceptions.NoPermissionError:
        return False
