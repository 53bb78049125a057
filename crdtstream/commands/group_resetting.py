"""CRDT.GROUP RESET: a group begins again from another position, in all regions.

Every region then delivers what lies above the position, once more where it was delivered, and nothing below it. What is
pending stays pending. `DRYRUN` changes nothing and counts what this region would deliver again, and what it would pass
over.
"""

from __future__ import annotations

from crdtstream.commands import arguments
from crdtstream.commands.cursor_reading import counters_at
from crdtstream.commands.groups import existing_group, seen_now
from crdtstream.commands.integers import integer
from crdtstream.commands.properties import require_properties_readable
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.core.effects import Key, Position
from crdtstream.core.groups.group import Group
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, U64_MAX, EntryId, id_below, next_id, previous_id
from crdtstream.protocols import replies

SYNTAX = "ERR syntax error: CRDT.GROUP RESET key group ID id | TIME ms | CURSOR cursor | NEW [DRYRUN]"


def reset(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[2])
    stream, group = existing_group(context, key, argv[3])
    start, taken = parse_start(context, key, stream, argv)
    rest = [word.upper() for word in argv[4 + taken :]]
    if rest not in ([], [b"DRYRUN"]):
        raise CommandError(SYNTAX)
    if rest:
        return dry_run(stream, group, start, client.protocol)
    require_properties_readable(context)
    context.replica.reset_group(key, argv[3], start)
    return replies.OK


def parse_start(context: Context, key: Key, stream: Stream, argv: list[bytes]) -> tuple[Position, int]:
    """The position behind which the group begins, and how many arguments say so."""
    word = argv[4].upper()
    if word == b"NEW":
        return seen_now(context, stream), 1
    if len(argv) < 6 or word not in (b"ID", b"TIME", b"CURSOR"):
        raise CommandError(SYNTAX)
    if word == b"ID":
        return Position(arguments.parse_bound(argv[5], 0)), 2
    if word == b"CURSOR":
        return position_behind(stream, counters_at(context, key, argv[5])), 2
    time_ms = integer(argv[5], "ERR TIME takes milliseconds since 1970")
    if not 0 <= time_ms <= U64_MAX:
        raise CommandError("ERR TIME takes milliseconds since 1970")
    return Position(previous_id((time_ms, 0)) or ID_MIN), 2


def position_behind(stream: Stream, counters: dict[int, int]) -> Position:
    """The position behind all entries up to these counters, by origin."""
    ids: dict[int, EntryId] = {}
    for origin, counter in sorted(counters.items()):
        tree, meta = stream.trees.get(origin), stream.metas.get(origin)
        above = None if tree is None else tree.first_above(counter)
        if above is not None:
            ids[origin] = id_below(above)
        elif meta is not None:
            ids[origin] = meta.add_id
    return Position(ID_MIN, ids)


def dry_run(stream: Stream, group: Group, start: Position, protocol: int) -> bytes:
    """How many entries come again here, and how many are skipped that nobody here got."""
    again = skipped = 0
    for origin, tree in stream.trees.items():
        wanted = group.wanted_in(tree)
        above = next_id(start.get(origin)) or ID_MAX
        wanted_above = sum([tree.count_in(max(next_id(low) or ID_MAX, above), high) for low, high in wanted])
        again += tree.count_in(above, ID_MAX) - wanted_above
        skipped += sum([tree.count_in(next_id(low) or ID_MAX, high) for low, high in wanted]) - wanted_above
    items = [replies.bulk(b"again"), replies.integer(again), replies.bulk(b"skipped"), replies.integer(skipped)]
    return replies.mapping(items, protocol)


COMMAND: Command = Command(
    "crdt.group|reset",
    reset,
    arity=-5,
    flags="write",
    keys=keys_at(2, "RW update"),
    since="0.2.0",
    summary="Lets a consumer group begin again from another position, in all regions.",
    syntax=("key group position:<ID id | TIME milliseconds# | CURSOR cursor | new=NEW> [DRYRUN]"),
    help=(
        "RESET <key> <groupname> ID <id>|TIME <ms>|CURSOR <cursor>|NEW [DRYRUN]",
        "    Let the group begin again from another position.",
    ),
)
