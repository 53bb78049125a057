"""CLAIM of XREADGROUP: which pending entries a reader takes over, and how it is told about them.

A pending entry whose entry was removed is passed over and stays with its consumer, as in Redis; XCLAIM, XAUTOCLAIM and
XACK make it leave.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.groups import live_entry
from crdtstream.commands.integers import I64_MAX
from crdtstream.connections.context import Context
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pending import PendingRow
from crdtstream.core.groups.properties import NO_LIMIT
from crdtstream.core.groups.spans import TIME_MAX_MS
from crdtstream.core.streams.stream import Stream
from crdtstream.protocols import replies

# As in Redis: how many pending entries XAUTOCLAIM looks at for each that it may claim.
ATTEMPTS_PER_COUNT: Final = 10


def live_rows(context: Context, stream: Stream, group: Group, idle_ms: int, limit: int) -> list[PendingRow]:
    """The pending entries that have been idle for this long and live, the longest idle first, at most `limit` (all if
    negative).
    """
    now_ms = context.now_ms
    # What was delivered before the clock was set back has been idle since then: see `Context.idle_ms`.
    future_ms = now_ms if context.clock.idle_ms(now_ms + 1) >= idle_ms else TIME_MAX_MS
    looked_at = limit
    while True:
        rows = group.pending.longest_idle(looked_at, now_ms - idle_ms, future_ms)
        if context.replica.reads.may_wait:
            stream.demand(sorted([row.entry_id for row in rows]))
        live = [row for row in rows if live_entry(stream, row.origin, row.entry_id) and not group.withholds(row.origin)]
        if limit < 0 or len(live) >= limit or len(rows) < looked_at:
            return live if limit < 0 else live[:limit]
        looked_at *= 2


def claimable_rows(context: Context, stream: Stream, group: Group, idle_ms: int, limit: int) -> list[PendingRow]:
    """What a reader that may take over `limit` entries (all if negative) has to look at: as many that were not
    delivered too often, and those before them that were, if these are not very many.
    """
    deliveries_max = group.rules.deliveries_max
    looked_at, looked_at_max = limit, limit * ATTEMPTS_PER_COUNT
    while True:
        rows = live_rows(context, stream, group, idle_ms, looked_at)
        if limit < 0 or deliveries_max == NO_LIMIT:
            return rows
        healthy = [at for at, row in enumerate(rows) if row.deliveries < deliveries_max]
        if len(healthy) >= limit:
            return rows[: healthy[limit - 1] + 1] if limit else []
        if len(rows) < looked_at or looked_at >= looked_at_max:
            return rows
        looked_at = min(2 * looked_at, looked_at_max)


def oldest_ms(stream: Stream, group: Group) -> int | None:
    """The earliest delivery time of a pending entry that lives, as far as that is known without a read: an entry of a
    spilled block counts.
    """
    looked_at = 1
    while True:
        rows = group.pending.longest_idle(looked_at, TIME_MAX_MS, TIME_MAX_MS)
        for row in rows[looked_at // 2 :]:
            if may_live(stream, row) and not group.withholds(row.origin):
                return row.delivered_ms
        if len(rows) < looked_at:
            return None
        looked_at *= 2


def may_live(stream: Stream, row: PendingRow) -> bool:
    """True if the entry lives, or a spilled block would have to be read to know."""
    tree = stream.trees.get(row.origin)
    return tree is not None and (bool(tree.spilled_with([row.entry_id])) or tree.find(row.entry_id) is not None)


def idle_of(context: Context, row: PendingRow) -> int:
    """The idle time that a reader is told; an entry that was released counts as delivered at time 0."""
    return context.clock.idle_ms(max(row.delivered_ms, 0))


def more_deliveries(deliveries: int) -> int:
    return min(deliveries + 1, I64_MAX)


def with_history(entry: bytes, idle_ms: int, deliveries: int) -> bytes:
    """An entry with the idle time and the number of deliveries behind it."""
    return b"*4" + entry[2:] + replies.integer(idle_ms) + replies.integer(deliveries)
