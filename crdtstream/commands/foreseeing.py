"""Which spilled blocks a write will need, before it has its first effect (core/entries/spilled.py).

Most commands read before they write, and then what they lack is raised in the middle of them, with nothing changed yet.
Here are those that write first, and EXEC, which has all commands of a transaction look before the first of them runs:
those that only read do so, and their replies are dropped. They look at the state before the transaction: what a command
needs only because of what another one does is overlooked. What is overlooked is read without waiting for it, and
counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from crdtstream.commands import arguments
from crdtstream.commands.acknowledging import demand_acknowledged
from crdtstream.commands.adding import TrimOptions, parse_add, parse_trim
from crdtstream.commands.arguments import ACKED, DELREF
from crdtstream.commands.claiming import ATTEMPTS_PER_COUNT
from crdtstream.commands.group_reading import demand_read, read_after
from crdtstream.commands.integers import integer
from crdtstream.commands.pending_entries import AutoclaimOptions, parse_claimed_ids
from crdtstream.commands.read_options import parse_read
from crdtstream.commands.releasing import NackOptions
from crdtstream.commands.removing import NamedIds, ranges_of, surplus_to_remove
from crdtstream.commands.renaming import swapped
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context
from crdtstream.core.effects import CounterRange, Key
from crdtstream.core.entries.block import demand_blocks
from crdtstream.core.entries.covering_intervals import covering_intervals
from crdtstream.core.foreseeing import acknowledge_together, foresee_dropped
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import NO_LIMIT
from crdtstream.core.keyspace import DATABASES
from crdtstream.core.streams.references import ids_of, oldest_settled
from crdtstream.core.streams.stream import Stream
from crdtstream.core.streams.trimming import trimmable
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, parse_id, previous_id

Foresight = Callable[[Context, Client, list[bytes]], None]


def foresee(context: Context, client: Client, command: Command, argv: list[bytes]) -> None:
    """Have the blocks read that this write needs, unless it asks for them itself before its first effect."""
    if command.name not in ASKED_THEN:
        foresee_effects(context, client, command, argv)


def foresee_effects(context: Context, client: Client, command: Command, argv: list[bytes]) -> None:
    """The same for any write, also in a transaction, where none may ask once it runs."""
    look(FORESIGHTS.get(command.name), context, client, argv)
    if context.replica.changed.dirty and may_have_effects(context, client, command, argv):
        look(ASKED_THEN.get(command.name), context, client, argv)
        # The first effect on a key is what its groups acknowledge, for which blocks may be missing, too.
        dirty = dict.fromkeys([key for key, _ in context.replica.changed.dirty])
        acknowledge_together(context.replica, [key for key in dirty if key[1] in argv or command.name in OF_READERS])


def look(foresight: Foresight | None, context: Context, client: Client, argv: list[bytes]) -> None:
    if foresight is not None:
        try:
            foresight(context, client, argv)
        except CommandError:
            return  # the command says so itself


def may_have_effects(context: Context, client: Client, command: Command, argv: list[bytes]) -> bool:
    """False for what readers of groups do, unless that makes dead letters. An XACK makes none."""
    if command.name in OF_READERS:
        return command.name != "xack" and writes_letters(context, client, command, argv)
    return True


def writes_letters(context: Context, client: Client, command: Command, argv: list[bytes]) -> bool:
    """True if a reader may make dead letters, in a stream of a key that only its group knows."""
    for at in command.keys.positions(argv):
        stream = context.replica.keyspace.find((client.database, argv[at]))
        for group in stream.groups.values() if stream is not None else ():
            if group.rules.deliveries_max != NO_LIMIT:
                return True
    return False


def foresee_all(context: Context, client: Client, requests: list[tuple[Command, list[bytes]]]) -> None:
    """The same for the commands of a transaction, of which none may wait once another one had an effect."""
    for command, argv in requests:
        if command.writes:
            if command.name in ("xack", "xackdel"):
                runs_behind(context, client, argv)
            name_ids(context, client, command, argv)
            look(ASKED_THEN.get(command.name), context, client, argv)
            foresee_effects(context, client, command, argv)
        elif command.name == "dump":
            copying(context, client, argv)
        elif command.group == "stream" and command.function is not None:
            rehearse(context, client, command, argv)


def name_ids(context: Context, client: Client, command: Command, argv: list[bytes]) -> None:
    """Have the blocks read of all IDs that a write names."""
    ids = sorted([entry_id for word in argv[2:] if b"-" in word and (entry_id := parse_id(word, 0)) is not None])
    for at in command.keys.positions(argv) if ids else ():
        stream = context.replica.keyspace.find((client.database, argv[at]))
        if stream is not None:
            stream.demand(ids)


def rehearse(context: Context, client: Client, command: Command, argv: list[bytes]) -> None:
    """Run a command that only reads, for what it needs."""
    assert command.function is not None
    statistics = context.statistics
    counted = statistics.hits, statistics.misses
    try:
        if command.function(context, client, argv) is None:
            context.parking.leave(client.id)
    except CommandError:
        return  # it says so when its turn comes
    finally:
        statistics.hits, statistics.misses = counted


def found(context: Context, key: Key, group: bytes) -> tuple[Stream, Group] | None:
    stream = context.replica.keyspace.find(key)
    named = None if stream is None else stream.groups.get(group)
    return None if stream is None or named is None else (stream, named)


# Adding and trimming


def adding(context: Context, client: Client, argv: list[bytes]) -> None:
    if argv[2] != b"*" or len(argv) % 2 == 0:
        read_trimmed(context, (client.database, argv[1]), parse_add(argv).trim, 1)


def trimming(context: Context, client: Client, argv: list[bytes]) -> None:
    read_trimmed(context, (client.database, argv[1]), parse_trim(argv), 0)


def read_trimmed(context: Context, key: Key, options: TrimOptions, added: int) -> None:
    """What a trim looks at, behind so many more entries."""
    stream = context.replica.keyspace.find(key)
    if stream is None or not options.given():
        return
    surplus = surplus_to_remove(context, stream, options) + (added if options.min_id is None else 0)
    surplus = min(surplus, stream.length)
    if surplus <= 0:
        return
    if options.references == ACKED and stream.groups:
        end = ID_MAX if options.min_id is None else previous_id(options.min_id)
        oldest_settled(stream, end or ID_MIN, surplus, context.replica.is_alone())
        return
    ranges = trimmable(stream, stream.length - surplus)
    demand_ends(stream, ranges)
    if options.references == DELREF:
        ids_of(stream, ranges)


def demand_ends(stream: Stream, ranges: dict[int, list[CounterRange]]) -> None:
    """Have the blocks read that the removal of these counters opens."""
    demand_blocks(
        [block for origin, pieces in ranges.items() for block in stream.trees[origin].spilled_at_ends(pieces)]
    )


def removing(context: Context, client: Client, argv: list[bytes]) -> None:
    demand_removed(context, client, argv[1], arguments.parse_entry_ids(argv, 2))


def removing_some(context: Context, client: Client, argv: list[bytes]) -> None:
    demand_removed(context, client, argv[1], NamedIds(argv, 2).ids())


def acknowledging(context: Context, client: Client, argv: list[bytes]) -> None:
    ids = NamedIds(argv, 3).ids()
    demand_removed(context, client, argv[1], ids)
    pair = found(context, (client.database, argv[1]), argv[2])
    if pair is not None:
        # The runs of what it acknowledges come before what it removes.
        foresee_dropped(*pair, {*ids})


def demand_removed(context: Context, client: Client, name: bytes, ids: list[EntryId]) -> None:
    stream = context.replica.keyspace.find((client.database, name))
    if stream is not None:
        ascending = sorted({*ids})
        stream.demand(ascending)
        counters, _ = stream.counters_of(ascending)
        demand_ends(stream, {origin: ranges_of(found) for origin, found in counters.items()})


def demand(context: Context, client: Client, name: bytes, ids: list[EntryId]) -> None:
    stream = context.replica.keyspace.find((client.database, name))
    if stream is not None:
        stream.demand(sorted(ids))


def copying(context: Context, client: Client, argv: list[bytes]) -> None:
    """All of the stream, of which no more is copied than a setting allows."""
    stream = context.replica.keyspace.find((client.database, argv[1]))
    if stream is not None and stream.length <= context.limits.copy_entries_max:
        demand_blocks([block for tree in stream.trees.values() for block in tree.blocks()[0] if block.is_spilled()])


# Groups


def claiming(context: Context, client: Client, argv: list[bytes]) -> None:
    demand(context, client, argv[1], parse_claimed_ids(argv))


def autoclaiming(context: Context, client: Client, argv: list[bytes]) -> None:
    pair = found(context, (client.database, argv[1]), argv[2])
    if pair is None:
        return
    stream, group = pair
    limit = AutoclaimOptions(argv).count * ATTEMPTS_PER_COUNT
    start = arguments.parse_range_start(argv[5])
    stream.demand([row.entry_id for row in group.pending.rows(start, ID_MAX, limit, None)])


def group_reading(context: Context, client: Client, argv: list[bytes]) -> None:
    options = parse_read(argv, context.now_ms, "xreadgroup")
    reads = 1 if client.transaction is None else len(client.transaction.requests)
    for name, text in zip(options.keys, options.ids, strict=True):
        pair = found(context, (client.database, name), options.group)
        if pair is not None:
            demand_read(context, *pair, read_after(text), options, reads)


def deleting_consumer(context: Context, client: Client, argv: list[bytes]) -> None:
    """What was pending for the consumer is acknowledged, up to what is pending for others."""
    pair = found(context, (client.database, argv[2]), argv[3])
    if pair is None:
        return
    stream, group = pair
    own = {origin: [*group.pending.ids(origin, argv[4])] for origin in stream.trees}
    foresee_dropped(stream, group, {entry_id for ids in own.values() for entry_id in ids})
    for origin, tree in stream.trees.items():
        covering_intervals(tree, sorted(own[origin]))


def runs_behind(context: Context, client: Client, argv: list[bytes]) -> None:
    """The runs of what a transaction acknowledges, which it prepares before its next effect on the key."""
    pair = found(context, (client.database, argv[1]), argv[2])
    if pair is not None:
        ids = {entry_id for word in argv[3:] if b"-" in word and (entry_id := parse_id(word, 0)) is not None}
        foresee_dropped(*pair, ids)


def releasing(context: Context, client: Client, argv: list[bytes]) -> None:
    demand(context, client, argv[1], NackOptions(argv).ids)


def acknowledging_named(context: Context, client: Client, argv: list[bytes]) -> None:
    pair = found(context, (client.database, argv[1]), argv[2])
    if pair is not None:
        demand_acknowledged(*pair, arguments.parse_entry_ids(argv, 3))


def swapping(context: Context, client: Client, argv: list[bytes]) -> None:
    """All streams of both databases, which have few entries or the command is refused."""
    one, other = integer(argv[1]), integer(argv[2])
    if one == other or not (0 <= one < DATABASES and 0 <= other < DATABASES):
        return
    trees = [tree for stream in swapped(context, one, other) for tree in stream.trees.values()]
    demand_blocks([block for tree in trees for block in tree.overlapping(ID_MIN, ID_MAX)])


# What readers of groups do is no effect on the key.
OF_READERS: Final = frozenset(("xreadgroup", "xclaim", "xautoclaim", "xack", "xnack"))
FORESIGHTS: Final[dict[str, Foresight]] = {
    "xadd": adding,
    "xtrim": trimming,
    "xdel": removing,
    "xdelex": removing_some,
    "xackdel": acknowledging,
    "copy": copying,
    "move": copying,
    "rename": copying,
    "renamenx": copying,
    "xclaim": claiming,
    "xautoclaim": autoclaiming,
    "xnack": releasing,
    "swapdb": swapping,
    "xgroup|delconsumer": deleting_consumer,
}
# These ask themselves, unless something has effects before they run.
ASKED_THEN: Final[dict[str, Foresight]] = {"xack": acknowledging_named, "xreadgroup": group_reading}
