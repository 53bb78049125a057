"""The stream commands XADD, XLEN, XRANGE, XREVRANGE and XSETID.

An XADD is rejected at or below the stream's last ID, which removed entries and XSETID raise too.

Reference: Redis `t_stream.c`; minting is in connections/minting.py.
"""

from __future__ import annotations

from crdtstream.commands import adding, arguments, idempotence
from crdtstream.commands.adding import NewId, parse_add
from crdtstream.commands.arguments import COUNT_ALL
from crdtstream.commands.fitting import require_entry_fit
from crdtstream.commands.integers import integer
from crdtstream.commands.removing import trim
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.connections.minting import EXHAUSTED, NOT_ABOVE, STRICT_ID, TOO_LARGE, ZERO_ID, minted, top_of
from crdtstream.core.effects import Key
from crdtstream.core.sizes import FIELD_BYTES
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import (
    ID_MAX,
    ID_MIN,
    LIBERAL,
    STRICT,
    U64_MAX,
    EntryId,
    format_id,
    mint_at,
)
from crdtstream.protocols import replies

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
    options = parse_add(argv)
    require_allowed(context.settings.config.id_mode, options.new_id)
    key = (client.database, argv[1])
    stream = context.replica.keyspace.find(key)
    if options.no_mkstream and stream is None:
        return replies.null_bulk(client.protocol)
    fields = argv[options.fields_at :]
    if options.producer:
        if options.automatic:
            options.name = idempotence.name_of_content(fields)
        known = idempotence.added_before(context, stream, options.producer, options.name)
        if known is not None and stream is not None and stream.producers is not None:
            stream.producers.duplicates += 1
            return replies.bulk(format_id(known))
    entry_id = chosen_id(context, options.new_id, top_of(context, key))
    if options.producer:
        reply = idempotence.add_once(context, key, entry_id, fields, options)
    else:
        reply = add(context, key, entry_id, fields)
    if options.trim.given():
        trim(context, key, options.trim)
    return reply


def add(context: Context, key: Key, entry_id: EntryId, fields: list[bytes]) -> bytes:
    size = 0
    for field in fields:
        size += len(field)
    if size > context.limits.entry_bytes_max:
        raise CommandError(TOO_LARGE)
    replica = context.replica
    if size + FIELD_BYTES * len(fields) + len(key[1]) > replica.budget.small_bytes:
        require_entry_fit(context, key, fields)
    return replica.add_entry(key, entry_id, fields) + replies.CRLF


def require_allowed(id_mode: str, new_id: NewId) -> None:
    """Raise if the given ID is not allowed, whatever the stream contains."""
    if new_id.kind == adding.FULL and id_mode == STRICT:
        raise CommandError(STRICT_ID)
    plain = new_id.kind == adding.FULL or (new_id.kind == adding.MS_ONLY and id_mode == LIBERAL)
    if plain and new_id.ms == 0 and new_id.seq == 0:
        raise CommandError(ZERO_ID)


def chosen_id(context: Context, new_id: NewId, top: EntryId) -> EntryId:
    """The ID of the new entry under the current ID mode."""
    if top == ID_MAX:
        raise CommandError(EXHAUSTED)
    if new_id.kind == adding.AUTO:
        return minted(context, top)
    if new_id.kind == adding.FULL:
        entry_id: EntryId | None = (new_id.ms, new_id.seq)
    elif context.settings.config.id_mode != LIBERAL:
        entry_id = mint_at(new_id.ms, top, context.replica.residue)
    elif new_id.kind == adding.AUTO_SEQ and new_id.ms == top[0]:
        entry_id = None if top[1] == U64_MAX else (top[0], top[1] + 1)
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


# XSETID


class SetIdOptions:
    """`[ENTRIESADDED n] [MAXDELETEDID id]`."""

    __slots__ = ("entries_added", "max_deleted")

    def __init__(self) -> None:
        self.entries_added: int | None = None
        self.max_deleted: EntryId | None = None

    def parse(self, name: bytes, value: bytes, last_id: EntryId) -> None:
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
        options.parse(argv[at].upper(), argv[at + 1], last_id)
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
            "key [NOMKSTREAM@6.2.0] [condition:<KEEPREF | DELREF | ACKED>@8.2.0]"
            " [idmp:<idmpauto-with-pid:(IDMPAUTO pid=producer-id) | idmp-with-pid-iid:(IDMP pid=producer-id"
            " iid=idempotent-id)>@8.6.0]"
            " [trim:(strategy:<MAXLEN | MINID@6.2.0> [operator:<= | ~>] threshold [LIMIT count#@6.2.0])]"
            " id-selector:<* | id> data:(field value)..."
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
