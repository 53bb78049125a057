"""Removing entries: XDEL and XTRIM. Either becomes an effect that names what it removed.

Reference: `xdelCommand` and `xtrimCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.clients.client import Client
from crdtstream.clients.command import Command, keys_at
from crdtstream.clients.context import Context, Reply
from crdtstream.commands import arguments
from crdtstream.commands.adding import TrimOptions, parse_trim
from crdtstream.core.effects import CounterRange, Key
from crdtstream.core.entry_id import ID_MIN, previous_id
from crdtstream.core.strands import count_through
from crdtstream.core.stream import Stream
from crdtstream.protocols import replies


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
    options = parse_trim(argv)
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


COMMANDS: list[Command] = [
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
]
