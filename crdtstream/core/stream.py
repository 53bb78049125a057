"""One stream: the merged view of one entry tree for each origin, its metadata and its groups.

Order is `(ID, origin)`. An entry needs no tombstone: a counter that the vector covers and the tree lacks was removed.

Metadata is kept for each origin with the counter that set it, so that a DEL can void exactly what its context covers:
ID of the last add, of the last XSETID, of the highest entry removed by XDEL, an offset of entries-added. Adds are
counted in a *count* that is named by its `first` counter, until a DEL has voided all of it; a DEL carries the counts it
saw, and `voided` is the highest such count: concurrent DELs that saw overlapping adds must not subtract them twice. A
count that is all voided may be forgotten, so an add says how many came before it: where they are not known, they were
voided. So a key lives while it has an entry, a group, or a count with `added > voided`; the last is the same as: its
last add's dot is covered by no DEL.

An expiry is such a register too, but one that others replace: see core/expiry.py. It does not keep a key alive, and it
may outlive the key when a DEL that did not see it removed all else; whoever writes such a key anew voids it first.

Group tombstones: a create survives only when its context covers every destroy of that group and every DEL of that key;
for each origin the highest counter stands for all.

Reference: ORSWOT (Bieniusa et al., 2012) for the entries; remove-wins sets for the groups.
"""

from __future__ import annotations

from crdtstream.core.block import Block
from crdtstream.core.causality import Dot, VersionVector
from crdtstream.core.effects import CounterRange, Position
from crdtstream.core.entry_id import ID_MAX, ID_MIN, EntryId
from crdtstream.core.entry_tree import EntryTree, Slice
from crdtstream.core.expiry import NO_EXPIRY, VOID_EXPIRY
from crdtstream.core.group import Group
from crdtstream.core.merging import Run, merge


class OriginMeta:
    """What one origin contributed to a stream's metadata; a register with counter 0 is empty."""

    __slots__ = (
        "add_counter",
        "add_id",
        "added",
        "expires_ms",
        "expiry_counter",
        "first",
        "offset",
        "offset_counter",
        "offset_weight",
        "removed_counter",
        "removed_id",
        "set_counter",
        "set_id",
        "trimmed_to",
        "voided",
    )

    def __init__(self) -> None:
        self.first = 0
        self.added = 0
        self.voided = 0
        self.add_counter = 0
        self.add_id: EntryId = ID_MIN
        self.set_counter = 0
        self.set_id: EntryId = ID_MIN
        self.removed_counter = 0
        self.removed_id: EntryId = ID_MIN
        self.offset_counter = 0
        self.offset_weight = 0
        self.offset = 0
        self.trimmed_to = 0
        self.expiry_counter = 0
        self.expires_ms = VOID_EXPIRY

    def top(self) -> EntryId:
        return max(self.add_id, self.set_id, self.removed_id)

    def next_count(self, counter: int) -> tuple[int, int]:
        """Name of the count that the next add, which has this counter, belongs to, and how many adds it has so far."""
        return (counter, 0) if self.added == self.voided else (self.first, self.added)

    def count(self, first: int, before: int, added: int) -> None:
        """More adds; those before them that are not known here were voided, and then forgotten."""
        if self.first != first:
            self.first, self.added, self.voided = first, before, before
        self.added += added

    def void(self, covered: int) -> None:
        """A DEL whose context covers this origin's counters up to `covered`."""
        if self.add_counter <= covered:
            self.add_counter, self.add_id = 0, ID_MIN
            self.voided = self.added
        if self.set_counter <= covered:
            self.set_counter, self.set_id = 0, ID_MIN
        if self.removed_counter <= covered:
            self.removed_counter, self.removed_id = 0, ID_MIN
        if self.offset_counter <= covered:
            self.offset_counter, self.offset_weight, self.offset = 0, 0, 0
        self.void_expiry(covered)

    def void_count(self, first: int, added: int) -> None:
        """A DEL that saw so many adds of a count: not the last one, where that one is not void."""
        if self.first == first and self.add_counter:
            self.voided = max(self.voided, min(added, self.added - 1))

    def void_expiry(self, covered: int) -> None:
        if self.expiry_counter <= covered:
            self.expiry_counter, self.expires_ms = 0, VOID_EXPIRY


class Stream:
    """The state of one key, live or only remembered (`exists()` tells).

    `length`, `top` and `expires_ms` follow from the rest. `used_ms` is when a command last used it here: local, never
    logged, not part of any state that is compared.
    """

    __slots__ = ("deleted", "destroyed", "expires_ms", "groups", "length", "metas", "top", "trees", "used_ms")

    def __init__(self) -> None:
        self.trees: dict[int, EntryTree] = {}
        self.metas: dict[int, OriginMeta] = {}
        self.groups: dict[bytes, Group] = {}
        self.destroyed: dict[bytes, dict[int, int]] = {}
        self.deleted: dict[int, int] = {}
        self.length = 0
        self.top: EntryId = ID_MIN
        self.expires_ms = NO_EXPIRY
        self.used_ms = 0

    # Reading

    def exists(self) -> bool:
        if self.length > 0 or self.groups:
            return True
        return any(meta.added > meta.voided for meta in self.metas.values())

    def entries_added(self) -> int:
        total = sum(meta.added - meta.voided for meta in self.metas.values())
        return total + self.offset()

    def offset(self) -> int:
        """The explicit ENTRIESADDED whose context was largest wins, then the higher origin."""
        best = max(
            ((m.offset_weight, slot, m.offset) for slot, m in self.metas.items() if m.offset_counter), default=None
        )
        return 0 if best is None else best[2]

    def max_deleted(self) -> EntryId:
        return max((meta.removed_id for meta in self.metas.values()), default=ID_MIN)

    def expiries(self) -> list[tuple[int, int, int]]:
        """Every expiry that no other replaced: (expires_ms, slot, counter), the one that won last."""
        return sorted([(m.expires_ms, slot, m.expiry_counter) for slot, m in self.metas.items() if m.expiry_counter])

    def first_entry(self) -> tuple[EntryId, bytes] | None:
        return self._edge(False)

    def last_entry(self) -> tuple[EntryId, bytes] | None:
        return self._edge(True)

    def _edge(self, reverse: bool) -> tuple[EntryId, bytes] | None:
        edges: list[tuple[EntryId, int]] = []
        for slot, tree in self.trees.items():
            entry_id = tree.last_id() if reverse else tree.first_id()
            if entry_id is not None:
                edges.append((entry_id, slot))
        if not edges:
            return None
        entry_id, slot = max(edges) if reverse else min(edges)
        entry = self.trees[slot].find(entry_id)
        assert entry is not None
        return entry_id, entry

    def range(self, start: EntryId, end: EntryId, count: int, reverse: bool) -> tuple[int, list[bytes]]:
        """The entries in [start, end] (both closed), at most `count` (all when negative): how many, and their RESP
        bytes.
        """
        return joined(self.slices(start, end, count, reverse), count, reverse)

    def slices(self, start: EntryId, end: EntryId, count: int, reverse: bool) -> dict[int, list[Slice]]:
        """What each origin has of `range`, at most `count` of each; nothing for one that has none."""
        found: dict[int, list[Slice]] = {}
        for slot, tree in self.trees.items():
            if tree.count:
                slices = tree.slices(start, end, count, reverse)
                if slices:
                    found[slot] = slices
        return found

    def added_since(self, seen: dict[int, int], count: int) -> tuple[int, list[bytes]]:
        """The entries whose counters lie above those of `seen` (see `vector`), at most `count` (all when negative)."""
        found: dict[int, list[Slice]] = {}
        for slot, tree in self.trees.items():
            first = tree.first_above(seen.get(slot, 0))
            if first is not None:
                found[slot] = tree.slices(first, ID_MAX, count, False)
        return joined(found, count, False)

    def slots_holding(self, entry_id: EntryId) -> list[int]:
        """The origins that hold a live entry of that ID: one, but for duplicates."""
        return [slot for slot in sorted(self.trees) if self.trees[slot].counter_of(entry_id)]

    def vector(self) -> dict[int, int]:
        """For each origin the counter of its last add: what a blocked `XREAD $` has seen."""
        return {slot: meta.add_counter for slot, meta in self.metas.items()}

    def seen_position(self) -> Position:
        """`$`: what this region has seen now; an origin not yet seen starts at 0."""
        return Position(ID_MIN, {slot: meta.add_id for slot, meta in sorted(self.metas.items()) if meta.add_counter})

    # Effects

    def meta(self, slot: int) -> OriginMeta:
        meta = self.metas.get(slot)
        if meta is None:
            meta = OriginMeta()
            self.metas[slot] = meta
        return meta

    def tree(self, slot: int) -> EntryTree:
        tree = self.trees.get(slot)
        if tree is None:
            tree = EntryTree()
            self.trees[slot] = tree
        return tree

    def note_added(self, meta: OriginMeta, last_counter: int, last_id: EntryId, count: int) -> None:
        """Raise length and top by adds that are counted, and whose entries are in the tree already."""
        meta.add_counter = last_counter
        meta.add_id = last_id
        self.length += count
        # Part by part: compiled, a comparison of tuples costs as much as all the rest.
        ms, seq = last_id
        top_ms, top_seq = self.top
        if ms > top_ms or (ms == top_ms and seq > top_seq):
            self.top = last_id

    def apply_added(self, slot: int, counter: int, first: int, before: int, block: Block, low: int, high: int) -> None:
        """Link another origin's block; `counter` is the effect's first."""
        count = high - low
        self.tree(slot).link(block, low, high)
        meta = self.meta(slot)
        meta.count(first, before, count)
        before_id = meta.add_id
        self.note_added(meta, counter + count - 1, block.id_at(high - 1), count)
        self._follow(before_id, meta.add_id)

    def apply_add_counted(self, slot: int, counter: int, first: int, before: int) -> None:
        meta = self.meta(slot)
        meta.count(first, before, 1)
        meta.add_counter = counter

    def apply_removed(
        self,
        slot: int,
        counter: int,
        ranges: dict[int, list[CounterRange]],
        trimmed: bool,
        max_deleted: EntryId | None,
    ) -> None:
        for origin, pieces in ranges.items():
            tree = self.trees.get(origin)
            if tree is not None:
                before = tree.count
                for low, high in pieces:
                    tree.remove_counters(low, high)
                self.length -= before - tree.count
            if trimmed and pieces:
                meta = self.meta(origin)
                meta.trimmed_to = max(meta.trimmed_to, pieces[-1][1])
        if max_deleted is not None:
            self._remove_register(slot, counter, max_deleted)

    def _remove_register(self, slot: int, counter: int, max_deleted: EntryId) -> None:
        meta = self.meta(slot)
        before_id = meta.removed_id
        meta.removed_counter = counter
        meta.removed_id = max_deleted
        self._follow(before_id, max_deleted)

    def _follow(self, before_id: EntryId, after_id: EntryId) -> None:
        """The top, after a register changed; one that falls was made by no sound origin."""
        if after_id < before_id:
            self.choose_top()
        elif after_id > self.top:
            self.top = after_id

    def choose_top(self) -> None:
        self.top = max([meta.top() for meta in self.metas.values()], default=ID_MIN)

    def apply_deleted(
        self, slot: int, counter: int, context: VersionVector, counts: dict[int, tuple[int, int]]
    ) -> None:
        for origin, tree in self.trees.items():
            self.length -= tree.remove_through(context.get(origin))
        for origin, meta in self.metas.items():
            meta.void(context.get(origin))
        for origin, (first, added) in counts.items():
            self.meta(origin).void_count(first, added)
        self.groups.clear()
        # A create that follows a DEL follows all that the DEL follows.
        self.forget_tombstones(context)
        self.deleted[slot] = counter
        self.trees = {origin: tree for origin, tree in self.trees.items() if tree.count}
        self.choose_top()
        self.choose_expiry()

    def apply_expiry_set(self, slot: int, counter: int, context: VersionVector, expires_ms: int) -> None:
        for origin, meta in self.metas.items():
            meta.void_expiry(context.get(origin))
        if expires_ms != VOID_EXPIRY:
            meta = self.meta(slot)
            meta.expiry_counter, meta.expires_ms = counter, expires_ms
        self.choose_expiry()

    def choose_expiry(self) -> None:
        """The longest wins."""
        expiries = self.expiries()
        self.expires_ms = expiries[-1][0] if expiries else NO_EXPIRY

    def apply_id_set(
        self, slot: int, counter: int, last_id: EntryId, max_deleted: EntryId | None, offset: int | None, weight: int
    ) -> None:
        meta = self.meta(slot)
        before_id = meta.set_id
        meta.set_counter = counter
        meta.set_id = last_id
        self._follow(before_id, last_id)
        if offset is not None:
            meta.offset_counter, meta.offset_weight, meta.offset = counter, weight, offset
        if max_deleted is not None:
            self._remove_register(slot, counter, max_deleted)

    def apply_group_created(
        self, dot: Dot, context: VersionVector, group: bytes, start: Position, entries_read: int
    ) -> None:
        if not self.has_tombstones_within(context, group):
            return
        known = self.groups.get(group)
        if known is None:
            self.groups[group] = Group(dot, start, entries_read)
        else:
            known.join_create(dot, start)

    def has_tombstones_within(self, context: VersionVector, group: bytes) -> bool:
        """Whether the context covers every tombstone of that group and of the key."""
        for tombstones in (self.deleted, self.destroyed.get(group, {})):
            for origin, counter in tombstones.items():
                if not context.contains(origin, counter):
                    return False
        return True

    def apply_group_destroyed(self, slot: int, counter: int, context: VersionVector, group: bytes) -> None:
        """Every create that is here was made without knowing of this destroy: causal delivery brings those that did
        later.
        """
        self.groups.pop(group, None)
        tombstones = uncovered(self.destroyed.get(group, {}), context)
        tombstones[slot] = counter
        self.destroyed[group] = tombstones

    def forget_tombstones(self, vector: VersionVector) -> None:
        """Those that this vector covers: every create that comes follows them."""
        self.deleted = uncovered(self.deleted, vector)
        left = {group: uncovered(tombstones, vector) for group, tombstones in self.destroyed.items()}
        self.destroyed = {group: tombstones for group, tombstones in left.items() if tombstones}

    def groups_made_by(self, slot: int, above: int) -> list[bytes]:
        """The groups that live by a create of this origin above the counter, others beside it or not."""
        found = [(name, dot) for name, group in self.groups.items() for dot in group.creates]
        return sorted({name for name, dot in found if dot[0] == slot and dot[1] > above})

    def void_creates(self, name: bytes, slot: int, above: int) -> None:
        """Of a group: the creates of this origin above the counter never were."""
        group = self.groups[name]
        group.creates = {dot: made for dot, made in group.creates.items() if dot[0] != slot or dot[1] <= above}
        if group.creates:
            group.derive()
        else:
            del self.groups[name]

    # Joining

    def derive(self) -> None:
        """Make what follows from the rest again, after parts were put in place other than by an effect."""
        self.trees = {origin: tree for origin, tree in self.trees.items() if tree.count}
        self.length = sum([tree.count for tree in self.trees.values()])
        self.choose_top()
        self.choose_expiry()

    # Trimming

    def trimmable(self, keep: int) -> dict[int, list[CounterRange]]:
        """The counters of the oldest entries in merged order, so that `keep` remain."""
        surplus = self.length - keep
        if surplus <= 0:
            return {}
        live = [slot for slot in sorted(self.trees) if self.trees[slot].count]
        if len(live) == 1:
            return {live[0]: self.trees[live[0]].first_counters(surplus)}
        oldest: dict[int, int] = {}
        for run in merge({s: self.trees[s].slices(ID_MIN, self.top, surplus, False) for s in live}, surplus):
            oldest[run.slot] = oldest.get(run.slot, 0) + run.count()
        return {slot: self.trees[slot].first_counters(count) for slot, count in sorted(oldest.items())}

    def below(self, entry_id: EntryId) -> dict[int, list[CounterRange]]:
        """The counters of the entries below an ID."""
        found = {slot: self.trees[slot].counters_below(entry_id) for slot in sorted(self.trees)}
        return {slot: pieces for slot, pieces in found.items() if pieces}

    # Invariants

    def check(self) -> None:
        assert self.length == sum(tree.count for tree in self.trees.values()), "length is not the trees' sum"
        for slot, tree in self.trees.items():
            tree.check()
            last = tree.last_id()
            assert last is None or last <= self.metas[slot].add_id, f"slot {slot}: an entry above the last add"
        assert self.top == max((meta.top() for meta in self.metas.values()), default=ID_MIN), "top is stale"
        expiries = [meta.expires_ms for meta in self.metas.values() if meta.expiry_counter]
        assert self.expires_ms == max(expiries, default=NO_EXPIRY), "expires_ms is stale"
        for slot, meta in self.metas.items():
            assert 0 <= meta.voided <= meta.added, f"slot {slot}: voided {meta.voided} of {meta.added}"
            assert (meta.expiry_counter > 0) == (meta.expires_ms > VOID_EXPIRY), f"slot {slot}: half an expiry"
            assert (meta.added > meta.voided) == (meta.add_counter > 0), f"slot {slot}: count and last add disagree"
        for group in self.groups.values():
            group.check()


def uncovered(tombstones: dict[int, int], context: VersionVector) -> dict[int, int]:
    return {slot: counter for slot, counter in tombstones.items() if not context.contains(slot, counter)}


def joined(found: dict[int, list[Slice]], count: int, reverse: bool) -> tuple[int, list[bytes]]:
    """Every tree's slices as one range: how many entries, and their RESP bytes."""
    if len(found) > 1:
        return read_runs(merge(found, count, reverse), reverse)
    for slices in found.values():
        return sliced(slices, reverse)
    return 0, []


def sliced(slices: list[Slice], reverse: bool) -> tuple[int, list[bytes]]:
    """One tree's slices as they are; reversed, entry by entry."""
    count = 0
    chunks: list[bytes] = []
    for part in slices:
        count += part.high - part.low
        if reverse:
            chunks += [part.block.entry(i) for i in range(part.high - 1, part.low - 1, -1)]
        else:
            chunks.append(part.entries())
    return count, chunks


def read_runs(runs: list[Run], reverse: bool) -> tuple[int, list[bytes]]:
    return sliced([Slice(run.block, run.low, run.high) for run in runs], reverse)
