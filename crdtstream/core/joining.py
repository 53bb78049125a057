"""Joining two states of one stream, each captured at exactly the vector of its side.

The result is the state that all effects of both sides would make, in any causal order. The rule for everything that is
named by a dot: what one side lacks is new to it if **its own** vector does not cover the dot. If the vector covers the
dot, that side has seen it removed, voided, replaced or subsumed.

A register of an origin holds the counter of the effect that set it (0: empty). `stands` decides whether the other
side's value replaces this side's:

    compare the counters    test                                            result
    equal                   -                                               keep mine (the values are equal)
    theirs is higher        my vector does not cover theirs: it is new      take theirs
    theirs is higher        my vector covers theirs: it was voided here     keep mine
    mine is higher          their vector covers mine: it was voided there   take theirs, possibly empty
    mine is higher          their vector does not cover mine: new there     keep mine

Tombstones use the same table, and a later tombstone of an origin stands for the earlier ones that its context covers.
A count of adds is a maximum: the count with the higher `first` is the newer one; within one count, both the number of
adds and the number of voided adds only grow. A count that one side has voided and forgotten is taken with what it
voided (`forgotten_adds`). `trimmed_to` and `dropped_counter` are maxima too.

**Entries** of one origin are joined block by block. Let `c` be an entry's counter, `known` the origin's counter in my
vector and `their_known` in theirs. An entry is in the joined tree as follows:

    mine     theirs   test                in the result
    holds    holds    -                   yes
    holds    lacks    c <= their_known    no: it was removed there
    holds    lacks    c > their_known     yes: it is new to them
    lacks    holds    c <= known          no: it was removed here
    lacks    holds    c > known           yes: it is new here

So my tree loses what the other side knows and lacks, and gains what the other tree holds above `known`. Where the trees
agree, no entry is visited: columns of counters are compared as a whole, however blocks divide them.

**Groups.** A group is its set of create dots (core/groups/group.py). Whether a create dot is in the joined state, where
the *holder* is a side that has the dot and the *other* side does not:

    held by    the other's vector    tombstones of the other side that      result
               covers the dot        the holder's vector does not cover
    both       -                     -                                      survives
    one        yes                   -                                      removed: the other saw it destroyed
    one        no                    one or more                            removed: such a tombstone destroys it
    one        no                    none                                   survives: it is new to the other side

The third row holds because the context of a create lies within the vector of its holder: a tombstone that this vector
does not cover is not covered by the context either, and a create survives only if its context covers every tombstone.
(A tombstone that was dropped in favour of a later one is represented by the later one.)

The runs under a create are united. Local parts (consumers, pending entries, cursor) stay this region's; they are
dropped when none of the creates that they were made under survives. Pending entries inside newly joined runs leave.

A state says of each origin only which of its removals was the last to drop references (DELREF), as a counter. If that
is new to me, pending entries leave together with the entries that the join removes: nobody can read those any more, and
the removal may have been meant for them. If no such removal is new to me, pending entries stay, as with an XDEL.

Reference: Almeida, Shoker, Baquero, "Delta state replicated data types" (2018): dot stores joined with their contexts.
"""

from __future__ import annotations

from array import array
from functools import reduce
from typing import Final

from crdtstream.core.effects import UNKNOWN_ENTRIES_READ, CounterRange, Position
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.create import Create
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.positions import restart
from crdtstream.core.groups.properties import merged
from crdtstream.core.names.joining_names import join_names
from crdtstream.core.streams.origin_meta import OriginMeta
from crdtstream.core.streams.properties import joined_properties
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, U64_MAX, EntryId
from crdtstream.core.values.intervals import IntervalSet
from crdtstream.core.values.origin_intervals import OriginIntervals

_NO_TREE = EntryTree()
_NO_META = OriginMeta()


class LackingEntries:
    """What the other side lacks of one tree, as `lacking` tells it, up to the counter `through`."""

    __slots__ = ("ranges", "through")

    def __init__(self) -> None:
        self.ranges: list[CounterRange] = []
        self.through = 0


_NOTHING: Final = LackingEntries()


def join_stream(
    mine: Stream,
    vector: VersionVector,
    theirs: Stream,
    their_vector: VersionVector,
    compared: dict[int, LackingEntries] | None = None,
) -> None:
    """Join `theirs` into `mine`, adopting parts of it; pass a new `Stream` for a key that the other state lacks. What
    was `compared` before is not compared again (core/comparing.py).
    """
    join_groups(mine, vector, theirs, their_vector)
    join_tombstones(mine, vector, theirs, their_vector)
    dropping = dropped_since(theirs, vector)
    origins = sorted({*mine.metas, *theirs.metas})
    forgotten: dict[int, int] = {}
    for origin in origins:
        here = forgotten_adds(theirs, origin, mine, vector.get(origin))
        there = forgotten_adds(mine, origin, theirs, their_vector.get(origin))
        forgotten[origin] = max(here, there)
    for origin in sorted({*mine.trees, *theirs.trees}):
        record_deleted(mine, vector.get(origin), theirs, their_vector.get(origin), origin)
        other = theirs.trees.get(origin) or _NO_TREE
        before = _NOTHING if compared is None else compared.get(origin) or _NOTHING
        is_told = dropping and any(group.pending.count_in(origin) for group in mine.groups.values())
        tree = mine.trees.of(origin)
        removed = join_tree(tree, vector.get(origin), other, their_vector.get(origin), before, is_told)
        drop_references(mine, origin, removed)
    for origin in origins:
        meta = theirs.metas.get(origin) or _NO_META
        join_meta(mine.metas.of(origin), vector.get(origin), meta, their_vector.get(origin), forgotten[origin])
    if mine.properties is not None or theirs.properties is not None:
        mine.properties = joined_properties(mine.properties, vector, theirs.properties, their_vector)
    join_names(mine, vector, theirs, their_vector)
    mine.derive()


def dropped_since(theirs: Stream, vector: VersionVector) -> bool:
    """True if a removal that my vector does not cover dropped references."""
    return any(meta.dropped_counter > vector.get(origin) for origin, meta in theirs.metas.items())


def stands(theirs: int, known: int, mine: int, their_known: int) -> bool:
    """Whether the other side's register of an origin replaces mine: see the table above. All arguments are counters of
    that origin: of their register, my vector, my register, their vector.
    """
    return theirs > known if theirs > mine else their_known >= mine > theirs


def record_deleted(mine: Stream, known: int, theirs: Stream, their_known: int, origin: int) -> None:
    """Note up to where one side removed entries of the other in a DEL that it may have forgotten: it has another count
    of adds, or none. Before the trees are joined.
    """
    own, foreign = mine.metas.get(origin) or _NO_META, theirs.metas.get(origin) or _NO_META
    if own.first == foreign.first:
        return
    lost_there = (mine.trees.get(origin) or _NO_TREE).last_counter_through(their_known)
    lost_here = (theirs.trees.get(origin) or _NO_TREE).last_counter_through(known)
    if lost_there or lost_here:
        mine.metas.of(origin).record_removed(max(lost_there, lost_here))


# Metadata


def forgotten_adds(holder: Stream, origin: int, other: Stream, other_known: int) -> int:
    """How many adds of the holder's count the other side, whose counter of the origin is `other_known`, has voided and
    then forgotten; 0 if it has not.

    A count that a vector covers is missing there only if all of its adds up to that counter were voided. Later adds of
    it exist if the origin was evicted before they were seen there. The state does not say how many adds are that late,
    but holds their entries, except those that were removed since; and no more adds were early than there are counters.
    A holder that knows of a DEL has the number, and so has another side that still remembers the deleted stream
    (core/streams/deleted_streams.py).
    """
    count = holder.metas.get(origin) or _NO_META
    if count.voided or not (other.metas.get(origin) or _NO_META).first < count.first <= other_known:
        return 0
    tree = holder.trees.get(origin) or _NO_TREE
    late = tree.count - tree.count_through(other_known)
    return min(count.added - late, count.added - 1, other_known - count.first + 1)


def join_meta(mine: OriginMeta, known: int, theirs: OriginMeta, their_known: int, forgotten: int) -> None:
    """Join the metadata of one origin; `known` and `their_known` are its counters in the two vectors, `forgotten` the
    number of its adds that one side has voided and then forgotten.
    """
    if stands(theirs.add_counter, known, mine.add_counter, their_known):
        mine.add_counter, mine.add_id = theirs.add_counter, theirs.add_id
    if stands(theirs.set_counter, known, mine.set_counter, their_known):
        mine.set_counter, mine.set_id = theirs.set_counter, theirs.set_id
    if stands(theirs.removed_counter, known, mine.removed_counter, their_known):
        mine.removed_counter, mine.removed_id = theirs.removed_counter, theirs.removed_id
    if stands(theirs.offset_counter, known, mine.offset_counter, their_known):
        mine.offset_counter = theirs.offset_counter
        mine.offset_weight, mine.offset = theirs.offset_weight, theirs.offset
    if stands(theirs.expiry_counter, known, mine.expiry_counter, their_known):
        mine.expiry_counter, mine.expires_ms = theirs.expiry_counter, theirs.expires_ms
    mine.trimmed_to = max(mine.trimmed_to, theirs.trimmed_to)
    mine.dropped_counter = max(mine.dropped_counter, theirs.dropped_counter)
    join_count(mine, theirs, forgotten)


def join_count(mine: OriginMeta, theirs: OriginMeta, forgotten: int) -> None:
    """Join the counts of adds; call it once the last adds are joined. Without a last add every add is voided, even if
    the DEL that voided them has been forgotten since.
    """
    if theirs.first > mine.first:
        mine.first, mine.added, mine.voided = theirs.first, theirs.added, theirs.voided
    elif theirs.first == mine.first:
        mine.added = max(mine.added, theirs.added)
        mine.voided = max(mine.voided, theirs.voided)
    mine.voided = max(mine.voided, forgotten)
    if mine.add_counter == 0:
        mine.voided = mine.added


# Tombstones


def join_tombstones(mine: Stream, vector: VersionVector, theirs: Stream, their_vector: VersionVector) -> None:
    mine.deleted = joined_tombstones(mine.deleted, vector, theirs.deleted, their_vector)
    destroyed: dict[bytes, dict[int, int]] = {}
    for name in sorted({*mine.destroyed, *theirs.destroyed}):
        own, foreign = mine.destroyed.get(name, {}), theirs.destroyed.get(name, {})
        joined = joined_tombstones(own, vector, foreign, their_vector)
        if joined:
            destroyed[name] = joined
    mine.destroyed = destroyed


def joined_tombstones(
    mine: dict[int, int], vector: VersionVector, theirs: dict[int, int], their_vector: VersionVector
) -> dict[int, int]:
    joined: dict[int, int] = {}
    for origin in sorted({*mine, *theirs}):
        own, foreign = mine.get(origin, 0), theirs.get(origin, 0)
        counter = foreign if stands(foreign, vector.get(origin), own, their_vector.get(origin)) else own
        if counter:
            joined[origin] = counter
    return joined


# Entries


def join_tree(
    mine: EntryTree,
    known: int,
    theirs: EntryTree,
    their_known: int,
    before: LackingEntries = _NOTHING,
    is_told: bool = True,
) -> list[EntryId]:
    """Join `theirs` into `mine`, adopting its blocks; `known` and `their_known` are as in the table of entries. Returns
    the IDs of the entries that were removed, for which all their blocks are opened, if that `is_told`.
    """
    removed: list[EntryId] = []
    ranges = before.ranges + lacking(mine, theirs, their_known, before.through + 1)
    if is_told:
        for low, high in ranges:
            removed += mine.remove_counters(low, high)
    else:
        mine.remove_ranges(ranges)
    first = theirs.first_above(known)
    if first is not None:
        mine.link_all(theirs.slices(first, ID_MAX, -1, False))
    return removed


def can_join(mine: EntryTree | None, known: int, theirs: EntryTree) -> bool:
    """True if the first entry of `theirs` above `known` lies above the last one that both trees hold, as the entries of
    a sound origin do. That entries ascend within a tree was checked when it arrived.
    """
    first = theirs.first_above(known)
    last = None if first is None or mine is None else last_held(mine, theirs)
    return first is None or last is None or (first > last[0] and theirs.counter_of(first) > last[1])


def last_held(mine: EntryTree, theirs: EntryTree) -> tuple[EntryId, int] | None:
    """ID and counter of the last entry of `mine` that `theirs` holds too."""
    through = U64_MAX
    for part in mine.slices(ID_MIN, ID_MAX, -1, True):
        low, high = part.block.counter_at(0), through
        through = low - 1
        if theirs.surely_lacks(low, high):
            continue
        counters = part.block.counters(part.low, part.high)
        held = set(theirs.counters_between(counters[0], counters[-1]))
        for index in range(len(counters) - 1, -1, -1):
            if counters[index] in held:
                return (part.block.id_at(part.low + index), counters[index])
    return None


def last_of(tree: EntryTree) -> tuple[EntryId, int] | None:
    for part in tree.slices(ID_MIN, ID_MAX, 1, True):
        return (part.block.id_at(part.high - 1), part.block.counter_at(part.high - 1))
    return None


def lacking(mine: EntryTree, theirs: EntryTree, through: int, first: int = 1) -> list[CounterRange]:
    """Ranges that contain exactly those entries of `mine` with counters from `first` to `through`, both inclusive, that
    `theirs` lacks. Opens no block for which `theirs` has nothing.
    """
    ranges: list[CounterRange] = []
    if mine.surely_lacks(first, through):
        return ranges
    if theirs.surely_lacks(first, through):
        return [(first, through)] if mine.slices_between(first, through, 1) else ranges
    adjacent = False
    parts = mine.slices_between(first, through, mine.count)
    for at, part in enumerate(parts):
        low = first if at == 0 else part.block.counter_at(part.low)
        high = through if at + 1 == len(parts) else parts[at + 1].block.counter_at(0) - 1
        if theirs.surely_lacks(low, high):
            extend(ranges, low, high, adjacent)
            adjacent = True
            continue
        counters = array("Q", part.block.counters(part.low, part.high))
        held = theirs.counters_between(counters[0], counters[-1])
        if held == counters:
            adjacent = False
        elif held:
            adjacent = add_absent(ranges, counters, held, adjacent)
        else:
            extend(ranges, counters[0], counters[-1], adjacent)
            adjacent = True
    return ranges


def add_absent(ranges: list[CounterRange], counters: array[int], held: array[int], adjacent: bool) -> bool:
    """Add the counters that are not in `held`. `adjacent` and the result say whether the previous entry was absent."""
    kept = set(held)
    for counter in counters:
        absent = counter not in kept
        if absent:
            extend(ranges, counter, counter, adjacent)
        adjacent = absent
    return adjacent


def extend(ranges: list[CounterRange], low: int, high: int, adjacent: bool) -> None:
    if adjacent:
        ranges[-1] = (ranges[-1][0], high)
    else:
        ranges.append((low, high))


# Groups


def join_groups(mine: Stream, vector: VersionVector, theirs: Stream, their_vector: VersionVector) -> None:
    """Join the groups of `theirs` into `mine`; the tombstones may be joined before or after."""
    for name in sorted({*mine.groups, *theirs.groups}):
        group, other = mine.groups.get(name), theirs.groups.get(name)
        own = {} if group is None else group.creates
        foreign = {} if other is None else other.creates
        kept = surviving(own, foreign, their_vector, theirs.has_tombstones_within(vector, name))
        fresh = surviving(foreign, own, vector, mine.has_tombstones_within(their_vector, name))
        if group is not None and kept:
            group.creates = kept
            join_group(group, fresh)
        elif fresh:
            mine.put_group(name, group_of(fresh))
        else:
            mine.groups.pop(name, None)


def surviving(
    creates: dict[Dot, Create], others: dict[Dot, Create], other_vector: VersionVector, covers: bool
) -> dict[Dot, Create]:
    """The creates of one side that survive; `covers`: this side's vector covers all tombstones of the other side."""
    return {
        dot: create
        for dot, create in creates.items()
        if dot in others or (covers and not other_vector.contains(dot[0], dot[1]))
    }


def join_group(group: Group, creates: dict[Dot, Create]) -> None:
    """Add the creates of the other side, with their runs and properties."""
    resets: list[Position] = []
    for dot, create in sorted(creates.items()):
        if dot not in group.creates:
            group.add_create(dot, create.start)
        mine = group.creates[dot]
        if mine.join_runs(create):
            resets.append(create.start)
        if create.properties:
            mine.properties = merged(mine.properties, create.properties.items())
    if resets:
        restart(group, reduce(Position.meet, resets))
    before = group.acked
    group.derive()
    for origin, acked in group.acked.items():
        group.drop_passed(origin, acked.minus(before.get(origin, IntervalSet())))


def drop_references(mine: Stream, origin: int, removed: list[EntryId]) -> None:
    """Remove the pending entries of these removed entries from all groups."""
    for group in mine.groups.values():
        pieces = group.pending.pieces_of(origin, removed) if removed else []
        if pieces:
            group.apply_dropped(OriginIntervals.of({origin: pieces}))


def group_of(creates: dict[Dot, Create]) -> Group:
    """A group that is new here; nothing was delivered here under any of these creates."""
    first = min(creates)
    group = Group(first, creates[first].start, UNKNOWN_ENTRIES_READ)
    join_group(group, creates)
    return group
