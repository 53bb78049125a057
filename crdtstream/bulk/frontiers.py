"""Acknowledgement frontiers of groups, and acknowledging entries by position instead of one by one.

A program that keeps its own position in a stream can report it to a group. Entries up to a seq of their origin then
count as delivered to a consumer without ever being pending, and pending entries up to there are removed. This produces
runs like any acknowledgement, so it reaches the other regions. Runs use IDs and positions use seqs; both ascend within
an origin.
"""

from __future__ import annotations

from typing import Final

from crdtstream.bulk.errors import INVALID_ARGUMENT, NOT_FOUND, BulkError, require_writable
from crdtstream.bulk.heads import heads_of, removed_through, tree_of
from crdtstream.connections.context import Context, shown
from crdtstream.core.effects import UNKNOWN_ENTRIES_READ, Key, Position
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.delivery import Delivery
from crdtstream.core.groups.group import Group
from crdtstream.core.lag import entries_read_after
from crdtstream.core.local_facts import EntriesDelivered, PendingDropped
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.batch_budget import name_excess
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, next_id, previous_id
from crdtstream.core.values.intervals import Interval, IntervalSet
from crdtstream.core.values.origin_intervals import OriginIntervals

STEP_ENTRIES: Final = 2_000


# Frontiers


class Frontier:
    """One group of one stream: for each origin the highest seq up to which nothing remains to be acknowledged."""

    __slots__ = ("acknowledged", "group", "key", "pending")

    def __init__(self, context: Context, key: Key, name: bytes, group: Group) -> None:
        stream = context.replica.keyspace.peek(key)
        self.key = key
        self.group = name
        self.pending = group.pending.count
        heads = heads_of(context, key)
        self.acknowledged = [(one.origin, frontier_of(stream, group, one.origin, one.head)) for one in heads]


def frontiers_of(context: Context, key: Key) -> list[Frontier]:
    stream = context.replica.keyspace.peek(key)
    groups = {} if stream is None else stream.groups
    return [Frontier(context, key, name, groups[name]) for name in sorted(groups)]


def frontier_of(stream: Stream | None, group: Group, origin: int, head: int) -> int:
    """Return the seq before the first live entry after the group's start that is in no run, or the head if there is
    none.
    """
    tree = tree_of(stream, origin)
    acked = group.acked.get(origin)
    entry_id = group.start().get(origin)
    while True:
        # The next live entry after the start, or after the run that was stepped over.
        above = tree.slices(next_id(entry_id) or ID_MAX, ID_MAX, 1, False)
        if not above or entry_id == ID_MAX:
            return head
        block, index = above[0].block, above[0].low
        first = block.id_at(index)
        if acked is None or not acked.contains(first):
            return block.counter_at(index) - 1
        entry_id = acked.end_from(first)


# Advancing


class Advancing:
    """One call that acknowledges up to a position, in steps.

    `removed` has the origins of which entries above the position were removed together, with their stream or by a trim:
    the caller cannot read them any more. It holds the seq up to which they were removed.
    """

    __slots__ = ("_consumer", "_group", "_left", "entries", "removed")

    def __init__(self, group: bytes, consumer: bytes, positions: dict[Key, dict[int, int]]) -> None:
        if not group or not consumer:
            raise BulkError(INVALID_ARGUMENT, "group or consumer is empty: name both")
        self._group = group
        self._consumer = consumer
        wanted = [(key, origin, seq) for key, seqs in positions.items() for origin, seq in seqs.items()]
        self._left = sorted(wanted, reverse=True)
        self.entries = 0
        self.removed: dict[Key, dict[int, int]] = {}

    def missing(self, context: Context) -> list[Key]:
        """Return the existing streams that lack the group."""
        keys = sorted({key for key, _, _ in self._left})
        streams = [(key, context.replica.keyspace.find(key)) for key in keys]
        return [key for key, stream in streams if stream is not None and self._group not in stream.groups]

    def create(self, context: Context) -> bool:
        """Create the missing groups, from the beginning; False while this region may not create any."""
        require_writable(context)
        keys = self.missing(context)
        if keys:
            self._require_names(context, keys)
        admission = context.cluster.admission
        if keys and admission is not None:
            if not admission.admitted:
                admission.want()
                return False
            admission.say_admitted()
        for key in keys:
            # Names within their bound fit into a batch that is not large.
            context.replica.budget.ease()
            context.replica.create_group(key, self._group, Position(ID_MIN), UNKNOWN_ENTRIES_READ)
        return True

    def _require_names(self, context: Context, keys: list[Key]) -> None:
        budget = context.replica.budget
        for what, name in [("group", self._group), *[("key", key[1]) for key in keys]]:
            fault = name_excess(budget, what, name)
            if fault:
                raise BulkError(INVALID_ARGUMENT, fault)

    def step(self, context: Context) -> bool:
        """Acknowledge the next entries; False when nothing remains."""
        require_writable(context)
        if not self._left:
            return False
        key, origin, seq = self._left[-1]
        stream = context.replica.keyspace.find(key)
        group = None if stream is None else stream.groups.get(self._group)
        if stream is not None and group is None:
            names = f"consumer group '{shown(self._group)}' for key name '{shown(key[1])}'"
            raise BulkError(NOT_FOUND, f"no such {names}: create it, or set `create`")
        if stream is None or group is None or not self._acknowledge(context, stream, group, key, origin, seq):
            self._left.pop()
            self._record_removed(context, key, origin, seq)
        return bool(self._left)

    def _record_removed(self, context: Context, key: Key, origin: int, seq: int) -> None:
        removed = removed_through(context, key, origin)
        if removed > seq:
            self.removed.setdefault(key, {})[origin] = removed

    def _acknowledge(self, context: Context, stream: Stream, group: Group, key: Key, origin: int, seq: int) -> bool:
        """Acknowledge at most `STEP_ENTRIES` entries of one origin; False when none remains."""
        tree = tree_of(stream, origin)
        low = first_left(tree, group, origin)
        parts = tree.slices_between(tree.counter_of(low), seq, STEP_ENTRIES) if low is not None else []
        if not parts:
            self._drop(context, group, key, origin, settled_id(stream, origin, seq))
            return False
        high = parts[-1].block.id_at(parts[-1].high - 1)
        self._deliver(context, stream, group, key, origin, high)
        self._drop(context, group, key, origin, high)
        return True

    def _deliver(self, context: Context, stream: Stream, group: Group, key: Key, origin: int, high: EntryId) -> None:
        """Deliver to the consumer, as acknowledged, entries that were neither acknowledged nor delivered here."""
        tree = stream.trees[origin]
        pieces = [piece for piece in left_of(group, origin, high) if tree.count_in(above(piece), piece[1])]
        if not pieces:
            return
        count = sum([tree.count_in(above(piece), piece[1]) for piece in pieces])
        intervals = OriginIntervals.of({origin: pieces})
        read = entries_read_after(stream, group, Delivery(wanted_in(tree, group, origin, pieces), [], intervals, []))
        now_ms = context.now_ms
        fact = EntriesDelivered(key, self._group, self._consumer, now_ms, intervals, True, read)
        context.replica.record(fact)
        self.entries += count

    def _drop(self, context: Context, group: Group, key: Key, origin: int, high: EntryId) -> None:
        """Remove pending entries of any consumer up to this ID."""
        first, last = group.pending.first(origin), group.pending.last(origin)
        if first is None or last is None or first > high:
            return
        before = group.pending.count
        piece = OriginIntervals(origin, previous_id(first) or ID_MIN, min(last, high))
        context.replica.record(PendingDropped(key, self._group, piece))
        self.entries += before - group.pending.count


def above(piece: Interval) -> EntryId:
    return next_id(piece[0]) or ID_MAX


def settled_id(stream: Stream, origin: int, seq: int) -> EntryId:
    """Return an ID such that pending entries of this origin at or below it, including deleted ones, are at or below the
    seq.
    """
    meta = stream.metas.get(origin)
    if meta is not None and 0 < meta.add_counter <= seq:
        return meta.add_id
    tree = tree_of(stream, origin)
    beyond = tree.first_above(seq)
    below = tree.slices(ID_MIN, ID_MAX if beyond is None else previous_id(beyond) or ID_MIN, 1, True)
    return below[0].block.id_at(below[0].low) if below else ID_MIN


def left_of(group: Group, origin: int, high: EntryId) -> list[Interval]:
    """Return the parts of an origin, after the group's start and up to an ID, that are covered by no delivery here and
    by no run that counts here. Entries that were skipped without an acknowledgement (by SETID, or because their
    consumer was deleted) are included.
    """
    covered = IntervalSet()
    delivered, acked, replay = group.delivered.get(origin), group.acked.get(origin), group.replay.get(origin)
    if delivered is not None:
        covered.union(delivered)
    if acked is not None:
        covered.union(acked if replay is None else acked.minus(replay))
    low = min(group.floor.get(origin), group.start().get(origin))
    return covered.gaps(low, high) if low < high else []


def wanted_in(tree: EntryTree, group: Group, origin: int, pieces: list[Interval]) -> int:
    """Count the entries of these pieces that a reader would still receive: entries-read already counts the others."""
    passed, floor = group.passed.get(origin) or IntervalSet(), group.floor.get(origin)
    wanted = [gap for low, high in pieces for gap in passed.gaps(max(low, floor), high)]
    return sum([tree.count_in(above(gap), gap[1]) for gap in wanted])


def first_left(tree: EntryTree, group: Group, origin: int) -> EntryId | None:
    """Return the first live entry that is pending, or neither acknowledged nor delivered here."""
    last = tree.last_id()
    if last is None:
        return None
    found: list[EntryId] = []
    for piece in left_of(group, origin, last):
        first = tree.slices(above(piece), piece[1], 1, False)
        if first:
            found.append(first[0].block.id_at(first[0].low))
            break
    pending = group.pending.first(origin)
    if pending is not None:
        first = tree.slices(pending, ID_MAX, 1, False)
        if first:
            found.append(first[0].block.id_at(first[0].low))
    return min(found, default=None)
