"""Reads streams from a Redis server, page by page; the server may be written to meanwhile.

Replies are as on the wire in RESP2. Ages are turned into times by the server's own clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from crdtstream.migration.access import Access, AccessError, shown

START = b"-"
NEVER = -1
RECONNECTIONS = 3


class MigrationError(Exception):
    """Why the migration cannot go on, and what to do."""


@dataclass(frozen=True)
class SourceEntry:
    """`fields` are names and values in turn."""

    entry_id: bytes
    fields: list[bytes]


@dataclass(frozen=True)
class Pending:
    entry_id: bytes
    consumer: bytes
    delivered_ms: int
    deliveries: int


@dataclass(frozen=True)
class SourceGroup:
    """`entries_read` is None where the server does not know it; `properties` are those of CRDT.GROUP GET."""

    name: bytes
    last_delivered: bytes
    entries_read: int | None
    consumers: list[bytes]
    pending: list[Pending]
    properties: dict[bytes, Any]


@dataclass(frozen=True)
class State:
    """What a stream has beside its entries and groups; `expires_ms` is NEVER, or a Unix time, and `names` counts the
    adds that are known by a name (IDMP).
    """

    last_id: bytes
    entries_added: int
    max_deleted_id: bytes
    expires_ms: int
    names: int


def connect(access: Access, what: str, timeout_s: float) -> Any:
    """Return a client of the server, with replies as on the wire; raises MigrationError."""
    # Imported only here: a region starts without it, and sooner.
    import redis
    from redis.backoff import ExponentialBackoff
    from redis.retry import Retry

    # A lost connection is made again. A server that did not answer in time is not asked again: it would be waited for
    # as often.
    retry = Retry(ExponentialBackoff(), RECONNECTIONS, supported_errors=(redis.ConnectionError,))
    try:
        client: Any = redis.Redis(
            **access.arguments(what),
            protocol=2,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=retry,
            single_connection_client=True,
        )
        client.response_callbacks.clear()
        client.execute_command("PING")
    except AccessError as error:
        raise MigrationError(str(error)) from error
    except (redis.RedisError, OSError) as error:
        raise MigrationError(f"cannot use {what} at {shown(access.url)}: {error}") from error
    return client


def stream_keys(client: Any, match: str, page: int) -> list[bytes]:
    """Return the names of the streams that match the glob, sorted."""
    found: dict[bytes, None] = {}
    cursor = b"0"
    while True:
        cursor, keys = client.execute_command("SCAN", cursor, "MATCH", match, "COUNT", page, "TYPE", "stream")
        found.update(dict.fromkeys(keys))
        if int(cursor) == 0:
            return sorted(found)


def pages(client: Any, key: bytes, after: bytes, page: int) -> Iterator[list[SourceEntry]]:
    """Yield the entries behind an ID (START for all), in order; a duplicate ID is yielded once."""
    start = after if after == START else b"(" + after
    while True:
        rows = client.execute_command("XRANGE", key, start, "+", "COUNT", page)
        # Regions in liberal mode may hold two entries of one ID, which a range returns one after the other.
        entries = {row[0]: SourceEntry(row[0], row[1]) for row in reversed(rows)}
        if not entries:
            return
        yield [entries[entry_id] for entry_id in dict.fromkeys(row[0] for row in rows)]
        start = b"(" + rows[-1][0]


def state_of(client: Any, key: bytes) -> State:
    fields = mapping(client.execute_command("XINFO", "STREAM", key))
    last_id = fields[b"last-generated-id"]
    return State(
        last_id,
        # Redis before 7.0 has neither.
        fields.get(b"entries-added", fields[b"length"]),
        fields.get(b"max-deleted-entry-id", b"0-0"),
        expiry_of(client, key),
        int(fields.get(b"iids-tracked", 0)),
    )


def limits_of(client: Any, key: bytes) -> dict[bytes, Any]:
    return told_by_region(client, "CRDT.STREAM", "GET", key)


def told_by_region(client: Any, *words: str | bytes) -> dict[bytes, Any]:
    """Return the properties that a region replies; none for another server, which does not know the command."""
    # Imported only here: a region starts without it, and sooner.
    from redis.exceptions import ResponseError

    try:
        return mapping(client.execute_command(*words))
    except ResponseError as error:
        if "unknown command" not in str(error):
            raise
        return {}


def expiry_of(client: Any, key: bytes) -> int:
    left_ms = int(client.execute_command("PTTL", key))
    return NEVER if left_ms < 0 else clock_ms(client) + left_ms


def clock_ms(client: Any) -> int:
    seconds, microseconds = client.execute_command("TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000


def groups_of(client: Any, key: bytes) -> list[SourceGroup]:
    """Return the groups with all their pending entries, as one reply of the server describes them."""
    fields = mapping(client.execute_command("XINFO", "STREAM", key, "FULL", "COUNT", 0))
    rows = map(mapping, fields[b"groups"])
    return [group_of(row, told_by_region(client, "CRDT.GROUP", "GET", key, row[b"name"])) for row in rows]


def group_of(fields: dict[bytes, Any], properties: dict[bytes, Any]) -> SourceGroup:
    consumers = [mapping(row)[b"name"] for row in fields[b"consumers"]]
    pending = [Pending(row[0], row[1], int(row[2]), int(row[3])) for row in fields[b"pending"]]
    position = fields[b"last-delivered-id"], fields.get(b"entries-read")
    return SourceGroup(fields[b"name"], *position, consumers, pending, properties)


def mapping(flat: Iterable[Any]) -> dict[Any, Any]:
    """Convert a RESP2 map: key, value, key, value."""
    items = iter(flat)
    return dict(zip(items, items, strict=True))
