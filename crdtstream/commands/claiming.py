"""CLAIM of XREADGROUP: which pending entries a reader takes over, and how it is told about them.

A pending entry whose entry was removed is passed over and stays with its consumer, as in Redis; XCLAIM, XAUTOCLAIM and
XACK make it leave.
"""

from __future__ import annotations

from crdtstream.commands.groups import live_entry
from crdtstream.commands.integers import I64_MAX
from crdtstream.connections.context import Context
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pending import PendingRow
from crdtstream.core.groups.spans import TIME_MAX_MS
from crdtstream.core.streams.stream import Stream
from crdtstream.protocols import replies


def live_rows(context: Context, stream: Stream, group: Group, idle_ms: int, limit: int) -> list[PendingRow]:
    """The pending entries that have been idle for this long and live, the longest idle first, at most `limit` (all if
    negative).
    """
    now_ms = context.now_ms
    # What was delivered before the clock was set back has been idle since then: see `Context.idle_ms`.
    future_ms = now_ms if context.clock.idle_ms(now_ms + 1) >= idle_ms else TIME_MAX_MS
    return _live(stream, group, limit, now_ms - idle_ms, future_ms)


def _live(stream: Stream, group: Group, limit: int, delivered_ms_max: int, future_ms: int) -> list[PendingRow]:
    """What lives among the pending entries with such delivery times; more are looked at until there are enough."""
    looked_at = limit
    while True:
        rows = group.pending.longest_idle(looked_at, delivered_ms_max, future_ms)
        live = [row for row in rows if live_entry(stream, row.origin, row.entry_id) and not group.withholds(row.origin)]
        if limit < 0 or len(live) >= limit or len(rows) < looked_at:
            return live if limit < 0 else live[:limit]
        looked_at *= 2


def oldest_ms(stream: Stream, group: Group) -> int | None:
    """The earliest delivery time of a pending entry that lives."""
    rows = _live(stream, group, 1, TIME_MAX_MS, TIME_MAX_MS)
    return rows[0].delivered_ms if rows else None


def idle_of(context: Context, row: PendingRow) -> int:
    """The idle time that a reader is told; an entry that was released counts as delivered at time 0."""
    return context.clock.idle_ms(max(row.delivered_ms, 0))


def more_deliveries(deliveries: int) -> int:
    return min(deliveries + 1, I64_MAX)


def with_history(entry: bytes, idle_ms: int, deliveries: int) -> bytes:
    """An entry with the idle time and the number of deliveries behind it."""
    return b"*4" + entry[2:] + replies.integer(idle_ms) + replies.integer(deliveries)
