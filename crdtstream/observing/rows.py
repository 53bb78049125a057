"""The rows of CRDT.REGIONS, CRDT.MEMBERS and XINFO as values. Names of keys, groups and consumers stay bytes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crdtstream.protocols.hash_slots import slot_ranges

# What a region answers to questions about a link.
LINK_SELF, LINK_OPEN, LINK_TRANSFER = "self", "open", "transfer"
# The states of an origin whose membership has ended, for ever or because its region came back as another one.
EVICTED, FOLLOWED = "evicted", "followed"
ENDED = (EVICTED, FOLLOWED)


@dataclass(frozen=True)
class LinkRow:
    """A peer as a region sees it; `unlinked_ms` is -1 while it is linked. The first row is the region itself."""

    region: int
    name: str
    address: str
    link: str
    silent_ms: int
    lag: int
    durable_lag: int
    unlinked_ms: int
    reason: str
    lacking: str
    lacking_ms: int
    transfer_bytes: int
    redis_address: str
    http_address: str

    @property
    def is_linked(self) -> bool:
        return self.link in (LINK_SELF, LINK_OPEN, LINK_TRANSFER)


@dataclass(frozen=True)
class OriginRow:
    """An origin as a region knows it."""

    origin: str
    region: int
    name: str
    incarnation: int
    state: str
    held_back_bytes: int


@dataclass(frozen=True)
class StreamRow:
    """XINFO STREAM."""

    length: int
    first_id: str
    last_id: str
    entries_added: int
    groups: int


@dataclass(frozen=True)
class GroupRow:
    """XINFO GROUPS; a lag is None where Redis would not know it."""

    name: bytes
    consumers: int
    pending: int
    last_delivered_id: str
    entries_read: int | None
    lag: int | None


@dataclass(frozen=True)
class ConsumerRow:
    """XINFO CONSUMERS; `inactive_ms` is -1 for one that never read anything."""

    name: bytes
    pending: int
    idle_ms: int
    inactive_ms: int


def fields_of_row(flat: Any) -> dict[str, Any]:
    """A map of RESP2: name, value, name, value."""
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name) or b""
    return str(value.decode("utf-8", "replace"))


def number(fields: Mapping[str, Any], name: str, missing: int = 0) -> int:
    value = fields.get(name)
    return missing if value is None else int(value)


def link_rows(reply: Any) -> list[LinkRow]:
    return [link_row(fields_of_row(row)) for row in reply]


def link_row(row: Mapping[str, Any]) -> LinkRow:
    return LinkRow(
        region=number(row, "region"),
        name=text(row, "name"),
        address=text(row, "address"),
        link=text(row, "link"),
        silent_ms=number(row, "silent-ms"),
        lag=number(row, "lag"),
        durable_lag=number(row, "durable-lag"),
        unlinked_ms=number(row, "unlinked-ms", -1),
        reason=text(row, "reason"),
        lacking=text(row, "lacking"),
        lacking_ms=number(row, "lacking-ms"),
        transfer_bytes=number(row, "transfer-bytes"),
        redis_address=text(row, "redis-address"),
        http_address=text(row, "http-address"),
    )


def origin_rows(reply: Any) -> list[OriginRow]:
    return [
        OriginRow(
            origin=text(row, "origin"),
            region=number(row, "region"),
            name=text(row, "name"),
            incarnation=number(row, "incarnation", -1),
            state=text(row, "state"),
            held_back_bytes=number(row, "held-back-bytes"),
        )
        for row in map(fields_of_row, reply)
    ]


def stream_row(reply: Any) -> StreamRow:
    row = fields_of_row(reply)
    first, last = row.get("first-entry"), row.get("last-entry")
    return StreamRow(
        length=number(row, "length"),
        first_id=first[0].decode() if first else "",
        last_id=last[0].decode() if last else "",
        entries_added=number(row, "entries-added"),
        groups=number(row, "groups"),
    )


def group_rows(reply: Any) -> list[GroupRow]:
    return [
        GroupRow(
            name=row["name"],
            consumers=number(row, "consumers"),
            pending=number(row, "pending"),
            last_delivered_id=text(row, "last-delivered-id"),
            entries_read=row["entries-read"],
            lag=row["lag"],
        )
        for row in map(fields_of_row, reply)
    ]


def consumer_rows(reply: Any) -> list[ConsumerRow]:
    return [
        ConsumerRow(row["name"], number(row, "pending"), number(row, "idle"), number(row, "inactive", -1))
        for row in map(fields_of_row, reply)
    ]


def shard_addresses(reply: Any, count: int) -> dict[int, str]:
    """CLUSTER SLOTS: where each of so many shards is reached; one whose address nobody knows is missing."""
    numbers = {low: number for number, (low, _) in enumerate(slot_ranges(count))}
    return {numbers[row[0]]: address_at(row[2][0].decode(), row[2][1]) for row in reply}


def address_at(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
