"""Removing entries: XDEL, XDELEX, XACKDEL and XTRIM. Each becomes an effect that names what it removed.

Which entries groups need is decided here, by what this region knows (core/streams/references.py): the effect names the
entries that were removed, so that every region removes the same ones. With DELREF it names the IDs too, because what is
pending differs between regions.

Reference: `xdelCommand`, `xdelexCommand`, `xackdelCommand` and `xtrimCommand` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands import arguments
from crdtstream.commands.acknowledging import acknowledge_unread
from crdtstream.commands.adding import TrimOptions, parse_trim
from crdtstream.commands.arguments import ACKED, DELREF, KEEPREF
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.core.effects import CounterRange, Key
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.range_reading import count_through
from crdtstream.core.local_facts import PendingDropped
from crdtstream.core.names.duplicates import acknowledge_lost
from crdtstream.core.streams.references import ids_of, is_needed, oldest_settled, origins_referring
from crdtstream.core.streams.stream import Stream
from crdtstream.core.streams.trimming import trimmable
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, previous_id
from crdtstream.core.values.intervals import IntervalSet
from crdtstream.protocols import replies

# What XDELEX and XACKDEL reply for each ID.
NOT_FOUND = -1
REMOVED = 1
STILL_NEEDED = 2
FATES: Final = {fate: replies.integer(fate) for fate in (NOT_FOUND, REMOVED, STILL_NEEDED)}


def xdel(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[1])
    stream = context.replica.keyspace.find(key)
    if stream is None:
        return replies.ZERO
    removed, _ = remove_ids(context, key, stream, arguments.parse_entry_ids(argv, 2))
    return replies.integer(removed)


def remove_ids(context: Context, key: Key, stream: Stream, ids: list[EntryId]) -> tuple[int, list[EntryId]]:
    """Remove the entries with these ascending IDs and keep references to them; returns how many entries were removed,
    and which IDs lived.
    """
    counters, live = stream.counters_of(ids)
    ranges = {origin: ranges_of(counters[origin]) for origin in sorted(counters)}
    return context.replica.remove_entries(key, ranges, False, max(live, default=None)), live


def highest_of(tree: EntryTree, ranges: list[CounterRange]) -> EntryId:
    """The ID of the last entry with these counters, which the tree holds."""
    entry_id = tree.id_of(ranges[-1][1])
    assert entry_id is not None
    return entry_id


class Removal:
    """The entries that one command removes, on top of the unchanged stream; `ids` are all that it may take, and are
    looked up together.
    """

    __slots__ = ("_alone", "_context", "_counters", "_dots", "_references", "_strategy", "_stream", "_taken")

    def __init__(self, context: Context, stream: Stream, strategy: int, ids: list[EntryId]) -> None:
        self._context = context
        self._stream = stream
        self._strategy = strategy
        self._alone = strategy == ACKED and context.replica.is_alone()
        self._counters: dict[int, list[int]] = {}
        self._dots = stream.dots_of(sorted(dict.fromkeys(ids)))
        self._references: dict[int, IntervalSet] = {}
        self._taken: list[EntryId] = []

    def remove(self, entry_id: EntryId) -> int:
        """Remove this entry if the strategy allows it; returns the number that XDELEX replies."""
        dots = self._dots.get(entry_id)
        if self._strategy == DELREF:
            self._refer(entry_id, dots or [])
        if dots is None:
            return NOT_FOUND
        if self._strategy == ACKED and any(
            is_needed(self._stream, origin, entry_id, self._alone) for origin, _ in dots
        ):
            return STILL_NEEDED
        del self._dots[entry_id]
        self._taken.append(entry_id)
        for origin, counter in dots:
            self._counters.setdefault(origin, []).append(counter)
        return REMOVED

    def _refer(self, entry_id: EntryId, dots: list[Dot]) -> None:
        """Name the pending entries of this ID. Where it lives, other regions may have some that this one does not."""
        below = previous_id(entry_id) or ID_MIN
        for origin in sorted({*[origin for origin, _ in dots], *origins_referring(self._stream, entry_id)}):
            self._references.setdefault(origin, IntervalSet()).add(below, entry_id)

    def commit(self, key: Key) -> int:
        """Prepare the removal; returns how many entries were removed."""
        counters = self._counters
        ranges: dict[int, list[CounterRange]] = {}
        for origin in sorted(counters):
            ranges[origin] = ranges_of(counters[origin])
        references = {origin: self._references[origin].pairs() for origin in sorted(self._references)}
        highest = max(self._taken, default=None)
        return self._context.replica.remove_entries(key, ranges, False, highest, references)


def ranges_of(counters: list[int]) -> list[CounterRange]:
    """Counters as maximal closed ranges, ascending; a counter given twice counts once."""
    ranges: list[CounterRange] = []
    for counter in sorted(counters):
        if ranges and counter <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], counter)
        else:
            ranges.append((counter, counter))
    return ranges


class NamedIds:
    """`[KEEPREF|DELREF|ACKED] IDS n id...`, in any order; of several IDS the last counts. As in Redis, the IDs are
    parsed only once the stream, and the group, are known to exist.
    """

    __slots__ = ("count", "strategy", "texts")

    def __init__(self, argv: list[bytes], at: int) -> None:
        self.strategy: int | None = None
        self.texts: list[bytes] = []
        while at < len(argv):
            word = argv[at].upper()
            if word == b"IDS":
                self.texts = arguments.numbered_texts(argv, at)
                at += 2 + len(self.texts)
            elif self.strategy is None and word in arguments.REFERENCES:
                self.strategy = arguments.REFERENCES[word]
                at += 1
            else:
                raise CommandError(arguments.SYNTAX)
        if not self.texts:
            raise CommandError(arguments.NO_IDS)
        self.count = len(self.texts)

    def ids(self) -> list[EntryId]:
        return arguments.parse_all(self.texts)


def xdelex(context: Context, client: Client, argv: list[bytes]) -> Reply:
    named = NamedIds(argv, 2)
    key = (client.database, argv[1])
    stream = context.replica.keyspace.find(key)
    if stream is None:
        return fates_reply([NOT_FOUND] * named.count)
    ids = named.ids()
    if not named.strategy:
        return fates_reply(fates_of(ids, remove_ids(context, key, stream, arguments.ascending(ids))[1]))
    removal = Removal(context, stream, named.strategy, ids)
    fates = [removal.remove(entry_id) for entry_id in ids]
    removal.commit(key)
    return fates_reply(fates)


def fates_of(ids: list[EntryId], live: list[EntryId]) -> list[int]:
    """What became of each ID, if all that lived were removed: one that is named twice lives only once."""
    left = set(live)
    fates: list[int] = []
    for entry_id in ids:
        if entry_id in left:
            left.remove(entry_id)
            fates.append(REMOVED)
        else:
            fates.append(NOT_FOUND)
    return fates


def fates_reply(fates: list[int]) -> bytes:
    return replies.array([FATES[fate] for fate in fates])


def xackdel(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """All IDs are acknowledged first: an entry may then be one that no group needs."""
    named = NamedIds(argv, 3)
    key = (client.database, argv[1])
    stream = context.replica.keyspace.find(key)
    group = None if stream is None else stream.groups.get(argv[2])
    if stream is None or group is None:
        return fates_reply([NOT_FOUND] * named.count)
    ids = named.ids()
    dropped, pending = group.pending.found(sorted(dict.fromkeys(ids)))
    is_pending = bool(pending)
    if group.rules.exact:
        pending = [*pending, *acknowledge_unread(context, key, argv[2], sorted(dict.fromkeys(ids)))]
    if stream.producers is not None:
        pending = [*pending, *acknowledge_lost(context.replica, key, argv[2], sorted(dict.fromkeys(ids)))]
    held = dict.fromkeys(pending)
    removal = Removal(context, stream, named.strategy or KEEPREF, pending)
    if is_pending:
        context.replica.record(PendingDropped(key, argv[2], dropped))
    fates: list[int] = []
    for entry_id in ids:
        if entry_id not in held:
            fates.append(NOT_FOUND)
            continue
        fate = removal.remove(entry_id)
        fates.append(fate if fate != NOT_FOUND else fate_of_removed(stream, entry_id, named.strategy))
        del held[entry_id]
    removal.commit(key)
    return fates_reply(fates)


def fate_of_removed(stream: Stream, entry_id: EntryId, strategy: int | None) -> int:
    """An entry that was pending and was removed before counts as removed, or, for ACKED, as held by another group."""
    return STILL_NEEDED if strategy == ACKED and origins_referring(stream, entry_id) else REMOVED


# XTRIM


def xtrim(context: Context, client: Client, argv: list[bytes]) -> Reply:
    options = parse_trim(argv)
    return replies.integer(trim(context, (client.database, argv[1]), options))


def trim(context: Context, key: Key, options: TrimOptions) -> int:
    """Trim the stream; returns how many entries were removed."""
    stream = context.replica.keyspace.find(key)
    if stream is None:
        return 0
    surplus = surplus_to_remove(context, stream, options)
    if surplus <= 0:
        return 0
    if options.references == ACKED and stream.groups:
        return trim_settled(context, key, stream, options, surplus)
    ranges = trimmable(stream, stream.length - surplus)
    references = ids_of(stream, ranges) if options.references == DELREF else None
    return context.replica.remove_entries(key, ranges, True, None, references)


def trim_settled(context: Context, key: Key, stream: Stream, options: TrimOptions, surplus: int) -> int:
    """Remove the oldest entries that no group needs, at most `surplus`."""
    end = ID_MAX if options.min_id is None else previous_id(options.min_id)
    ranges, removed = oldest_settled(stream, end or ID_MIN, surplus, context.replica.is_alone())
    if not removed:
        return 0
    highest = max([highest_of(stream.trees[origin], ranges[origin]) for origin in ranges])
    oldest = removed == sum([stream.trees[origin].count_in(ID_MIN, highest) for origin in stream.trees])
    return context.replica.remove_entries(key, ranges, oldest, None)


def surplus_to_remove(context: Context, stream: Stream, options: TrimOptions) -> int:
    """How many of the oldest entries a trim removes, or with ACKED may remove."""
    surplus = surplus_of(stream, options)
    if not options.approximate:
        return surplus
    return whole_nodes(surplus, stream.length, options, context.limits.stream_node_entries_max)


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
        flags="write frees fast",
        keys=keys_at(1, "RW delete"),
        since="5.0.0",
        group="stream",
        summary="Returns the number of messages after removing them from a stream.",
        syntax="key id...",
    ),
    Command(
        "xdelex",
        xdelex,
        arity=-5,
        flags="write frees fast",
        keys=keys_at(1, "RW delete"),
        since="8.2.0",
        group="stream",
        summary="Deletes one or multiple entries from the stream.",
        syntax="key [condition:<KEEPREF | DELREF | ACKED>] IDS ids:(numids# id...)",
    ),
    Command(
        "xackdel",
        xackdel,
        arity=-6,
        flags="write frees fast",
        keys=keys_at(1, "RW update delete"),
        since="8.2.0",
        group="stream",
        summary="Acknowledges and deletes one or multiple messages for a stream consumer group.",
        syntax="key group [condition:<KEEPREF | DELREF | ACKED>] IDS ids:(numids# id...)",
    ),
    Command(
        "xtrim",
        xtrim,
        arity=-4,
        flags="write frees",
        keys=keys_at(1, "RW delete"),
        since="5.0.0",
        group="stream",
        summary="Deletes messages from the beginning of a stream.",
        syntax=(
            "key trim:(strategy:<MAXLEN | MINID@6.2.0> [operator:<= | ~>] threshold [LIMIT count#@6.2.0])"
            " [condition:<KEEPREF | DELREF | ACKED>@8.2.0]"
        ),
    ),
]
