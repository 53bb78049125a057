"""The commands that make a stream elsewhere as it is here, in the order in which they have to run.

Entries come first, then what their number and last ID were, then the groups. A pending entry whose stream entry is gone
is left out: no server creates one.
"""

from __future__ import annotations

from collections.abc import Iterator

from crdtstream.migration.source import NEVER, SourceEntry, SourceGroup, State

Word = bytes | str | int
Statement = list[Word]

XADD = "XADD"
IMPORT = "CRDT.IMPORT"


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
