"""The stream commands without groups: XADD XLEN XRANGE XREVRANGE XREAD XDEL XTRIM XSETID.

An XADD is rejected at or below the stream's last ID, which removed entries and XSETID raise too. A trim or an XDEL
becomes an effect that names what it removed. A reader that blocks on `$` waits by counters: it receives every entry
added after those it has seen, even one that arrives late with a lower ID. A reader that gives an ID receives the
entries above it (exclusive).

Reference: Redis `t_stream.c`; minting is in core/entry_id.
"""

from __future__ import annotations

from crdtstream.clients.client import Client
from crdtstream.clients.command import Command, keys_after, keys_at
from crdtstream.clients.context import CommandError, Context, Reply, Waiter
from crdtstream.commands import arguments
from crdtstream.commands.arguments import COUNT_ALL, NewId, ReadOptions, TrimOptions
from crdtstream.commands.integers import integer
from crdtstream.core.effects import CounterRange, Key
from crdtstream.core.entry_id import (
    ID_MAX,
    ID_MIN,
    LIBERAL,
    STRICT,
    U64_MAX,
    EntryId,
    mint,
    mint_at,
    mint_plain,
    next_id,
    previous_id,
)
from crdtstream.core.seen import Seen
from crdtstream.core.strands import count_through
from crdtstream.core.stream import Stream
from crdtstream.protocols import replies

ZERO_ID = "ERR The ID specified in XADD must be greater than 0-0"
NOT_ABOVE = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
EXHAUSTED = "ERR The stream has exhausted the last possible ID, unable to add more items"
TOO_LARGE = "ERR Elements are too large to be stored"
STRICT_ID = (
    "ERR The ID specified in XADD is a full ID, which the ID mode 'strict' refuses:"
    " use '*' or only the milliseconds part"
)
NEW_ONLY = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
BELOW_MAX_DELETED = "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"
BELOW_GIVEN = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
BELOW_TOP = "ERR The ID specified in XSETID is smaller than the target stream top item"
BELOW_LENGTH = "ERR The entries_added specified in XSETID is smaller than the target stream length"


# XADD


def xadd(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if argv[2] != b"*" or len(argv) % 2 == 0:
        return xadd_with_options(context, client, argv)
    key = (client.database, argv[1])
    entry_id = minted(context, top_of(context, key))
    return add(context, key, entry_id, argv[3:])


def xadd_with_options(context: Context, client: Client, argv: list[bytes]) -> Reply:
    options = arguments.parse_add(argv)
    require_allowed(context.settings.config.id_mode, options.new_id)
    key = (client.database, argv[1])
    if options.no_mkstream and context.replica.keyspace.find(key) is None:
        return replies.null_bulk(client.protocol)
    entry_id = chosen_id(context, options.new_id, top_of(context, key))
    reply = add(context, key, entry_id, argv[options.fields_at :])
    if options.trim.given():
        trim(context, key, options.trim)
    return reply


def add(context: Context, key: Key, entry_id: EntryId, fields: list[bytes]) -> bytes:
    size = 0
    for field in fields:
        size += len(field)
    if size > context.limits.entry_bytes_max:
        raise CommandError(TOO_LARGE)
    return context.replica.add_entry(key, entry_id, fields) + replies.CRLF


def top_of(context: Context, key: Key) -> EntryId:
    """The last ID of the key, even of one that is only remembered; 0-0 for a hidden key, which is deleted first."""
    stream = context.replica.keyspace.databases[key[0]].get(key[1])
    return ID_MIN if stream is None or stream.expires_ms < context.now_ms else stream.top


def minted(context: Context, top: EntryId) -> EntryId:
    """The ID for `*`."""
    if context.settings.config.id_mode == LIBERAL:
        entry_id = mint_plain(context.now_ms, top)
    else:
        entry_id = mint(context.now_ms, top, context.replica.lane)
    if entry_id is None:
        raise CommandError(EXHAUSTED)
    return entry_id


def require_allowed(id_mode: str, new_id: NewId) -> None:
    """Raise if the given ID is not allowed, whatever the stream contains."""
    if new_id.kind == arguments.FULL and id_mode == STRICT:
        raise CommandError(STRICT_ID)
    plain = new_id.kind == arguments.FULL or (new_id.kind == arguments.MS_ONLY and id_mode == LIBERAL)
    if plain and new_id.ms == 0 and new_id.seq == 0:
        raise CommandError(ZERO_ID)


def chosen_id(context: Context, new_id: NewId, top: EntryId) -> EntryId:
    """The ID of the new entry under the current ID mode."""
    if top == ID_MAX:
        raise CommandError(EXHAUSTED)
    if new_id.kind == arguments.AUTO:
        return minted(context, top)
    if new_id.kind == arguments.FULL:
        entry_id: EntryId | None = (new_id.ms, new_id.seq)
    elif context.settings.config.id_mode != LIBERAL:
        entry_id = mint_at(new_id.ms, top, context.replica.lane)
    elif new_id.kind == arguments.AUTO_SEQ and new_id.ms == top[0]:
        if top[1] == U64_MAX:
            # As in Redis, which uses this text if the millisecond has no sequence number left.
            raise CommandError(TOO_LARGE)
        entry_id = (top[0], top[1] + 1)
    else:
        entry_id = (new_id.ms, 0)
    if entry_id is None or entry_id <= top:
        raise CommandError(NOT_ABOVE)
    return entry_id


# Ranges


def xlen(context: Context, client: Client, argv: list[bytes]) -> Reply:
    stream = context.replica.keyspace.find((client.database, argv[1]))
    return replies.ZERO if stream is None else replies.integer(stream.length)


def xrange(context: Context, client: Client, argv: list[bytes]) -> Reply:
    start = arguments.parse_range_start(argv[2])
    end = arguments.parse_range_end(argv[3])
    return range_reply(context, client, argv, start, end, False)


def xrevrange(context: Context, client: Client, argv: list[bytes]) -> Reply:
    start = arguments.parse_range_start(argv[3])
    end = arguments.parse_range_end(argv[2])
    return range_reply(context, client, argv, start, end, True)


def range_reply(
    context: Context, client: Client, argv: list[bytes], start: EntryId, end: EntryId, reverse: bool
) -> Reply:
    limit = COUNT_ALL if len(argv) == 4 else arguments.parse_count(argv, 4)
    stream = context.replica.keyspace.find((client.database, argv[1]))
    if stream is None:
        return replies.EMPTY_ARRAY
    if limit == 0:
        return replies.null_array(client.protocol)
    count, chunks = context.ranges.range((client.database, argv[1]), stream, start, end, limit, reverse)
    return entries_reply(count, chunks)


def entries_reply(count: int, chunks: list[bytes]) -> bytes:
    return b"".join([replies.array_header(count), *chunks])


# Removing


def xdel(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[1])
    stream = context.replica.keyspace.find(key)
    if stream is None:
        return replies.ZERO
    ids = [arguments.parse_entry_id(text) for text in argv[2:]]
    highest = ID_MIN
    counters: dict[int, list[int]] = {}
    for entry_id in ids:
        for slot in stream.slots_holding(entry_id):
            counters.setdefault(slot, []).append(stream.trees[slot].counter_of(entry_id))
            highest = max(highest, entry_id)
    ranges: dict[int, list[CounterRange]] = {}
    for slot in sorted(counters):
        ranges[slot] = ranges_of(counters[slot])
    return replies.integer(context.replica.remove_entries(key, ranges, False, highest))


def ranges_of(counters: list[int]) -> list[CounterRange]:
    """Counters as maximal closed ranges, ascending; a counter given twice counts once."""
    ranges: list[CounterRange] = []
    for counter in sorted(counters):
        if ranges and counter <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], counter)
        else:
            ranges.append((counter, counter))
    return ranges


def xtrim(context: Context, client: Client, argv: list[bytes]) -> Reply:
    options = arguments.parse_trim(argv)
    return replies.integer(trim(context, (client.database, argv[1]), options))


def trim(context: Context, key: Key, options: TrimOptions) -> int:
    """Trim the stream; returns how many entries were removed."""
    stream = context.replica.keyspace.find(key)
    if stream is None:
        return 0
    surplus = surplus_of(stream, options)
    if options.approximate:
        surplus = whole_nodes(surplus, stream.length, options, context.limits.stream_node_entries_max)
    if surplus <= 0:
        return 0
    return context.replica.remove_entries(key, stream.trimmable(stream.length - surplus), True, None)


def surplus_of(stream: Stream, options: TrimOptions) -> int:
    """How many of the oldest entries exceed MAXLEN, or lie below MINID."""
    if options.min_id is None:
        assert options.keep is not None
        return stream.length - options.keep
    end = previous_id(options.min_id)
    return 0 if end is None else count_through(stream.chains, end)


def whole_nodes(surplus: int, length: int, options: TrimOptions, node_entries: int) -> int:
    """How many entries an approximate trim (`~`) removes. As in Redis, only whole nodes are dropped, up to the one that
    would exceed LIMIT. The last node counts as whole even if it has fewer entries.
    """
    removals_max = options.removals_max(node_entries)
    if removals_max is not None and surplus > removals_max:
        surplus = removals_max
    if surplus == length or node_entries <= 0:
        return surplus
    return surplus - surplus % node_entries


# XREAD


class Wanted:
    """What a reader wants from one stream: entries above the ID `after`, or those that arrived after `seen`."""

    __slots__ = ("after", "key", "seen")

    def __init__(self, key: Key, after: EntryId | None, seen: Seen | None = None) -> None:
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
        self.count = options.count

    def serve(self, context: Context) -> bytes | None:
        parts: list[bytes] = []
        streams = 0
        for wanted in self.wanted:
            stream = context.replica.keyspace.find(wanted.key)
            if stream is None:
                continue
            count, chunks = wanted.entries(context, stream, self.count)
            if count:
                streams += 1
                parts.append(stream_header(wanted.key[1], count, self.client.protocol))
                parts += chunks
        if streams == 0:
            return None
        return streams_header(streams, self.client.protocol) + b"".join(parts)

    def expired(self, context: Context) -> bytes:
        return replies.null_array(self.client.protocol)


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
    options = arguments.parse_read(argv, context.now_ms, "xread")
    named = zip(options.keys, options.ids, strict=True)
    wanted = [wanted_of(context, (client.database, name), text) for name, text in named]
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


def seen_of(context: Context, key: Key) -> Seen:
    stream = context.replica.keyspace.databases[key[0]].get(key[1])
    return Seen(None, None) if stream is None else stream.seen()


# XSETID


class SetIdOptions:
    """`[ENTRIESADDED n] [MAXDELETEDID id]`."""

    __slots__ = ("entries_added", "max_deleted")

    def __init__(self) -> None:
        self.entries_added: int | None = None
        self.max_deleted: EntryId | None = None

    def take(self, name: bytes, value: bytes, last_id: EntryId) -> None:
        if name == b"ENTRIESADDED":
            self.entries_added = integer(value)
            if self.entries_added < 0:
                raise CommandError("ERR entries_added must be positive")
        elif name == b"MAXDELETEDID":
            max_deleted = arguments.parse_entry_id(value)
            if last_id < max_deleted:
                raise CommandError(BELOW_GIVEN)
            self.max_deleted = None if max_deleted == ID_MIN else max_deleted
        else:
            raise CommandError(arguments.SYNTAX)


def xsetid(context: Context, client: Client, argv: list[bytes]) -> Reply:
    last_id = arguments.parse_entry_id(argv[2])
    options = SetIdOptions()
    for at in range(3, len(argv), 2):
        if at + 1 == len(argv):
            raise CommandError(arguments.SYNTAX)
        options.take(argv[at].upper(), argv[at + 1], last_id)
    key = (client.database, argv[1])
    stream = context.replica.keyspace.find(key)
    if stream is None:
        raise CommandError("ERR no such key")
    require_settable(stream, last_id, options)
    context.replica.set_id(key, last_id, options.entries_added, options.max_deleted)
    return replies.OK


def require_settable(stream: Stream, last_id: EntryId, options: SetIdOptions) -> None:
    """Raise if XSETID would lower the last ID. Redis allows an ID below it that is above the last entry; replicated
    state requires that the last ID never falls.
    """
    if last_id < stream.max_deleted():
        raise CommandError(BELOW_MAX_DELETED)
    if last_id < stream.top:
        raise CommandError(BELOW_TOP)
    if options.entries_added is not None and options.entries_added < stream.length:
        raise CommandError(BELOW_LENGTH)


COMMANDS: list[Command] = [
    Command(
        "xadd",
        xadd,
        arity=-5,
        flags="write denyoom fast",
        keys=keys_at(1, "RW update"),
        since="5.0.0",
        group="stream",
        summary="Appends a new message to a stream. Creates the key if it doesn't exist.",
        syntax=(
            "key [NOMKSTREAM@6.2.0] [trim:(strategy:<MAXLEN | MINID@6.2.0> [operator:<= | ~>] threshold [LIMIT"
            " count#@6.2.0])] id-selector:<* | id> data:(field value)..."
        ),
    ),
    Command(
        "xlen",
        xlen,
        arity=2,
        flags="readonly fast",
        keys=keys_at(1, "RO"),
        since="5.0.0",
        group="stream",
        summary="Returns the number of messages in a stream.",
        syntax="key",
    ),
    Command(
        "xrange",
        xrange,
        arity=-4,
        flags="readonly",
        keys=keys_at(1, "RO access"),
        since="5.0.0",
        group="stream",
        summary="Returns the messages from a stream within a range of IDs.",
        syntax="key start end [COUNT count#]",
    ),
    Command(
        "xrevrange",
        xrevrange,
        arity=-4,
        flags="readonly",
        keys=keys_at(1, "RO access"),
        since="5.0.0",
        group="stream",
        summary="Returns the messages from a stream within a range of IDs in reverse order.",
        syntax="key end start [COUNT count#]",
    ),
    Command(
        "xread",
        xread,
        arity=-4,
        flags="readonly blocking",
        keys=keys_after("STREAMS", 1, "RO access"),
        since="5.0.0",
        group="stream",
        summary="Returns messages from multiple streams with IDs greater than the ones requested.",
        syntax="[COUNT count#] [BLOCK milliseconds#] STREAMS streams:(key... id...)",
    ),
    Command(
        "xdel",
        xdel,
        arity=-3,
        flags="write fast",
        keys=keys_at(1, "RW delete"),
        since="5.0.0",
        group="stream",
        summary="Returns the number of messages after removing them from a stream.",
        syntax="key id...",
    ),
    Command(
        "xtrim",
        xtrim,
        arity=-4,
        flags="write",
        keys=keys_at(1, "RW delete"),
        since="5.0.0",
        group="stream",
        summary="Deletes messages from the beginning of a stream.",
        syntax="key trim:(strategy:<MAXLEN | MINID@6.2.0> [operator:<= | ~>] threshold [LIMIT count#@6.2.0])",
    ),
    Command(
        "xsetid",
        xsetid,
        arity=-3,
        flags="write denyoom fast",
        keys=keys_at(1, "RW update"),
        since="5.0.0",
        group="stream",
        summary="Sets the last-generated ID of a stream.",
        syntax="key last-id [ENTRIESADDED entries-added#@7.0.0] [MAXDELETEDID max-deleted-id@7.0.0]",
    ),
]
