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
adds and the number of voided adds only grow. `trimmed_to` is a maximum too. Entries, create dots and runs have their
tables in core/tree_joining.py and core/group_joining.py.

Reference: Almeida, Shoker, Baquero, "Delta state replicated data types" (2018): dot stores joined with their contexts.
"""

from __future__ import annotations

from crdtstream.core.causality import VersionVector
from crdtstream.core.entry_tree import EntryTree
from crdtstream.core.group_joining import join_groups
from crdtstream.core.stream import OriginMeta, Stream
from crdtstream.core.tree_joining import join_tree

_NO_TREE = EntryTree()
_NO_META = OriginMeta()


def join_stream(mine: Stream, vector: VersionVector, theirs: Stream, their_vector: VersionVector) -> None:
    """Join `theirs` into `mine`, adopting parts of it; pass a new `Stream` for a key that the other state lacks."""
    join_groups(mine, vector, theirs, their_vector)
    join_tombstones(mine, vector, theirs, their_vector)
    for slot in sorted({*mine.trees, *theirs.trees}):
        other = theirs.trees.get(slot, _NO_TREE)
        join_tree(mine.tree(slot), vector.get(slot), other, their_vector.get(slot))
    for slot in sorted({*mine.metas, *theirs.metas}):
        meta = theirs.metas.get(slot, _NO_META)
        join_meta(mine.meta(slot), vector.get(slot), meta, their_vector.get(slot))
    mine.derive()


def stands(theirs: int, known: int, mine: int, their_known: int) -> bool:
    """Whether the other side's register of an origin replaces mine: see the table above. All arguments are counters of
    that origin: of their register, my vector, my register, their vector.
    """
    return theirs > known if theirs > mine else their_known >= mine > theirs


# Metadata


def join_meta(mine: OriginMeta, known: int, theirs: OriginMeta, their_known: int) -> None:
    """Join the metadata of one origin; `known` and `their_known` are its counters in the two vectors."""
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
    join_count(mine, theirs)


def join_count(mine: OriginMeta, theirs: OriginMeta) -> None:
    """Join the counts of adds; call it once the last adds are joined. Without a last add every add is voided, even if
    the DEL that voided them has been forgotten since.
    """
    if theirs.first > mine.first:
        mine.first, mine.added, mine.voided = theirs.first, theirs.added, theirs.voided
    elif theirs.first == mine.first:
        mine.added = max(mine.added, theirs.added)
        mine.voided = max(mine.voided, theirs.voided)
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
    for slot in sorted({*mine, *theirs}):
        own, foreign = mine.get(slot, 0), theirs.get(slot, 0)
        counter = foreign if stands(foreign, vector.get(slot), own, their_vector.get(slot)) else own
        if counter:
            joined[slot] = counter
    return joined
