"""Copying a stream: RENAME and COPY write the merged entries anew, under the tree of the region that copies.

The copy has one entry for each ID (of duplicates the lowest origin's), the last ID, entries-added, the max-deleted ID
and the expiry of what this region sees of the source; no groups. It counts as an add even when it is empty. A target
that exists is deleted first. All of it is prepared within one turn, so other regions apply it whole.

Copies of one stream that two regions make at once under one name both stay: each ID is there twice, once in each
region's tree. Whatever reaches the source concurrently stays in the source.
"""

from __future__ import annotations

from array import array

from crdtstream.core.block import Block
from crdtstream.core.effects import Key
from crdtstream.core.entry_id import ID_MAX, ID_MIN, EntryId
from crdtstream.core.entry_tree import BLOCK_BYTES, BLOCK_ENTRIES, Slice
from crdtstream.core.expiry import NO_EXPIRY
from crdtstream.core.merging import merge
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream


def copy_stream(replica: Replica, source: Stream, target: Key) -> None:
    """`target` names another stream than `source`."""
    replica.freshen(target)
    replica.delete_stream(target)
    if source.length:
        copy_entries(replica, source, target)
    else:
        replica.count_add(target)
    max_deleted = None if source.max_deleted() == ID_MIN else source.max_deleted()
    replica.set_id(target, last_id(replica, source, target), source.entries_added(), max_deleted)
    if source.expires_ms != NO_EXPIRY:
        replica.set_expiry(target, source.expires_ms)


def last_id(replica: Replica, source: Stream, target: Key) -> EntryId:
    """The source's, but no lower than what concurrent effects left of the target: an XSETID that no DEL has seen."""
    stream = replica.find(target)
    assert stream is not None, "a copy that is not there"
    return max(source.top, stream.top)


def copy_entries(replica: Replica, source: Stream, target: Key) -> None:
    """A block at a time: one tree's as they are, several trees' merged."""
    found = {slot: tree.slices(ID_MIN, ID_MAX, -1, False) for slot, tree in source.trees.items() if tree.count}
    if len(found) > 1:
        copy_merged(replica, found, target)
        return
    for slices in found.values():
        for part in slices:
            replica.add_block(target, renumbered(part, replica.counter() + 1))


def renumbered(part: Slice, counter: int) -> Block:
    block, low, high = part.block, part.low, part.high
    start = block.start_of(low)
    ms, seq = block.id_columns(low, high)
    ends = array("Q", [end - start for end in block.ends(low, high)])
    return Block.of_columns(ms, seq, range(counter, counter + high - low), ends, block.entry_slice(low, high))


def copy_merged(replica: Replica, found: dict[int, list[Slice]], target: Key) -> None:
    fresh = Block()
    counter = replica.counter() + 1
    before = (-1, -1)
    for run in merge(found, -1):
        for index in range(run.low, run.high):
            entry_id = run.block.id_at(index)
            if entry_id == before:
                continue
            before = entry_id
            if fresh.count == BLOCK_ENTRIES or fresh.byte_count > BLOCK_BYTES:
                replica.add_block(target, fresh)
                fresh = Block()
            fresh.append(entry_id, counter, run.block.entry(index))
            counter += 1
    replica.add_block(target, fresh)
