"""Joining two states of one stream, each taken at exactly the vector of its side.

The outcome is the state that all effects of both sides make, in any causal order. What one side lacks is new to it if
**its own** vector does not cover the dot; if it does, the side has seen it removed, voided, replaced or subsumed.

Entries, create dots and runs: see core/tree_joining.py and core/group_joining.py. Each register of an origin keeps the
higher counter under that rule; so do tombstones, of which a later one drops those that its context covers. A count of
adds grows with its origin alone, so the later one is right, and of one count both numbers of adds and of voided adds
are maxima. `trimmed_to` is a maximum.

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
    """Join `theirs`, whose parts may be taken over, into `mine`; a key that is absent there is a new `Stream`."""
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
    """Whether their dot of an origin, 0 for none, replaces mine: mine is older, or they have seen it go."""
    return theirs > known if theirs > mine else their_known >= mine > theirs


# Metadata


def join_meta(mine: OriginMeta, known: int, theirs: OriginMeta, their_known: int) -> None:
    """`known` and `their_known` are the origin's counters in both vectors."""
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
    """After the last adds are joined: without one every add is voided, also where the DEL that did it is forgotten."""
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
