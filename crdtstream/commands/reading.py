"""XREAD.

A reader that blocks on `$` waits by counters: it receives every entry added after those it has seen, even one that
arrives late with a lower ID. A reader that gives an ID receives the entries above it (exclusive).

Reference: `xreadCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.commands import arguments
from crdtstream.commands.read_options import READ_OPTIONS, ReadOptions, ReplyBudget, parse_read
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_after
from crdtstream.connections.context import CommandError, Context, Reply, Waiter
from crdtstream.core.effects import Key
from crdtstream.core.entries.seen import SeenEntries
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, EntryId, next_id
from crdtstream.protocols import replies

NEW_ONLY = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."


class Wanted:
    """What a reader wants from one stream: entries above the ID `after`, or those that arrived after `seen`."""

    __slots__ = ("after", "key", "seen")

    def __init__(self, key: Key, after: EntryId | None, seen: SeenEntries | None = None) -> None:
        self.key = key
        self.after = after
        self.seen = seen

    def entries(self, context: Context, stream: Stream, count: int) -> tuple[int, list[bytes]]:
        if self.seen is not None:
            return stream.added_since(self.seen, count)
        start = None if self.after is None else next_id(self.after)
        if start is None:
            return 0, []
        return context.ranges.range(self.key, stream, start, ID_MAX, count, False)


class LastWanted(Wanted):
    """`+`: the last entry at the time the reader is served."""

    def entries(self, context: Context, stream: Stream, count: int) -> tuple[int, list[bytes]]:
        last = stream.last_entry()
        if last is None:
            return 0, []
        return context.ranges.range(self.key, stream, last[0], ID_MAX, count, False)


class StreamReader(Waiter):
    """An XREAD; it is parked if it found nothing and may block."""

    def __init__(self, client: Client, wanted: list[Wanted], options: ReadOptions) -> None:
        super().__init__(client, [one.key for one in wanted], options.deadline_ms)
        self.wanted = wanted
        self.options = options

    def serve(self, context: Context) -> bytes | None:
        parts: list[bytes] = []
        streams = 0
        budget = ReplyBudget(self.options)
        for wanted in self.wanted:
            stream = context.replica.keyspace.find(wanted.key)
            if stream is None:
                continue
            if budget.is_full():
                break
            count, chunks = self.entries(context, wanted, stream, budget)
            if count:
                streams += 1
                parts.append(stream_header(wanted.key[1], count, self.client.protocol))
                parts += chunks
        if streams == 0:
            return None
        return streams_header(streams, self.client.protocol) + b"".join(parts)

    def entries(self, context: Context, wanted: Wanted, stream: Stream, budget: ReplyBudget) -> tuple[int, list[bytes]]:
        """What this reader wants of a stream, as much as fits."""
        if not budget.is_measured():
            count, chunks = wanted.entries(context, stream, budget.limit(self.options.count))
            budget.spend(count, 0)
            return count, chunks
        overhead = len(stream_header(wanted.key[1], 1, self.client.protocol))
        bytes_max = budget.bytes_left(overhead)
        count, chunks = wanted.entries(context, stream, budget.limit(self.options.count))
        if bytes_max >= 0 and size_of(chunks) > bytes_max:
            low, high = budget.at_least(), count
            while low + 1 < high:
                middle = (low + high) // 2
                if size_of(wanted.entries(context, stream, middle)[1]) <= bytes_max:
                    low = middle
                else:
                    high = middle
            count, chunks = wanted.entries(context, stream, low) if low else (0, [])
            budget.close()
        budget.spend(count, overhead + size_of(chunks))
        return count, chunks

    def expired(self, context: Context) -> bytes:
        return replies.null_array(self.client.protocol)


def size_of(chunks: list[bytes]) -> int:
    return sum([len(chunk) for chunk in chunks])


def streams_header(streams: int, protocol: int) -> bytes:
    """The start of the reply of XREAD and XREADGROUP: a map of names to entries, in protocol 2 an array of pairs."""
    if protocol == replies.RESP3:
        return replies.map_header(streams, protocol)
    return replies.array_header(streams)


def stream_header(name: bytes, count: int, protocol: int) -> bytes:
    """The start of one stream's part of that reply; `count` entries must be appended."""
    pair = b"" if protocol == replies.RESP3 else replies.array_header(2)
    return pair + replies.bulk(name) + replies.array_header(count)


def xread(context: Context, client: Client, argv: list[bytes]) -> Reply:
    options = parse_read(argv, context.now_ms, "xread")
    named = zip(options.keys, options.ids, strict=True)
    wanted = [wanted_of(context, (client.database, name), text) for name, text in named]
    for one in (*wanted, *wanted):  # Redis looks up each key twice
        context.look_up(one.key)
    reader = StreamReader(client, wanted, options)
    reply = reader.serve(context)
    if reply is None:
        if not options.blocking:
            return replies.null_array(client.protocol)
        context.park(reader)
    return reply


def wanted_of(context: Context, key: Key, text: bytes) -> Wanted:
    if text == b"$":
        return Wanted(key, None, seen_of(context, key))
    if text == b"+":
        return LastWanted(key, None)
    if text == b">":
        raise CommandError(NEW_ONLY)
    return Wanted(key, arguments.parse_entry_id(text))


def seen_of(context: Context, key: Key) -> SeenEntries:
    stream = context.replica.keyspace.databases[key[0]].get(key[1])
    return SeenEntries(None, None) if stream is None else stream.seen()


COMMANDS: list[Command] = [
    Command(
        "xread",
        xread,
        arity=-4,
        flags="readonly blocking",
        keys=keys_after("STREAMS", 1, "RO access", READ_OPTIONS),
        since="5.0.0",
        group="stream",
        summary="Returns messages from multiple streams with IDs greater than the ones requested.",
        syntax=(
            "[COUNT count#] [MAXCOUNT maxcount#@8.10.0] [MAXSIZE maxsize#@8.10.0] [BLOCK milliseconds#] STREAMS"
            " streams:(key... id...)"
        ),
    ),
]
