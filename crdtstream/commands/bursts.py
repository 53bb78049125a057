"""Bursts of XADD: a pipeline of `XADD key * ...` on one key is executed as one operation.

A burst is taken only where nobody can tell: nothing that looks at single commands is on (a transaction, MONITOR,
keyspace notifications, a slow log of short commands), no client waits for the key or watches it, and no add of it can
fail. What ends a burst early is left to the command itself.
"""

from __future__ import annotations

from typing import Final

from crdtstream.clients.client import REPLIES_ON, Client
from crdtstream.clients.context import Context
from crdtstream.commands.dispatch import is_unhindered
from crdtstream.commands.streams import minted, top_of
from crdtstream.core.bursts import encode_burst
from crdtstream.core.effects import Key
from crdtstream.core.entry_id import LANE_STRIDE, LIBERAL, U64_MAX

XADD: Final = "xadd"
NAMES: Final = (b"XADD", b"xadd")
AUTOMATIC: Final = b"*"
FIELDS_AT: Final = 3
ARGUMENTS_MIN: Final = 5
BURST_ENTRIES_MAX: Final = 256
BURST_BYTES_MAX: Final = 64 * 1024
# No command of a burst takes this long, so a slow log from here on would have none of them.
SLOW_NS_MIN: Final = 1_000_000


def ahead_max(argv: list[bytes]) -> int:
    """How many requests, this one included, are worth looking at for a burst."""
    return BURST_ENTRIES_MAX if argv[0] in NAMES else 1


def burst_end(context: Context, client: Client, requests: list[list[bytes]], at: int) -> int:
    """Where the burst that begins at this request ends; `at` if none begins there."""
    first = requests[at]
    if len(first) < ARGUMENTS_MIN or first[0] not in NAMES or not is_open(context, client, first[1]):
        return at
    name, key = first[0], first[1]
    bytes_max = min(BURST_BYTES_MAX, context.limits.entry_bytes_max)
    size = 0
    end = at
    for argv in requests[at : at + BURST_ENTRIES_MAX]:
        count = len(argv)
        if count < ARGUMENTS_MIN or count % 2 == 0 or argv[2] != AUTOMATIC or argv[1] != key or argv[0] != name:
            break
        for field in range(FIELDS_AT, count):
            size += len(argv[field])
        if size > bytes_max:
            break
        end += 1
    return end if end - at > 1 else at


def is_open(context: Context, client: Client, name: bytes) -> bool:
    """True if a burst on this key of the client's database may begin."""
    key = (client.database, name)
    return (
        is_unhindered(context.standing, client)
        and client.transaction is None
        and client.reply_mode == REPLIES_ON
        and not context.notifications.on
        and not context.monitors
        and context.slow_log.least_ns >= SLOW_NS_MIN
        and not context.parking.awaits(key)
        and key not in context.watches.by_key
        and top_of(context, key)[1] < U64_MAX - (BURST_ENTRIES_MAX + 1) * LANE_STRIDE
    )


def add_burst(context: Context, client: Client, requests: list[list[bytes]]) -> tuple[int, bytes]:
    """Execute a burst, or what of it has IDs of one length: returns how many requests that were, and their replies."""
    began_ns = context.stopwatch.mark_ns
    key: Key = (client.database, requests[0][1])
    step = 1 if context.settings.config.id_mode == LIBERAL else LANE_STRIDE
    burst = encode_burst(minted(context, top_of(context, key)), step, requests, FIELDS_AT)
    context.replica.add_burst(key, burst)
    client.last_ms = context.now_ms
    client.last_command = XADD
    client.written_counter = context.replica.written()
    tally = context.statistics.tally(XADD)
    tally.calls += burst.count
    took_ns = context.stopwatch.read() - began_ns
    tally.took_ns += took_ns
    tally.buckets[(took_ns // burst.count).bit_length()] += burst.count
    return burst.count, burst.replies
