"""Which spilled blocks (core/entries/spilled.py) a batch of another origin will open, or an effect that is prepared
here, known before anything changes.

Adds open none, because the last block of a tree is in memory. These effects do:

    EntriesRemoved    in each tree the blocks in which its ranges begin or end, and the one that becomes the last
    StreamDeleted     in each tree the block up to which its context reaches, if entries behind that stay
    Acknowledged      in a key with names, the blocks in which its runs may hold a named entry

Blocks that are removed as a whole are not opened, and what earlier effects of the batch made is in memory. A removal
is looked at together with those before it in its batch, because they may leave another block as the last one.
"""

from __future__ import annotations

from crdtstream.core import effects as fx
from crdtstream.core.applying import Applied
from crdtstream.core.effects import Batch, CounterRange, Effect, Key
from crdtstream.core.entries.block import Block, demand_blocks
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.runs import exact_runs, limit_without, runs_below
from crdtstream.core.names.acknowledging import demand_runs, named_blocks
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import ID_MAX, EntryId, id_below, next_id
from crdtstream.core.values.intervals import Interval, IntervalSet


def demanded_by(batch: Batch, applied: Applied) -> list[Block]:
    """The spilled blocks that applying this batch opens; opens none."""
    foresight = BatchForesight(batch, applied)
    for at, effect in enumerate(batch.effects):
        foresight.look(effect, at)
    return list(foresight.blocks)


class BatchForesight:
    """What is known so far of one batch; a dictionary has each block once, in an order that no hash decides."""

    __slots__ = ("_applied", "_batch", "_ended", "_removed", "blocks")

    def __init__(self, batch: Batch, applied: Applied) -> None:
        self.blocks: dict[Block, None] = {}
        self._batch = batch
        self._applied = applied
        # What effects so far remove of each tree, and the trees of which that reaches the last block.
        self._removed: dict[tuple[Key, int], list[CounterRange]] = {}
        self._ended: set[tuple[Key, int]] = set()

    def look(self, effect: Effect, at: int) -> None:
        if not isinstance(effect, (fx.EntriesRemoved, fx.StreamDeleted, fx.Acknowledged)):
            return
        stream = self._applied.keyspace.databases[effect.key[0]].get(effect.key[1])
        if stream is None:
            return
        if isinstance(effect, fx.Acknowledged):
            self._add(named_blocks(stream, effect.runs))
        elif isinstance(effect, fx.EntriesRemoved):
            for origin, pieces in effect.ranges.items():
                self._look_at_removal(effect.key, stream, origin, pieces)
        else:
            self._look_at_deletion(effect.key, stream, at)

    def _look_at_removal(self, key: Key, stream: Stream, origin: int, pieces: list[CounterRange]) -> None:
        tree = stream.trees.get(origin)
        if tree is None or not pieces:
            return
        place = (key, origin)
        removed = self._removed.setdefault(place, [])
        removed += pieces
        if place in self._ended or pieces[-1][1] >= tree.tail.counter_at(0):
            # Another block may become the last one, and that depends on all that was removed before.
            self._ended.add(place)
            pieces = sorted(removed)
        self._add(tree.spilled_at_ends(pieces))

    def _look_at_deletion(self, key: Key, stream: Stream, at: int) -> None:
        context = self._context_at(at)
        for origin, tree in stream.trees.items():
            covered = context.get(origin)
            if 0 < covered < tree.last_counter():
                self._look_at_removal(key, stream, origin, [(0, covered)])

    def _context_at(self, at: int) -> VersionVector:
        """What the origin had seen before this effect."""
        batch, known = self._batch, self._applied.contexts.get(self._batch.origin)
        context = VersionVector() if known is None else known.copy()
        context.merge(batch.context)
        context.advance(batch.origin, batch.first - 1 + sum([effect.width for effect in batch.effects[:at]]))
        return context

    def _add(self, blocks: list[Block]) -> None:
        for block in blocks:
            self.blocks[block] = None


def foresee_removal(replica: Replica, key: Key, ranges: dict[int, list[CounterRange]]) -> None:
    """Have the blocks read that removing these counters here will open."""
    stream = replica.keyspace.known(key)
    if stream is None or not replica.reads.may_wait:
        return
    blocks: list[Block] = []
    for origin, pieces in ranges.items():
        tree = stream.trees.get(origin)
        blocks += [] if tree is None else tree.spilled_at_ends(pieces)
    demand_blocks(blocks)
    foresee_runs(replica, key)


def foresee_dropped(stream: Stream, group: Group, gone: set[EntryId]) -> None:
    """Have the blocks read that new runs of a group open once these are no longer pending: those in which the runs end,
    and those of named entries in them.
    """
    for origin, tree in stream.trees.items():
        delivered = group.delivered.get(origin)
        if delivered is None or not tree.count:
            continue
        first = next((one for one in group.pending.ids(origin, None) if one not in gone), ID_MAX)
        demand_blocks(tree.spilled_with(sorted([*[high for _, high in delivered.pairs()], first])))
        limit = limit_without(tree, group.pending, gone)
        runs = runs_below(tree, delivered, group.acked.get(origin), limit)
        if group.rules.exact:
            runs += exact_runs_without(tree, delivered, group, gone)
        demand_blocks(named_blocks(stream, {origin: runs}))


def exact_runs_without(tree: EntryTree, delivered: IntervalSet, group: Group, gone: set[EntryId]) -> list[Interval]:
    """The exact runs of a tree once these are no longer pending; the blocks in which they may end are read together."""
    acknowledged, pending = group.acknowledged_exactly(tree.origin), group.pending
    acknowledged.union(IntervalSet.of([(id_below(one), one) for one in sorted(gone) if delivered.contains(one)]))
    ends: set[EntryId] = set()
    for low, high in acknowledged.pairs():
        ends.update((low, high))
        for one in zip(*pending.columns_within(tree.origin, next_id(low) or ID_MAX, high), strict=True):
            ends.update((id_below(one), one))
    demand_blocks(tree.spilled_with(sorted(ends)))
    return exact_runs(tree, delivered, acknowledged, group.acked.get(tree.origin), pending, gone)


def acknowledge_together(replica: Replica, keys: list[Key]) -> None:
    """Prepare the new runs of these keys, once the blocks of all of them are read."""
    for key in keys if len(keys) > 1 else ():
        foresee_runs(replica, key)
    for key in keys:
        replica.acknowledge_key(key)


def foresee_runs(replica: Replica, key: Key) -> None:
    """Have the blocks read for the runs that are prepared before any other effect on this key."""
    if replica.reads.may_wait:
        names = [name for one, name in replica.changed.dirty if one == key]
        demand_runs(replica.keyspace.known(key), names, replica.exact_intervals_max)
