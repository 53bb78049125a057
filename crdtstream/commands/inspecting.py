"""CRDT.STREAM SHOW, CRDT.GROUP SHOW and CRDT.ENTRIES: a stream and a group by origin, as tools for operators show them.

Nothing is delivered, moved or noted. An entry has a third element, its origin, behind those of XRANGE. Of a group:

    start       the position that its creates begin behind
    delivered   the highest ID that readers of this region have passed
    frontier    the ID up to which everything is acknowledged
    lag         entries that a consumer of this region has yet to get
    acked       the newest runs that are acknowledged, as pairs (from, to], at most `RUNS_MAX`; `runs` counts all

`next` of a group is what a consumer that reads here now would get first.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands import arguments, group_properties, stream_properties
from crdtstream.commands.integers import integer
from crdtstream.commands.stream_info import found_stream, id_reply
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, help_row, keys_at
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.merging import BlockRange, merge
from crdtstream.core.groups.group import Group
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import origin_name
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, next_id
from crdtstream.protocols import replies

NEXT_COUNT = 10
RUNS_MAX = 100
COUNT_ALL = -1
NOT_A_COUNT = "ERR COUNT must be a number from 0"
# How the RESP bytes of an entry begin: with two elements, to which the origin is added.
PAIR: Final = b"*2\r\n"
TRIPLE: Final = b"*3\r\n"


def origin_reply(origin: int) -> bytes:
    return replies.bulk(origin_name(origin).encode())


# CRDT.STREAM


def stream_by_origin(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.STREAM SHOW key: a map for each origin that has entries."""
    stream = found_stream(context, client, argv[2])
    trees = [stream.trees[origin] for origin in sorted(stream.trees)]
    return replies.array([tree_row(tree, client.protocol) for tree in trees if tree.count])


def tree_row(tree: EntryTree, protocol: int) -> bytes:
    items = [
        replies.bulk(b"origin"),
        origin_reply(tree.origin),
        replies.bulk(b"entries"),
        replies.integer(tree.count),
        replies.bulk(b"first-id"),
        id_reply(tree.first_id() or ID_MIN),
        replies.bulk(b"last-id"),
        id_reply(tree.last_id() or ID_MIN),
        replies.bulk(b"bytes"),
        replies.integer(tree.byte_count),
    ]
    return replies.mapping(items, protocol)


# CRDT.GROUP


def group_by_origin(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.GROUP SHOW key group [COUNT count]: the group by origin, and the entries that come next."""
    count = parse_next(argv)
    stream = found_stream(context, client, argv[2])
    group = stream.groups.get(argv[3])
    if group is None:
        raise CommandError(f"NOGROUP No such consumer group '{shown(argv[3])}' for key name '{shown(argv[2])}'")
    origins = sorted({*stream.trees, *group.passed, *group.acked})
    coming = group.next_entries(stream.chains, count).runs if count else []
    items = [
        replies.bulk(b"lag"),
        replies.integer(group.wanted_count(stream.chains)),
        replies.bulk(b"next"),
        entries_by_origin(coming, False),
        replies.bulk(b"origins"),
        replies.array([group_row(stream, group, origin, client.protocol) for origin in origins]),
    ]
    return replies.mapping(items, client.protocol)


def parse_next(argv: list[bytes]) -> int:
    if len(argv) == 4:
        return NEXT_COUNT
    if len(argv) != 6 or argv[4].upper() != b"COUNT":
        raise CommandError(arguments.SYNTAX)
    count = integer(argv[5], NOT_A_COUNT)
    if count < 0:
        raise CommandError(NOT_A_COUNT)
    return count


def group_row(stream: Stream, group: Group, origin: int, protocol: int) -> bytes:
    acked = group.acked.get(origin)
    runs = [] if acked is None else acked.pairs()
    items = [
        replies.bulk(b"origin"),
        origin_reply(origin),
        replies.bulk(b"start"),
        id_reply(group.start().get(origin)),
        replies.bulk(b"delivered"),
        id_reply(group.position_of(origin)),
        replies.bulk(b"frontier"),
        id_reply(group.frontier(origin)),
        replies.bulk(b"lag"),
        replies.integer(lag_in(group, stream.trees.get(origin))),
        replies.bulk(b"pending"),
        replies.integer(group.pending.count_in(origin)),
        replies.bulk(b"runs"),
        replies.integer(len(runs)),
        replies.bulk(b"acked"),
        replies.array([replies.array([id_reply(low), id_reply(high)]) for low, high in runs[-RUNS_MAX:]]),
    ]
    return replies.mapping(items, protocol)


def lag_in(group: Group, tree: EntryTree | None) -> int:
    """How many entries of one origin the group has yet to deliver here."""
    if tree is None:
        return 0
    return sum([tree.count_in(next_id(low) or ID_MAX, high) for low, high in group.wanted_in(tree)])


# CRDT.ENTRIES


def entries_with_origins(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.ENTRIES key start end [REV] [COUNT count]: XRANGE with the origin of each entry; REV begins at the end."""
    start, end = arguments.parse_range_start(argv[2]), arguments.parse_range_end(argv[3])
    reverse = len(argv) > 4 and argv[4].upper() == b"REV"
    at = 5 if reverse else 4
    count = COUNT_ALL if len(argv) == at else arguments.parse_count(argv, at)
    stream = context.replica.keyspace.find((client.database, argv[1]))
    if stream is None or count == 0:
        return replies.EMPTY_ARRAY
    return entries_by_origin(merge(stream.chain_ranges(start, end, count, reverse), count, reverse), reverse)


def entries_by_origin(runs: list[BlockRange], reverse: bool) -> bytes:
    entries: list[bytes] = []
    for run in runs:
        origin = origin_reply(run.origin)
        indexes = range(run.high - 1, run.low - 1, -1) if reverse else range(run.low, run.high)
        entries += [TRIPLE + run.block.entry(index)[len(PAIR) :] + origin for index in indexes]
    return replies.array(entries)


STREAM: list[Command] = [
    Command(
        "crdt.stream|show",
        stream_by_origin,
        arity=3,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(2, "RO access"),
        since="0.2.0",
        summary="Returns what each origin has added to a stream.",
        syntax="key",
        help=("SHOW <key>", "    Return what each origin has added to the stream."),
    ),
    *stream_properties.SUBCOMMANDS,
    help_row("crdt.stream", since="0.2.0"),
]
GROUP: list[Command] = [
    Command(
        "crdt.group|show",
        group_by_origin,
        arity=-4,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(2, "RO access"),
        since="0.2.0",
        summary="Returns the positions and acknowledgements of a group by origin, and the entries that come next here.",
        syntax="key group [COUNT count#]",
        help=(
            "SHOW <key> <groupname> [COUNT <count>]",
            "    Return the group by origin, and the entries that come next here.",
        ),
    ),
    *group_properties.SUBCOMMANDS,
]
COMMANDS: list[Command] = [
    Command(
        "crdt.stream",
        arity=-2,
        since="0.2.0",
        group="stream",
        summary="A container for commands about a stream over regions.",
        subcommands=STREAM,
    ),
    Command(
        "crdt.group",
        arity=-2,
        since="0.2.0",
        group="stream",
        summary="A container for commands about a consumer group over regions.",
        subcommands=GROUP,
    ),
    Command(
        "crdt.entries",
        entries_with_origins,
        arity=-4,
        flags="readonly",
        keys=keys_at(1, "RO access"),
        since="0.2.0",
        group="stream",
        summary="Returns the entries of a range with the origin of each.",
        syntax="key start end [rev=REV] [COUNT count#]",
    ),
]
