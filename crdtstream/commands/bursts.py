"""Bursts of XADD: a pipeline of `XADD key [MAXLEN|MINID [=|~] threshold] * ...` on one key is one operation.

A burst is taken only where nobody can tell: nothing that looks at single commands is on (a transaction, MONITOR,
keyspace notifications, a slow log of short commands), no client waits for the key or watches it, the shard serves the
key, and no add of it can fail. What ends a burst early is left to the command itself.

A pipeline is looked at before it is parsed: of a burst that begins there only the first request is, and the fields of
all go from the input to the block as they are (protocols/alike.py). Requests of a backlog are parsed already, and
encoded from their arguments.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.adding import TrimOptions
from crdtstream.commands.dispatch import is_unhindered
from crdtstream.commands.removing import trim
from crdtstream.connections.client import REPLIES_ON, Client
from crdtstream.connections.context import CommandError, Context
from crdtstream.connections.minting import minted, top_of
from crdtstream.core.effects import Key
from crdtstream.core.entries.bursts import Burst, encode_burst, encoded_fields
from crdtstream.core.entries.encoding import array_header
from crdtstream.core.sizes import EFFECT_BYTES, ENTRY_BYTES
from crdtstream.core.values.entry_id import LIBERAL, SEQ_MODULUS, U64_MAX
from crdtstream.protocols.alike import Alike
from crdtstream.protocols.replies import bulk_array
from crdtstream.protocols.requests import CR, REQUEST_BYTES_MIN, STAR, after_first, read_request

XADD: Final = "xadd"
NAMES: Final = (b"XADD", b"xadd")
AUTOMATIC: Final = b"*"
STRATEGIES: Final = (b"MAXLEN", b"MINID")
SIGNS: Final = (b"~", b"=")
# The first index at which options may stand, and the least number of arguments from the key's fields on.
TRIM_AT: Final = 2
FIELDS_MIN: Final = 2
ARGUMENTS_MIN: Final = 5
BURST_ENTRIES_MAX: Final = 256
BURST_BYTES_MAX: Final = 64 * 1024
# It fills the last block and some more, and a hidden key goes first.
BURST_EFFECTS: Final = 5
# The name of the command as a request has it after the number of arguments.
SENT_NAMES: Final = (b"$4\r\nXADD", b"$4\r\nxadd")
# The least that two of them take.
ADDS_BYTES_MIN: Final = 2 * len(bulk_array([b"XADD", b"", AUTOMATIC, b"", b""]))
# No command of a burst takes this long, so a slow log from here on would have none of them.
SLOW_NS_MIN: Final = 1_000_000


def may_begin(data: bytes) -> bool:
    """True if there may be two adds in these bytes, at their beginning; quickly, because many pipelines are none."""
    if len(data) < ADDS_BYTES_MIN:
        return False
    start = 4 if data[2] == CR else 5
    end = start + len(SENT_NAMES[0])
    name = data[start:end]
    return name in SENT_NAMES and data.find(name, end) > 0


def burst_in(context: Context, client: Client, data: bytes, at: int) -> Alike | None:
    """The burst that begins at this offset of what a client sent, as its requests; None if none does."""
    if at + REQUEST_BYTES_MIN > len(data) or data[at] != STAR:
        return None
    limits = context.limits
    argv: list[bytes] = []
    after = read_request(data, at, argv, limits.arguments_max, limits.bulk_bytes_max)
    if after == at or len(argv) < ARGUMENTS_MIN or argv[0] not in NAMES or not is_open(context, client, argv[1]):
        return None
    start = fields_at(argv)
    if start == 0 or (len(argv) - start) % 2 or len(argv) == start:
        return None
    alike = Alike(argv, start)
    bytes_max = min(BURST_BYTES_MAX, limits.entry_bytes_max, limits.bulk_bytes_max, context.replica.budget.small_bytes)
    alike.parse(data, at, after_first(data, at, start), BURST_ENTRIES_MAX, bytes_max)
    return alike if len(alike.bodies) > 1 else None


def ahead_max(argv: list[bytes]) -> int:
    """How many requests, this one included, are worth looking at for a burst."""
    return BURST_ENTRIES_MAX if argv[0] in NAMES else 1


def burst_end(context: Context, client: Client, requests: list[list[bytes]], at: int) -> int:
    """Where the burst that begins at this request ends; `at` if none begins there."""
    first = requests[at]
    if len(first) < ARGUMENTS_MIN or first[0] not in NAMES or not is_open(context, client, first[1]):
        return at
    start = fields_at(first)
    bytes_max = min(BURST_BYTES_MAX, context.limits.entry_bytes_max, context.replica.budget.small_bytes)
    size = 0
    end = at
    for argv in requests[at : at + BURST_ENTRIES_MAX]:
        if not begins_as(argv, first, start):
            break
        for field in range(start, len(argv)):
            size += len(argv[field])
        if size > bytes_max:
            break
        end += 1
    return end if end - at > 1 else at


def begins_as(argv: list[bytes], first: list[bytes], start: int) -> bool:
    """True if this adds fields as the first request does, up to the index where these start."""
    count = len(argv)
    if start == 0 or count < start + FIELDS_MIN or (count - start) % 2:
        return False
    for at in range(start):  # noqa: SIM110 (a generator takes three times as long)
        if argv[at] != first[at]:
            return False
    return True


def fields_at(argv: list[bytes]) -> int:
    """Where the fields start, if the ID is `*` and comes first or after a threshold of MAXLEN or MINID; or else 0."""
    if argv[TRIM_AT] == AUTOMATIC:
        return TRIM_AT + 1
    if argv[TRIM_AT].upper() not in STRATEGIES:
        return 0
    ends = TRIM_AT + (3 if argv[TRIM_AT + 1] in SIGNS else 2)
    return ends + 1 if ends < len(argv) and argv[ends] == AUTOMATIC and threshold(argv, ends) is not None else 0


def threshold(argv: list[bytes], end: int) -> TrimOptions | None:
    """The options from `TRIM_AT` up to `end`; None if they are in error, or there are none."""
    options = TrimOptions()
    try:
        taken = options.parse(argv, TRIM_AT)
    except CommandError:
        return None
    return options if TRIM_AT + taken == end and options.given() else None


def is_open(context: Context, client: Client, name: bytes) -> bool:
    """True if a burst on this key of the client's database may begin."""
    key = (client.database, name)
    return (
        is_unhindered(context.standing, client)
        and client.transaction is None
        and client.reply_mode == REPLIES_ON
        and not context.notifications.on
        and not context.monitors
        and (context.shards is None or context.shards.serves(name))
        and context.slow_log.least_ns >= SLOW_NS_MIN
        and not context.parking.awaits(key)
        and key not in context.watches.by_key
        and len(name) <= context.replica.budget.name_bytes_max
        and top_of(context, key)[1] < U64_MAX - (BURST_ENTRIES_MAX + 1) * SEQ_MODULUS
    )


def add_alike(context: Context, client: Client, alike: Alike) -> bytes:
    """Execute a burst; returns its replies."""
    middle = array_header(len(alike.argv) - alike.start) + b"\r\n"
    return execute(context, client, alike.argv, alike.start, alike.bodies, middle)


def add_burst(context: Context, client: Client, requests: list[list[bytes]]) -> bytes:
    """Execute a burst; returns its replies."""
    start = fields_at(requests[0])
    return execute(context, client, requests[0], start, [encoded_fields(argv, start) for argv in requests], b"")


def execute(
    context: Context, client: Client, first: list[bytes], start: int, bodies: list[bytes], middle: bytes
) -> bytes:
    """Execute a burst that begins with this request, whose fields start there; for the rest see `encode_burst`."""
    began_ns = context.stopwatch.mark_ns
    key: Key = (client.database, first[1])
    step = 1 if context.settings.config.id_mode == LIBERAL else SEQ_MODULUS
    burst = encode_burst(minted(context, top_of(context, key)), step, bodies, middle)
    context.replica.budget.allow(
        len(burst.data) + ENTRY_BYTES * burst.count + BURST_EFFECTS * (EFFECT_BYTES + len(key[1]))
    )
    context.replica.add_burst(key, burst)
    options = threshold(first, start - 1) if start - 1 > TRIM_AT else None
    if options is not None:
        trim_after(context, key, options, burst.count)
    record_adds(context, client, burst, began_ns)
    return burst.replies


def record_adds(context: Context, client: Client, burst: Burst, began_ns: int) -> None:
    """Note what each of the adds would have noted."""
    client.last_ms = context.now_ms
    client.last_command = XADD
    client.written_counter = context.replica.written()
    tally = context.statistics.tally(XADD)
    tally.calls += burst.count
    took_ns = context.stopwatch.read() - began_ns
    tally.took_ns += took_ns
    tally.buckets[(took_ns // burst.count).bit_length()] += burst.count


def trim_after(context: Context, key: Key, options: TrimOptions, adds: int) -> None:
    """Trim as often as after each of these adds: one approximate trim removes a limited number of entries."""
    for _ in range(adds):
        if not trim(context, key, options):
            break
