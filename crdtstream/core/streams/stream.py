"""One stream: the merged view of one entry tree for each origin, its metadata and its groups.

Order is `(ID, origin)`. An entry needs no tombstone: a counter that the vector covers and the tree lacks was removed.

Metadata is kept for each origin in registers, each with the counter of the effect that set it, so that a DEL can void
exactly what its context covers: the ID of the last add, of the last XSETID and of the highest entry removed by XDEL,
and an offset of entries-added. Adds are counted in a *count*, named by its `first` counter, until a DEL has voided the
whole count. A DEL carries the counts it saw, and `voided` is the highest of these, because concurrent DELs that saw
overlapping adds must not subtract them twice. A count that is voided as a whole may be forgotten, so an add says how
many adds came before it in its count: a region that does not know those infers that they were voided. A key exists
while it has an entry, a group, or a count with `added > voided`; the last condition is equivalent to: no DEL covers the
dot of the count's last add.

An expiry is also a register, but setting it replaces other origins' expiries that the context covers: see
core/streams/expiry.py. It does not keep a key alive. It may outlive the key, if a DEL that did not see it removed the
rest; a write that recreates the key voids it first. So do properties: see core/streams/properties.py.

Group tombstones: a create survives only if its context covers every destroy of that group and every DEL of that key;
for each origin the highest counter stands for all of them.

Reference: ORSWOT (Bieniusa et al., 2012) for the entries; remove-wins sets for the groups.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.effects import CounterRange, Position
from crdtstream.core.entries.block import Block, demand_blocks
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.merging import ChainRange
from crdtstream.core.entries.range_reading import (
    add_dots,
    chain_ranges_of,
    held_in,
    read_chain_ranges,
)
from crdtstream.core.entries.seen import Counters, SeenEntries
from crdtstream.core.groups.group import Group
from crdtstream.core.names.producers import Producers
from crdtstream.core.streams.expiry import NO_EXPIRY, VOID_EXPIRY
from crdtstream.core.streams.origin_meta import OriginMeta
from crdtstream.core.streams.properties import StreamProperties, without_voided
from crdtstream.core.values.by_origin import ByOrigin
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.chain import Chains
from crdtstream.core.values.entry_id import ID_MIN, EntryId
from crdtstream.core.values.intervals import Interval
from crdtstream.core.values.origin_intervals import OriginIntervals

# What most streams have none of. All of them share these, which stay empty: a stream that gets one makes its own.
_NO_GROUPS: Final[dict[bytes, Group]] = {}
_NO_DESTROYED: Final[dict[bytes, dict[int, int]]] = {}
_NO_DELETED: Final[dict[int, int]] = {}
_NO_EXPIRING: Final[dict[int, OriginMeta]] = {}


class Stream:
    """The state of one key, which may no longer exist (see `exists()`).

    Derived from the rest: `length`, `top` (the last ID), `expires_ms`, `chains` (the trees in reading order), `writers`
    (how many origins have adds that are not all voided), the offset and the max-deleted ID. `used_ms` is when a
    local command last used the stream; it is never logged and not part of any compared state.
    """

    __slots__ = (
        "_counters",
        "_expiring",
        "_offset",
        "_removed_top",
        "chains",
        "deleted",
        "destroyed",
        "expires_ms",
        "groups",
        "length",
        "metas",
        "producers",
        "properties",
        "top",
        "trees",
        "used_ms",
        "writers",
    )

    def __init__(self) -> None:
        self.trees = ByOrigin(EntryTree)
        self.chains: Chains[EntryTree] = Chains()
        self.metas = ByOrigin(OriginMeta)
        self.groups = _NO_GROUPS
        self.destroyed = _NO_DESTROYED
        self.deleted = _NO_DELETED
        self.length = 0
        self.writers = 0
        self.top: EntryId = ID_MIN
        self._removed_top: EntryId = ID_MIN
        self._offset = 0
        self._expiring = _NO_EXPIRING
        self.expires_ms = NO_EXPIRY
        self.used_ms = 0
        self._counters: Counters | None = None
        # None if nobody ever added idempotently here.
        self.producers: Producers | None = None
        # None if none is set.
        self.properties: StreamProperties | None = None

    # Reading

    def exists(self) -> bool:
        return bool(self.length > 0 or self.groups or self.writers)

    def is_hidden(self, now_ms: int) -> bool:
        """True if the key has expired and waits for its deletion."""
        return bool(self._expiring) and self.expires_ms < now_ms

    def entries_added(self) -> int:
        return sum([meta.added - meta.voided for meta in self.metas.values()]) + self._offset

    def offset(self) -> int:
        """The offset of entries-added: of the explicit ENTRIESADDED, the one with the largest context, then origin."""
        return self._offset

    def max_deleted(self) -> EntryId:
        return self._removed_top

    def expiries(self) -> list[tuple[int, int, int]]:
        """The current expiries as (expires_ms, origin, counter), ascending: the winner is last."""
        return sorted([(meta.expires_ms, origin, meta.expiry_counter) for origin, meta in self._expiring.items()])

    def only_writer(self) -> int:
        """The one origin whose adds are not all voided."""
        (origin,) = [origin for origin, meta in self.metas.items() if meta.add_counter]
        return origin

    def first_id(self) -> EntryId | None:
        if len(self.chains.all) == 1:
            return self.chains.all[0].extents[0].first_id()
        ids = [chain.extents[0].first_id() for chain in self.chains.all]
        return min([entry_id for entry_id in ids if entry_id is not None], default=None)

    def first_entry(self) -> tuple[EntryId, bytes] | None:
        return self._entry_at(self.first_id(), False)

    def last_entry(self) -> tuple[EntryId, bytes] | None:
        ids = [chain.extents[-1].last_id() for chain in self.chains.all]
        return self._entry_at(max([entry_id for entry_id in ids if entry_id is not None], default=None), True)

    def _entry_at(self, entry_id: EntryId | None, reverse: bool) -> tuple[EntryId, bytes] | None:
        if entry_id is None:
            return None
        return entry_id, b"".join(self.range(entry_id, entry_id, 1, reverse)[1])

    def range(self, start: EntryId, end: EntryId, count: int, reverse: bool) -> tuple[int, list[bytes]]:
        """The number of entries in [start, end] (both closed), at most `count` (all if negative), and their RESP
        bytes.
        """
        return read_chain_ranges(self.chain_ranges(start, end, count, reverse), count, reverse)

    def chain_ranges(self, start: EntryId, end: EntryId, count: int, reverse: bool) -> list[ChainRange]:
        """What each chain has of a range, at most `count` entries each; chains without any are left out."""
        return chain_ranges_of(self.chains, start, end, count, reverse)

    def added_since(self, seen: SeenEntries, count: int) -> tuple[int, list[bytes]]:
        """The entries that arrived after `seen` was taken, at most `count` (all if negative)."""
        return read_chain_ranges(seen.since(self.chains, count), count, False)

    def seen(self) -> SeenEntries:
        """What a blocked `XREAD $` has seen so far."""
        if self._counters is None or self._counters.placed != self.chains.placed:
            self._counters = Counters(self.chains)
        return SeenEntries(self.chains, self._counters)

    def origins_holding(self, entry_id: EntryId) -> list[int]:
        """The origins that hold a live entry with this ID: at most one, unless there are duplicates."""
        return [tree.origin for tree in self.chains.holding(entry_id) if tree.counter_of(entry_id)]

    def holds(self, origin: int, entry_id: EntryId) -> bool:
        """True if the entry with this ID of this origin lives."""
        return origin in self.trees and self.trees[origin].counter_of(entry_id) > 0

    def dots_of(self, ids: list[EntryId]) -> dict[EntryId, list[Dot]]:
        """Those of these ascending IDs that live here, each with its dots: one, unless there are duplicates."""
        found: dict[EntryId, list[Dot]] = {}
        for chain in self.chains.all:
            add_dots(chain, ids, found)
        if len(self.chains.all) > 1:
            for dots in found.values():
                dots.sort()
        return found

    def counters_of(self, ids: list[EntryId]) -> tuple[dict[int, list[int]], list[EntryId]]:
        """Those of these ascending IDs that live here: the counters of their dots for each origin, and the IDs, one for
        each dot.
        """
        counters: dict[int, list[int]] = {}
        live: list[EntryId] = []
        for chain in self.chains.all:
            for tree, some, found in held_in(chain, ids):
                if 0 in found:
                    some = [entry_id for entry_id, counter in zip(some, found, strict=True) if counter]
                    found = [counter for counter in found if counter]
                if found:
                    counters[tree.origin] = found
                    live += some
        return counters, live

    def demand(self, ids: list[EntryId]) -> None:
        """Have the spilled blocks that may hold these ascending IDs read together."""
        demand_blocks([block for tree in self.trees.values() for block in tree.spilled_with(ids)])

    def seen_position(self) -> Position:
        """`$`: the last add that this region has seen of each origin; an origin not yet seen starts at 0."""
        return Position(
            ID_MIN, {origin: meta.add_id for origin, meta in sorted(self.metas.items()) if meta.add_counter}
        )

    # Effects

    def record_added(
        self, origin: int, tree: EntryTree, meta: OriginMeta, last_counter: int, last_id: EntryId, count: int
    ) -> None:
        """Update length, last ID and chains after adds whose entries are in the tree and whose count is updated."""
        if not tree.tip:
            self.chains.record_grown(origin, tree)
        if not meta.add_counter:
            self.writers += 1
        meta.add_counter = last_counter
        meta.add_id = last_id
        self.length += count
        # Compared component by component: compiled, a tuple comparison would cost as much as the rest of this method.
        ms, seq = last_id
        top_ms, top_seq = self.top
        if ms > top_ms or (ms == top_ms and seq > top_seq):
            self.top = last_id

    def apply_added(
        self, origin: int, counter: int, first: int, before: int, block: Block, low: int, high: int
    ) -> None:
        """Link another origin's block; `counter` is the effect's first counter."""
        count = high - low
        tree, meta = self.trees.of(origin), self.metas.of(origin)
        tree.link(block, low, high)
        last_id, before_id = block.id_at(high - 1), meta.add_id
        meta.count(first, before, count)
        self.record_added(origin, tree, meta, counter + count - 1, last_id, count)
        # Only an unsound origin lowers its own register; then the maximum must be recomputed.
        if meta.add_id < before_id:
            self.choose_registers()

    def apply_add_counted(self, origin: int, counter: int, first: int, before: int) -> None:
        meta = self.metas.of(origin)
        meta.count(first, before, 1)
        if not meta.add_counter:
            self.writers += 1
        meta.add_counter = counter

    def apply_removed(
        self,
        origin: int,
        counter: int,
        ranges: dict[int, list[CounterRange]],
        trimmed: bool,
        max_deleted: EntryId | None,
    ) -> None:
        for holder, pieces in ranges.items():
            self._remove_counters(holder, pieces)
            if trimmed and pieces:
                self.metas.of(holder).record_removed(pieces[-1][1])
        if max_deleted is not None:
            self._remove_register(origin, counter, max_deleted)

    def drop_references(self, origin: int, counter: int, references: dict[int, list[Interval]]) -> None:
        """Remove the pending entries with these IDs from all groups; the dot is that of the removal."""
        meta = self.metas.of(origin)
        meta.dropped_counter = max(meta.dropped_counter, counter)
        for group in self.groups.values():
            group.apply_dropped(OriginIntervals.of(references))

    def _remove_counters(self, origin: int, pieces: list[CounterRange]) -> None:
        tree = self.trees.get(origin)
        last = None if tree is None else tree.last_id()
        if tree is None or last is None:
            return
        before = tree.count
        tree.remove_ranges(pieces)
        if tree.count == before:
            return
        self.length -= before - tree.count
        self.chains.record_shrunk(tree, last)
        if not tree.count:
            del self.trees[origin]
        for group in self.groups.values():
            group.unsettle(origin)

    def _remove_register(self, origin: int, counter: int, max_deleted: EntryId) -> None:
        meta = self.metas.of(origin)
        before_id = meta.removed_id
        meta.removed_counter = counter
        meta.removed_id = max_deleted
        self._removed_top = max(self._removed_top, max_deleted)
        self._update_top(before_id, max_deleted)

    def _update_top(self, before_id: EntryId, after_id: EntryId) -> None:
        """Update `top` after a register changed; if an unsound origin lowered it, recompute the maximum."""
        if after_id < before_id:
            self.choose_registers()
        elif after_id > self.top:
            self.top = after_id

    def choose_registers(self) -> None:
        """Recompute everything derived from the registers and counts of all origins."""
        metas = self.metas.values()
        self.writers = sum([1 for meta in metas if meta.add_counter])
        self.top = max([meta.top() for meta in metas], default=ID_MIN)
        self._removed_top = max([meta.removed_id for meta in metas], default=ID_MIN)
        offsets = [
            (meta.offset_weight, origin, meta.offset) for origin, meta in self.metas.items() if meta.offset_counter
        ]
        self._offset = max(offsets)[2] if offsets else 0

    def apply_deleted(
        self, origin: int, counter: int, context: VersionVector, counts: dict[int, tuple[int, int]]
    ) -> None:
        for holder, tree in self.trees.items():
            covered = context.get(holder)
            self.metas.of(holder).record_removed(tree.last_counter_through(covered))
            self.length -= tree.remove_through(covered)
        for holder, meta in self.metas.items():
            meta.void(context.get(holder))
        for holder, (first, added) in counts.items():
            self.metas.of(holder).void_count(first, added)
        self.groups = _NO_GROUPS
        # A create whose context covers this DEL also covers everything in the context of the DEL.
        self.forget_tombstones(context)
        self.deleted = {**self.deleted, origin: counter}
        self._choose_trees()
        self.choose_registers()
        self.choose_expiry()
        if self.properties is not None:
            self.properties = without_voided(self.properties, context)
        if self.producers is not None and not self.exists():
            self.producers = self.producers.drop()

    def _choose_trees(self) -> None:
        for origin, tree in self.trees.items():
            if not tree.count:
                del self.trees[origin]
        self.chains.rebuild(dict(self.trees.items()))

    def apply_expiry_set(self, origin: int, counter: int, context: VersionVector, expires_ms: int) -> None:
        for holder, meta in self._expiring.items():
            meta.void_expiry(context.get(holder))
        if expires_ms != VOID_EXPIRY:
            meta = self.metas.of(origin)
            meta.expiry_counter, meta.expires_ms = counter, expires_ms
            self._expiring = {**self._expiring, origin: meta}
        self._choose_expiry_of(list(self._expiring.items()))

    def choose_expiry(self) -> None:
        self._choose_expiry_of(self.metas.items())

    def _choose_expiry_of(self, metas: list[tuple[int, OriginMeta]]) -> None:
        """Choose the longest of these expiries."""
        self._expiring = {origin: meta for origin, meta in metas if meta.expiry_counter} or _NO_EXPIRING
        expiries = self.expiries()
        self.expires_ms = expiries[-1][0] if expiries else NO_EXPIRY

    def apply_id_set(
        self, origin: int, counter: int, last_id: EntryId, max_deleted: EntryId | None, offset: int | None, weight: int
    ) -> None:
        meta = self.metas.of(origin)
        before_id = meta.set_id
        meta.set_counter = counter
        meta.set_id = last_id
        self._update_top(before_id, last_id)
        if offset is not None:
            meta.offset_counter, meta.offset_weight, meta.offset = counter, weight, offset
            self.choose_registers()
        if max_deleted is not None:
            self._remove_register(origin, counter, max_deleted)

    def apply_group_created(
        self, dot: Dot, context: VersionVector, group: bytes, start: Position, entries_read: int
    ) -> None:
        if not self.has_tombstones_within(context, group):
            return
        known = self.groups.get(group)
        if known is None:
            self.put_group(group, Group(dot, start, entries_read))
        else:
            known.add_create(dot, start)

    def has_tombstones_within(self, context: VersionVector, group: bytes) -> bool:
        """True if the context covers every tombstone of that group and of the key."""
        for tombstones in (self.deleted, self.destroyed.get(group, {})):
            for origin, counter in tombstones.items():
                if not context.contains(origin, counter):
                    return False
        return True

    def apply_group_destroyed(self, origin: int, counter: int, context: VersionVector, group: bytes) -> None:
        """Remove the group. None of its creates knew of this destroy, because a create that did is causally after it
        and is applied later.
        """
        self.groups.pop(group, None)
        tombstones = uncovered(self.destroyed.get(group, {}), context)
        tombstones[origin] = counter
        self.put_destroyed(group, tombstones)

    def put_group(self, name: bytes, group: Group) -> None:
        if not self.groups:
            self.groups = {}
        self.groups[name] = group

    def put_destroyed(self, name: bytes, tombstones: dict[int, int]) -> None:
        if not self.destroyed:
            self.destroyed = {}
        self.destroyed[name] = tombstones

    def forget_tombstones(self, vector: VersionVector) -> None:
        """Drop the tombstones that this vector covers; the context of every later create covers them."""
        self.deleted = uncovered(self.deleted, vector) or _NO_DELETED
        left = {group: uncovered(tombstones, vector) for group, tombstones in self.destroyed.items()}
        self.destroyed = {group: tombstones for group, tombstones in left.items() if tombstones} or _NO_DESTROYED

    def groups_made_by(self, origin: int, above: int) -> list[bytes]:
        """The groups with a create of this origin above the counter, even if they have other creates too."""
        found = [(name, dot) for name, group in self.groups.items() for dot in group.creates]
        return sorted({name for name, dot in found if dot[0] == origin and dot[1] > above})

    def void_creates(self, name: bytes, origin: int, above: int) -> None:
        """Remove the group's creates of this origin above the counter; a group without creates is deleted."""
        group = self.groups[name]
        group.creates = {dot: made for dot, made in group.creates.items() if dot[0] != origin or dot[1] <= above}
        if group.creates:
            group.derive()
        else:
            del self.groups[name]

    # Joining

    def derive(self) -> None:
        """Recompute everything derived, after parts were installed other than by an effect."""
        self.groups = self.groups or _NO_GROUPS
        self.destroyed = self.destroyed or _NO_DESTROYED
        self.deleted = self.deleted or _NO_DELETED
        self._choose_trees()
        self.length = sum([tree.count for tree in self.trees.values()])
        self.choose_registers()
        self.choose_expiry()
        for group in self.groups.values():
            group.reset_cursor()

    # Invariants

    def check(self) -> None:
        assert not (_NO_GROUPS or _NO_DESTROYED or _NO_DELETED or _NO_EXPIRING), "a stream wrote to what all share"
        assert self.length == sum(tree.count for tree in self.trees.values()), "length is not the sum of the trees"
        for origin, tree in self.trees.items():
            tree.check()
            last = tree.last_id()
            assert last is None or last <= self.metas[origin].add_id, f"origin {origin}: an entry above the last add"
        self.chains.check(dict(self.trees.items()))
        self._check_registers()
        expiries = [meta.expires_ms for meta in self.metas.values() if meta.expiry_counter]
        assert self.expires_ms == max(expiries, default=NO_EXPIRY), "expires_ms is stale"
        for origin, meta in self.metas.items():
            assert 0 <= meta.voided <= meta.added, f"origin {origin}: voided {meta.voided} of {meta.added}"
            assert (meta.expiry_counter > 0) == (meta.expires_ms > VOID_EXPIRY), f"origin {origin}: half an expiry"
            assert (meta.added > meta.voided) == (meta.add_counter > 0), f"origin {origin}: count and last add disagree"
        if self.producers is not None:
            self.producers.check()
        if self.properties is not None:
            self.properties.check()
        for group in self.groups.values():
            group.check()
            group.check_cursor(self.chains, self.trees)

    def _check_registers(self) -> None:
        metas = self.metas
        assert self.top == max((meta.top() for meta in metas.values()), default=ID_MIN), "top is stale"
        removed = max((meta.removed_id for meta in metas.values()), default=ID_MIN)
        assert self._removed_top == removed, "the highest removed ID is stale"
        offsets = [(meta.offset_weight, origin, meta.offset) for origin, meta in metas.items() if meta.offset_counter]
        assert self._offset == (max(offsets)[2] if offsets else 0), "the offset is stale"
        assert self._expiring == {origin: meta for origin, meta in metas.items() if meta.expiry_counter}, (
            "a stale expiry"
        )
        assert self.writers == sum(1 for meta in metas.values() if meta.add_counter), "writers are stale"


def uncovered(tombstones: dict[int, int], context: VersionVector) -> dict[int, int]:
    return {origin: counter for origin, counter in tombstones.items() if not context.contains(origin, counter)}
