"""XINFO: streams, groups and consumers as this region sees them.

`radix-tree-keys` is the number of blocks that hold the entries, and `radix-tree-nodes` is one more, as Redis shows for
a small tree. Groups and consumers are ordered by name, pending entries by ID.

Reference: `xinfoCommand` of Redis 7.2.
"""

from __future__ import annotations

from crdtstream.commands import idempotence
from crdtstream.commands.delivery import delivery_of, limits_of
from crdtstream.commands.integers import integer
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, help_row, keys_at
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.core.groups.consumer import Consumer
from crdtstream.core.groups.group import Group
from crdtstream.core.lag import entries_read_of, first_id, lag_of
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, format_id
from crdtstream.protocols import replies

FULL_COUNT = 10
NO_KEY = "ERR no such key"
BAD_OPTIONS = "ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP."


def found_stream(context: Context, client: Client, name: bytes) -> Stream:
    stream = context.look_up((client.database, name))
    if stream is None:
        raise CommandError(NO_KEY)
    return stream


def id_reply(entry_id: EntryId) -> bytes:
    return replies.bulk(format_id(entry_id))


def number_or_null(number: int | None, protocol: int) -> bytes:
    return replies.null_bulk(protocol) if number is None else replies.integer(number)


# XINFO STREAM


def xinfo_stream(context: Context, client: Client, argv: list[bytes]) -> Reply:
    stream = found_stream(context, client, argv[2])
    if len(argv) == 3:
        return summary(context, stream, client.protocol)
    if len(argv) not in (4, 6) or argv[3].upper() != b"FULL":
        raise CommandError(BAD_OPTIONS)
    count = FULL_COUNT
    if len(argv) == 6:
        if argv[4].upper() != b"COUNT":
            raise CommandError(BAD_OPTIONS)
        count = integer(argv[5])
        if count < 0:
            count = FULL_COUNT
    return full(context, stream, count or -1, client.protocol)


def properties(context: Context, stream: Stream) -> list[bytes]:
    """The fields at the start of both forms of XINFO STREAM."""
    blocks = sum([tree.block_count() for tree in stream.trees.values()])
    return [
        replies.bulk(b"length"),
        replies.integer(stream.length),
        replies.bulk(b"radix-tree-keys"),
        replies.integer(blocks),
        replies.bulk(b"radix-tree-nodes"),
        replies.integer(blocks + 1),
        replies.bulk(b"last-generated-id"),
        id_reply(stream.top),
        replies.bulk(b"max-deleted-entry-id"),
        id_reply(stream.max_deleted()),
        replies.bulk(b"entries-added"),
        replies.integer(stream.entries_added()),
        replies.bulk(b"recorded-first-entry-id"),
        id_reply(first_id(stream)),
        *idempotence.properties(context, stream),
    ]


def summary(context: Context, stream: Stream, protocol: int) -> bytes:
    first, last = stream.first_entry(), stream.last_entry()
    items = [
        *properties(context, stream),
        replies.bulk(b"groups"),
        replies.integer(len(stream.groups)),
        replies.bulk(b"first-entry"),
        replies.null_bulk(protocol) if first is None else first[1],
        replies.bulk(b"last-entry"),
        replies.null_bulk(protocol) if last is None else last[1],
    ]
    return replies.mapping(items, protocol)


def full(context: Context, stream: Stream, count: int, protocol: int) -> bytes:
    """XINFO STREAM FULL: the first `count` entries, and of each list of pending entries the first `count` (all if
    negative).
    """
    taken, chunks = stream.range(ID_MIN, ID_MAX, count, False)
    groups = [full_group(stream, name, stream.groups[name], count, protocol) for name in sorted(stream.groups)]
    items = [
        *properties(context, stream),
        replies.bulk(b"entries"),
        replies.array_header(taken) + b"".join(chunks),
        replies.bulk(b"groups"),
        replies.array(groups),
    ]
    return replies.mapping(items, protocol)


def full_group(stream: Stream, name: bytes, group: Group, count: int, protocol: int) -> bytes:
    consumers = [
        full_consumer(group, consumer, group.consumers[consumer], count, protocol)
        for consumer in sorted(group.consumers)
    ]
    items = [
        replies.bulk(b"name"),
        replies.bulk(name),
        *position(stream, group, protocol),
        replies.bulk(b"pel-count"),
        replies.integer(group.pending.count),
        replies.bulk(b"nacked-count"),
        replies.integer(group.pending.released_count()),
        replies.bulk(b"pending"),
        group_pending(group, count),
        replies.bulk(b"consumers"),
        replies.array(consumers),
    ]
    return replies.mapping(items, protocol)


def position(stream: Stream, group: Group, protocol: int) -> list[bytes]:
    return [
        replies.bulk(b"last-delivered-id"),
        id_reply(group.last_delivered()),
        replies.bulk(b"entries-read"),
        number_or_null(entries_read_of(stream, group), protocol),
        replies.bulk(b"lag"),
        number_or_null(lag_of(stream, group), protocol),
    ]


def group_pending(group: Group, count: int) -> bytes:
    rows: list[bytes] = []
    for row in group.pending.rows(ID_MIN, ID_MAX, count, None):
        times = [replies.integer(max(row.delivered_ms, 0)), replies.integer(row.deliveries)]
        rows.append(replies.array([id_reply(row.entry_id), replies.bulk(row.consumer), *times]))
    return replies.array(rows)


def full_consumer(group: Group, name: bytes, consumer: Consumer, count: int, protocol: int) -> bytes:
    items = [
        replies.bulk(b"name"),
        replies.bulk(name),
        replies.bulk(b"seen-time"),
        replies.integer(consumer.seen_ms),
        replies.bulk(b"active-time"),
        replies.integer(consumer.active_ms),
        replies.bulk(b"pel-count"),
        replies.integer(group.pending.count_of(name)),
        replies.bulk(b"pending"),
        consumer_pending(group, name, count),
    ]
    return replies.mapping(items, protocol)


def consumer_pending(group: Group, name: bytes, count: int) -> bytes:
    rows: list[bytes] = []
    for row in group.pending.rows(ID_MIN, ID_MAX, count, name):
        times = [replies.integer(max(row.delivered_ms, 0)), replies.integer(row.deliveries)]
        rows.append(replies.array([id_reply(row.entry_id), *times]))
    return replies.array(rows)


# XINFO GROUPS and CONSUMERS


def xinfo_groups(context: Context, client: Client, argv: list[bytes]) -> Reply:
    stream = found_stream(context, client, argv[2])
    rows = [group_row(context, stream, name, stream.groups[name], client.protocol) for name in sorted(stream.groups)]
    return replies.array(rows)


def group_row(context: Context, stream: Stream, name: bytes, group: Group, protocol: int) -> bytes:
    delivery = [*limits_of(group), *delivery_of(context, stream, group)]
    items = [
        replies.bulk(b"name"),
        replies.bulk(name),
        replies.bulk(b"consumers"),
        replies.integer(len(group.consumers)),
        replies.bulk(b"pending"),
        replies.integer(group.pending.count),
        *position(stream, group, protocol),
        *[item for field, value in delivery for item in (replies.bulk(field), value)],
    ]
    return replies.mapping(items, protocol)


def xinfo_consumers(context: Context, client: Client, argv: list[bytes]) -> Reply:
    stream = found_stream(context, client, argv[2])
    group = stream.groups.get(argv[3])
    if group is None:
        raise CommandError(f"NOGROUP No such consumer group '{shown(argv[3])}' for key name '{shown(argv[2])}'")
    rows = [
        consumer_row(group, name, group.consumers[name], context, client.protocol) for name in sorted(group.consumers)
    ]
    return replies.array(rows)


def consumer_row(group: Group, name: bytes, consumer: Consumer, context: Context, protocol: int) -> bytes:
    inactive_ms = -1 if consumer.active_ms < 0 else context.clock.idle_ms(consumer.active_ms)
    items = [
        replies.bulk(b"name"),
        replies.bulk(name),
        replies.bulk(b"pending"),
        replies.integer(group.pending.count_of(name)),
        replies.bulk(b"idle"),
        replies.integer(context.clock.idle_ms(consumer.seen_ms)),
        replies.bulk(b"inactive"),
        replies.integer(inactive_ms),
    ]
    return replies.mapping(items, protocol)


XINFO = [
    Command(
        "xinfo|stream",
        xinfo_stream,
        arity=-3,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(2, "RO access"),
        since="5.0.0",
        summary="Returns information about a stream.",
        syntax="key [full-block:(FULL [COUNT count#])]",
        help=("STREAM <key> [FULL [COUNT <count>]", "    Show information about the stream."),
    ),
    Command(
        "xinfo|groups",
        xinfo_groups,
        arity=3,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(2, "RO access"),
        since="5.0.0",
        summary="Returns a list of the consumer groups of a stream.",
        syntax="key",
        help=("GROUPS <key>", "    Show the stream consumer groups."),
    ),
    Command(
        "xinfo|consumers",
        xinfo_consumers,
        arity=4,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(2, "RO access"),
        since="5.0.0",
        summary="Returns a list of the consumers in a consumer group.",
        syntax="key group",
        help=("CONSUMERS <key> <groupname>", "    Show consumers of <groupname>."),
    ),
    help_row("xinfo", since="5.0.0"),
]
COMMANDS: list[Command] = [
    Command(
        "xinfo",
        arity=-2,
        since="5.0.0",
        group="stream",
        summary="A container for stream introspection commands.",
        subcommands=XINFO,
    ),
]
