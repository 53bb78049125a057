"""CRDT.XREAD: reads that skip nothing.

XREAD goes on behind an ID, and skips an entry that arrives later with a lower one. CRDT.XREAD goes on behind a cursor,
which says for each origin what was read in this stream (core/entries/read_entries.py), so it is good in every region. A
cursor is bound to the name of the cluster and to its key.

The cursor has a row for each origin of which the client has read. Rows of origins of which nothing is left are dropped
once they are the larger part, and no region can still hold the entries and return them again (`all_hold`).

Reference: `xreadCommand` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.arguments import COUNT_ALL, SYNTAX
from crdtstream.commands.integers import deadline, integer
from crdtstream.commands.read_options import ReadOptions, capitals
from crdtstream.commands.reading import streams_header
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_after
from crdtstream.connections.context import CommandError, Context, Reply, Waiter, shown
from crdtstream.core.effects import Key
from crdtstream.core.entries.read_entries import ReadEntries
from crdtstream.core.streams.stream import Stream
from crdtstream.core.tokens import CURSOR, NEWER, OTHER_CLUSTER, OTHER_SUBJECT, Unreadable, decode, encode
from crdtstream.core.values.causality import region_of
from crdtstream.protocols import replies

CURSOR_OPTIONS: Final = {b"BLOCK": 1, b"COUNT": 1}
UNBALANCED = (
    "ERR Unbalanced 'crdt.xread' list of streams: for each stream key a cursor, '0', '+', or '$' must be specified."
)


class StreamReading:
    """What a client wants from one stream: what it has not read. `last` is for `+`: the last entry, whatever it has
    read; `is_new` for `$`, whose cursor the client does not know yet.
    """

    __slots__ = ("is_new", "key", "known", "last")

    def __init__(self, key: Key, known: ReadEntries, is_new: bool = False, last: bool = False) -> None:
        self.key = key
        self.known = known
        self.is_new = is_new
        self.last = last

    def read(self, stream: Stream, count: int) -> tuple[int, list[bytes]]:
        if not self.last:
            return self.known.read(stream.chains, count)
        self.known.counters = counters_of(stream)
        found = stream.last_entry()
        return (0, []) if found is None else (1, [found[1]])


class CursorReader(Waiter):
    """A CRDT.XREAD; it is parked if it found nothing and may block."""

    def __init__(self, client: Client, wanted: list[StreamReading], options: ReadOptions) -> None:
        super().__init__(client, [one.key for one in wanted], options.deadline_ms)
        self._wanted = wanted
        self._count = options.count

    def serve(self, context: Context) -> bytes | None:
        parts: list[bytes] = []
        found = 0
        for wanted in self._wanted:
            stream = context.replica.keyspace.find(wanted.key)
            count, chunks = (0, []) if stream is None else wanted.read(stream, self._count)
            found += count
            if count or wanted.is_new:
                parts.append(self._part(context, wanted, stream, count, chunks))
        if not found:
            return None
        return streams_header(len(parts), self.client.protocol) + b"".join(parts)

    def _part(
        self, context: Context, wanted: StreamReading, stream: Stream | None, count: int, chunks: list[bytes]
    ) -> bytes:
        """The name, the entries and the next cursor; in protocol 3 the last two are the value of the first."""
        cursor = cursor_of(context, wanted.key, wanted.known.counters, stream)
        entries = replies.array_header(count) + b"".join(chunks)
        name = replies.bulk(wanted.key[1])
        if self.client.protocol == replies.RESP3:
            return name + replies.array([entries, replies.bulk(cursor)])
        return replies.array([name, entries, replies.bulk(cursor)])

    def expired(self, context: Context) -> bytes:
        return replies.null_array(self.client.protocol)


def counters_of(stream: Stream) -> dict[int, int]:
    """For each origin the last entry that this region has seen, alive or not."""
    counters = {origin: max(meta.add_counter, meta.trimmed_to) for origin, meta in stream.metas.items()}
    for origin, tree in stream.trees.items():
        counters[origin] = max(counters.get(origin, 0), tree.last_counter())
    return {origin: counter for origin, counter in counters.items() if counter}


# Cursors


def cursor_of(context: Context, key: Key, counters: dict[int, int], stream: Stream | None) -> bytes:
    gone = [] if stream is None else gone_origins(context, counters, stream)
    rows = sorted([(origin, counter) for origin, counter in counters.items() if origin not in gone])
    return encode(CURSOR, context.settings.config.cluster, rows, subject_of(key))


def gone_origins(context: Context, counters: dict[int, int], stream: Stream) -> list[int]:
    """The origins whose rows may be dropped."""
    vector = context.replica.applied.vector
    gone = [
        origin
        for origin, counter in counters.items()
        if origin not in stream.trees and vector.contains(origin, counter)
    ]
    return gone if 2 * len(gone) > len(counters) and all_hold(context) else []


def all_hold(context: Context) -> bool:
    """True if every other region that ever wrote has a member, and all members have everything on disk that is here. A
    region without a member may come back with what it had.
    """
    applied, progress = context.replica.applied, context.cluster.progress
    held = {region_of(applied.origin)}
    for member in context.cluster.neighbours.counted():
        if not progress.holds_all(member, applied.vector):
            return False
        held.add(region_of(member))
    return all(region_of(origin) in held for origin, _ in applied.vector.items())


def subject_of(key: Key) -> bytes:
    return b"%d %b" % key


def counters_at(context: Context, key: Key, text: bytes) -> dict[int, int]:
    """What a cursor, `0` or `$` says was read."""
    return wanted_of(context, key, text).known.counters


def wanted_of(context: Context, key: Key, text: bytes) -> StreamReading:
    """What a cursor, `0`, `$` or `+` stands for."""
    if text == b"0":
        return StreamReading(key, ReadEntries({}))
    if text == b"+":
        return StreamReading(key, ReadEntries({}), last=True)
    if text == b"$":
        stream = context.replica.keyspace.peek(key)
        return StreamReading(key, ReadEntries({} if stream is None else counters_of(stream)), is_new=True)
    try:
        rows = decode(CURSOR, text, context.settings.config.cluster, subject_of(key))
    except Unreadable as error:
        raise CommandError(wrong_cursor(key, error.reason)) from error
    return StreamReading(key, ReadEntries(rows.as_dict()))


def wrong_cursor(key: Key, reason: int) -> str:
    name = shown(key[1])
    if reason == NEWER:
        return f"ERR the cursor for '{name}' is of a newer release: update this region, or read in one that was updated"
    if reason == OTHER_CLUSTER:
        return f"ERR the cursor for '{name}' is of another cluster: begin with 0, or with + for new entries only"
    if reason == OTHER_SUBJECT:
        return f"ERR the cursor for '{name}' is of another stream: give the one that was replied for it, or 0"
    return f"ERR invalid cursor for '{name}': give 0, $, +, or the cursor that CRDT.XREAD replied, and no entry ID"


# The command


def xread_by_cursor(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.XREAD [COUNT count] [BLOCK milliseconds] STREAMS key ... cursor ..."""
    options = parse_cursor_read(argv, context.now_ms)
    named = zip(options.keys, options.ids, strict=True)
    wanted = [wanted_of(context, (client.database, name), text) for name, text in named]
    for one in wanted:
        context.look_up(one.key)
    reader = CursorReader(client, wanted, options)
    reply = reader.serve(context)
    if reply is None:
        if not options.blocking:
            return replies.null_array(client.protocol)
        context.park(reader)
    return reply


def parse_cursor_read(argv: list[bytes], now_ms: int) -> ReadOptions:
    """The options; `ids` of the result are the cursors."""
    options = ReadOptions()
    at = 1
    while at + 1 < len(argv):
        word = capitals(argv[at])
        if word == b"STREAMS":
            add_streams(options, argv[at + 1 :])
            return options
        if word == b"COUNT":
            options.count = max(integer(argv[at + 1]), 0) or COUNT_ALL
        elif word == b"BLOCK":
            options.deadline_ms, options.blocking = deadline(argv[at + 1], now_ms), True
        else:
            break
        at += 2
    raise CommandError(SYNTAX)


def add_streams(options: ReadOptions, named: list[bytes]) -> None:
    count = len(named) // 2
    if len(named) % 2:
        raise CommandError(UNBALANCED)
    options.keys, options.ids = named[:count], named[count:]


COMMANDS: list[Command] = [
    Command(
        "crdt.xread",
        xread_by_cursor,
        arity=-4,
        flags="readonly blocking",
        keys=keys_after("STREAMS", 1, "RO access", CURSOR_OPTIONS),
        since="0.2.0",
        group="stream",
        summary="Returns what was not read yet of streams, also what arrived late, and cursors for any region.",
        syntax="[COUNT count#] [BLOCK milliseconds#] STREAMS streams:(key... cursor...)",
    ),
]
