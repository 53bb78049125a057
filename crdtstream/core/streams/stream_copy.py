"""Copying a stream: RENAME and COPY write the merged entries into the local origin's tree of the target.

The copy has one entry for each ID (of duplicates the lowest origin's), and the last ID, entries-added, max-deleted ID,
expiry and properties of the source as this region sees it; groups are not copied. The copy counts as an add even when
it is empty. An existing target is deleted first. Everything is prepared within one turn, so other regions apply it as a
whole.

If two regions concurrently copy one stream to the same name, both copies stay: each ID then exists twice, once in each
region's tree. What other regions concurrently write to the source stays in the source.
"""

from __future__ import annotations

from array import array

from crdtstream.core.effects import Key
from crdtstream.core.entries.block import BLOCK_BYTES, BLOCK_ENTRIES, Block
from crdtstream.core.entries.merging import ChainRange, merge
from crdtstream.core.entries.slices import Slice
from crdtstream.core.replica import Replica
from crdtstream.core.streams.expiry import NO_EXPIRY
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId


def copy_stream(replica: Replica, source: Stream, target: Key) -> None:
    """Copy `source` to the key `target`, which names another stream."""
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
    if source.properties is not None:
        replica.set_stream_properties(target, source.properties.values())


def last_id(replica: Replica, source: Stream, target: Key) -> EntryId:
    """The source's last ID, or the target's where that is higher: a concurrent XSETID may have survived the DEL."""
    stream = replica.keyspace.find(target)
    assert stream is not None, "the copy does not exist"
    return max(source.top, stream.top)


def copy_entries(replica: Replica, source: Stream, target: Key) -> None:
    """Copy block by block; entries of several chains are merged first."""
    chain_ranges = source.chain_ranges(ID_MIN, ID_MAX, -1, False)
    if len(chain_ranges) > 1:
        copy_merged(replica, chain_ranges, target)
        return
    for tree in chain_ranges[0]:
        for part in tree.slices:
            replica.add_block(target, renumbered(part, replica.applied.counter() + 1))


def renumbered(part: Slice, counter: int) -> Block:
    block, low, high = part.block, part.low, part.high
    start = block.start_of(low)
    ms, seq = block.id_columns(low, high)
    ends = array("Q", [end - start for end in block.ends(low, high)])
    return Block.of_columns(ms, seq, range(counter, counter + high - low), ends, block.entry_slice(low, high))


def copy_merged(replica: Replica, chain_ranges: list[ChainRange], target: Key) -> None:
    fresh = Block()
    counter = replica.applied.counter() + 1
    before = (-1, -1)
    for run in merge(chain_ranges, -1):
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
