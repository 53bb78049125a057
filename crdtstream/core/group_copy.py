"""Group copies: what COPY, MOVE and SWAPDB copy beside the entries of a stream, its groups and its producer records.

The entries of a copy belong to one origin, whatever origins wrote the source (core/streams/stream_copy.py). So the sets
of IDs that a group keeps for each origin become one set: an entry's ID is in it if it was under the origin that wrote
the entry, and an ID that no entry has if it was under any origin.

    copied to all regions    the properties, the start; what the start or a run passes, as runs under the new create
    copied in this region    floor, delivered, skipped, replay; consumers, pending entries, producer records

A group of the copy is created by an effect, so it is ended by a DEL or DESTROY of its name that another region makes
concurrently. What another region's readers hold, or have acknowledged without a run that has arrived, is not known
here, so it is delivered again.
"""

from __future__ import annotations

from crdtstream.core.effects import Key, Position
from crdtstream.core.entries.merging import merge
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pending import PendingRow
from crdtstream.core.groups.properties import lasting_values
from crdtstream.core.local_facts import (
    ConsumerCreated,
    EntriesDelivered,
    PendingClaimed,
    PlaceSet,
    ProducerRecorded,
    ProducersConfigured,
)
from crdtstream.core.names.producers import Producers
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.streams.stream_copy import copy_stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, previous_id
from crdtstream.core.values.intervals import Interval, IntervalSet
from crdtstream.core.values.origin_intervals import NOTHING

Sets = dict[int, IntervalSet]


class EntryRun:
    """Consecutive entries of one origin: its first and last ID, and the last ID before it (0-0: none)."""

    __slots__ = ("before", "first", "last", "origin")

    def __init__(self, origin: int, before: EntryId, first: EntryId, last: EntryId) -> None:
        self.origin = origin
        self.before = before
        self.first = first
        self.last = last


class GroupCopy:
    """A group by IDs alone. `start` and `floor` are of the copy's origin, and their defaults of all others."""

    __slots__ = (
        "consumers",
        "delivered",
        "entries_read",
        "floor",
        "floor_default",
        "name",
        "pending",
        "properties",
        "replay",
        "settled",
        "skipped",
        "start",
        "start_default",
    )

    def __init__(self, name: bytes, stream: Stream, group: Group, pieces: list[EntryRun]) -> None:
        start = group.start()
        self.name = name
        self.start, self.start_default = position_in(pieces, start), start.default
        self.floor, self.floor_default = position_in(pieces, group.floor), group.floor.default
        self.settled = settled_above(self.start, pieces, start, group)
        self.delivered = gathered(pieces, group.delivered.as_dict())
        self.skipped = skipped_of(pieces, group, self.floor).minus(self.delivered)
        self.replay = gathered(pieces, group.replay)
        self.entries_read = entries_read_of(stream, group)
        self.consumers = [(one, known.seen_ms, known.active_ms) for one, known in group.consumers.items()]
        self.pending = pending_of(group)
        self.properties = lasting_values(group.properties)


class GroupCopies:
    """What is copied of a stream apart from its entries; read before the stream changes."""

    __slots__ = ("groups", "producers")

    def __init__(self, stream: Stream) -> None:
        pieces = pieces_of(stream) if stream.groups else []
        self.groups = [GroupCopy(name, stream, group, pieces) for name, group in sorted(stream.groups.items())]
        self.producers = stream.producers


def copy_whole(replica: Replica, source: Stream, target: Key) -> None:
    """Copy `source` with all that belongs to it to the key `target`, which names another stream."""
    copies = GroupCopies(source)
    copy_stream(replica, source, target)
    put(replica, target, copies)


# Sets of IDs


def pieces_of(stream: Stream) -> list[EntryRun]:
    pieces: list[EntryRun] = []
    before = ID_MIN
    for run in merge(stream.chain_ranges(ID_MIN, ID_MAX, -1, False), -1):
        last = run.block.id_at(run.high - 1)
        # Of duplicates the first counts, as for the copy.
        if last > before:
            pieces.append(EntryRun(run.origin, before, run.block.id_at(run.low), last))
            before = last
    return pieces


def gathered(pieces: list[EntryRun], sets: Sets) -> IntervalSet:
    """The sets of all origins as one."""
    found = IntervalSet()
    for piece in pieces:
        below = previous_id(piece.first) or ID_MIN
        add_between(found, sets, piece.before, below)
        known = sets.get(piece.origin)
        for low, high in [] if known is None else known.pieces(below, piece.last):
            found.add(piece.before if low == below else low, high)
    add_between(found, sets, pieces[-1].last if pieces else ID_MIN, ID_MAX)
    return found


def add_between(found: IntervalSet, sets: Sets, low: EntryId, high: EntryId) -> None:
    """Add what any origin has of an interval without entries."""
    for known in sets.values():
        for start, end in known.pieces(low, high):
            found.add(start, end)


def position_in(pieces: list[EntryRun], position: Position) -> EntryId:
    """The highest ID of the position such that no entry up to there lies above its origin's ID."""
    highest = max([position.default, *position.ids.values()])
    for piece in pieces:
        reached = position.get(piece.origin)
        if reached < piece.last:
            return min(highest, max(reached, previous_id(piece.first) or ID_MIN))
    return highest


def through(pieces: list[EntryRun], position: Position) -> Sets:
    """What lies at or below the position, of the origins that have entries."""
    return {piece.origin: IntervalSet.of([(ID_MIN, position.get(piece.origin))]) for piece in pieces}


def settled_above(start: EntryId, pieces: list[EntryRun], position: Position, group: Group) -> IntervalSet:
    """What no region has to deliver any more, above the start and up to the last entry."""
    sets = through(pieces, position)
    for origin, known in sets.items():
        known.union(group.acked.get(origin, IntervalSet()))
    last = pieces[-1].last if pieces else ID_MIN
    return IntervalSet.of(gathered(pieces, sets).pieces(start, last))


def skipped_of(pieces: list[EntryRun], group: Group, floor: EntryId) -> IntervalSet:
    """What this region passes over: what it skipped, and what its origin's floor passes above the common one."""
    skipped = gathered(pieces, group.skipped)
    last = pieces[-1].last if pieces else ID_MIN
    for low, high in gathered(pieces, through(pieces, group.floor)).pieces(floor, last):
        skipped.add(low, high)
    return skipped


def entries_read_of(stream: Stream, group: Group) -> int:
    """The counter, which one origin's entries make right; those of several are counted."""
    if stream.writers > 1:
        return max(stream.entries_added() - group.wanted_count(stream.chains), 0)
    return group.entries_read


def pending_of(group: Group) -> list[PendingRow]:
    """The pending entries in ID order, of those with one ID the first."""
    found: list[PendingRow] = []
    for row in group.pending.rows(ID_MIN, ID_MAX, -1, None):
        if not found or found[-1].entry_id != row.entry_id:
            found.append(row)
    return found


# Putting down


def put(replica: Replica, key: Key, copies: GroupCopies) -> None:
    """Give the copy at `key`, which has no groups, these copies."""
    for group in copies.groups:
        put_group(replica, key, group)
    if copies.producers is not None:
        put_producers(replica, key, copies.producers)


def put_group(replica: Replica, key: Key, copy: GroupCopy) -> None:
    origin = replica.applied.origin
    start = Position(copy.start_default, {origin: copy.start})
    replica.create_group(key, copy.name, start, copy.entries_read)
    if copy.properties:
        replica.set_properties(key, copy.name, copy.properties)
    replica.prepare_runs(key, copy.name, of_origin(origin, copy.settled))
    floor = Position(copy.floor_default, {origin: copy.floor})
    sets = [of_origin(origin, known) for known in (copy.delivered, copy.skipped, copy.replay)]
    replica.record(PlaceSet(key, copy.name, floor, sets[0], sets[1], sets[2], copy.entries_read))
    put_consumers(replica, key, copy.name, copy.consumers, copy.pending)


def of_origin(origin: int, known: IntervalSet) -> dict[int, list[Interval]]:
    return {origin: known.pairs()} if known else {}


def put_consumers(
    replica: Replica, key: Key, name: bytes, consumers: list[tuple[bytes, int, int]], pending: list[PendingRow]
) -> None:
    """Give a group consumers, each with when it was seen and active (-1: never), and pending entries of this origin."""
    stream = replica.keyspace.known(key)
    assert stream is not None, "consumers for a key that does not exist"
    entries_read, origin = stream.groups[name].entries_read, replica.applied.origin
    for consumer, seen_ms, active_ms in consumers:
        if active_ms >= 0:
            # A delivery of nothing says when the consumer was active.
            replica.record(EntriesDelivered(key, name, consumer, active_ms, NOTHING, False, entries_read))
        replica.record(ConsumerCreated(key, name, consumer, seen_ms))
    held: dict[bytes, list[tuple[int, EntryId, int, int]]] = {}
    for row in pending:
        held.setdefault(row.consumer, []).append((origin, row.entry_id, row.delivered_ms, row.deliveries))
    for consumer, rows in held.items():
        replica.record(PendingClaimed(key, name, consumer, rows))


def put_producers(replica: Replica, key: Key, producers: Producers) -> None:
    """The records with the times at which they were made; none has expired then."""
    replica.record(ProducersConfigured(key, producers.duration_s, producers.entries_max))
    rows = producers.rows()
    for producer, name, entry_id, at_ms in rows:
        fact = ProducerRecorded(key, producer, name, entry_id, at_ms, -1, len(rows))
        replica.record(fact)
    stream = replica.keyspace.known(key)
    assert stream is not None and stream.producers is not None, "the copy does not exist"
    stream.producers.added, stream.producers.duplicates = producers.added, producers.duplicates
