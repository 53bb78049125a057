"""The commands that make a stream elsewhere as it is here, in the order in which they have to run.

Entries come first, then what their number and last ID were, then the groups. A pending entry whose stream entry is gone
is left out: no server creates one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crdtstream.migration.source import NEVER, SourceEntry, SourceGroup, State

Word = bytes | str | int
Statement = list[Word]

XADD = "XADD"
IMPORT = "CRDT.IMPORT"
# What CRDT.STREAM GET and CRDT.GROUP GET reply where nobody has set anything.
UNLIMITED: Mapping[bytes, bytes | int] = {b"maxage": 0, b"maxbytes": 0, b"maxlen": 0, b"acked": b"no"}
PLAIN: Mapping[bytes, bytes | int] = {
    b"acknowledge": b"contiguous",
    b"deliver": b"everywhere",
    b"takeover": 10_000,
    b"order": b"any",
}
LETTERS, DELIVERIES_MAX = b"deadletter", b"maxdeliveries"


def adding(verb: str, key: bytes, entry: SourceEntry) -> Statement:
    """Add an entry under its ID; `verb` is IMPORT for a region, and XADD for any other server."""
    return [verb, key, entry.entry_id, *entry.fields]


def settling(key: bytes, state: State) -> Statement:
    return [
        "XSETID",
        key,
        state.last_id,
        "ENTRIESADDED",
        state.entries_added,
        "MAXDELETEDID",
        state.max_deleted_id,
    ]


def expiring(key: bytes, state: State) -> list[Statement]:
    return [] if state.expires_ms == NEVER else [["PEXPIREAT", key, state.expires_ms]]


def grouping(key: bytes, group: SourceGroup) -> Iterator[Statement]:
    """Create the group with its consumers and pending entries."""
    read: Statement = [] if group.entries_read is None else ["ENTRIESREAD", group.entries_read]
    yield ["XGROUP", "CREATE", key, group.name, group.last_delivered, "MKSTREAM", *read]
    for consumer in group.consumers:
        yield ["XGROUP", "CREATECONSUMER", key, group.name, consumer]
    for row in group.pending:
        # Times and counters before FORCE; JUSTID, so that the delivery does not count as one more.
        times: Statement = ["TIME", row.delivered_ms, "RETRYCOUNT", row.deliveries]
        yield ["XCLAIM", key, group.name, row.consumer, 0, row.entry_id, *times, "FORCE", "JUSTID"]


def is_set(properties: Mapping[bytes, Any], defaults: Mapping[bytes, bytes | int]) -> bool:
    return any(properties.get(name, value) != value for name, value in defaults.items())


def limiting(key: bytes, limits: Mapping[bytes, Any]) -> list[Statement]:
    """Set the properties of a stream, if it has any."""
    if not is_set(limits, UNLIMITED):
        return []
    return [["CRDT.STREAM", "SET", key, *words_of(limits, UNLIMITED)]]


def ruling(key: bytes, group: SourceGroup, with_letters: bool) -> list[Statement]:
    """Set the properties of a group, if it has any; without its dead-letter key, if that cannot be used."""
    properties = group.properties
    words = words_of(properties, PLAIN) if is_set(properties, PLAIN) else []
    if properties.get(b"deliver") == b"owner":
        at = words.index("DELIVER") + 2
        words[at:at] = [properties[b"owner"]]
    if with_letters and properties.get(LETTERS):
        words += lettering(properties)
    return [["CRDT.GROUP", "SET", key, group.name, *words]] if words else []


def lettering(properties: Mapping[bytes, Any]) -> Statement:
    return ["MAXDELIVERIES", properties[DELIVERIES_MAX], "DEADLETTER", properties[LETTERS]]


def words_of(properties: Mapping[bytes, Any], names: Mapping[bytes, object]) -> Statement:
    """These properties as arguments."""
    found: Statement = []
    for name in names:
        value = properties[name]
        found += [name.decode().upper(), value.decode().upper() if isinstance(value, bytes) else value]
    return found


def line_of(statement: Statement) -> str:
    """A statement as a user types it."""
    return " ".join([shown_name(word) if isinstance(word, bytes) else str(word) for word in statement])


def shown_name(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
