"""Upper bounds of what copies of whole streams take in a batch: RENAME, COPY, MOVE, SWAPDB and RESTORE."""

from __future__ import annotations

from crdtstream.core.entries.block import BLOCK_BYTES, BLOCK_ENTRIES
from crdtstream.core.group_copy import GroupCopies
from crdtstream.core.sizes import (
    COUNT_BYTES,
    EFFECT_BYTES,
    ENTRY_BYTES,
    INTERVAL_BYTES,
    ORIGIN_BYTES,
    OTHER_EFFECTS,
    START_BYTES,
    values_bytes,
)
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN


def blocks_bytes(entries: int, byte_count: int, blocks: int, name: bytes) -> int:
    """Entries of so many bytes, written again block by block under this name."""
    effects = blocks + entries // BLOCK_ENTRIES + byte_count // BLOCK_BYTES + OTHER_EFFECTS
    return byte_count + ENTRY_BYTES * entries + effects * (EFFECT_BYTES + len(name))


def copy_bytes(stream: Stream, name: bytes) -> int:
    """The entries of a stream under another name, without its groups, and the DEL of both."""
    byte_count = blocks = 0
    for tree in stream.trees.values():
        byte_count += tree.byte_count
        blocks += len(tree.slices(ID_MIN, ID_MAX, -1, False))
    deleted = 2 * COUNT_BYTES * len(stream.metas)
    values = {} if stream.properties is None else stream.properties.values()
    return blocks_bytes(stream.length, byte_count, blocks, name) + deleted + values_bytes(values)


def groups_bytes(copies: GroupCopies, name: bytes) -> int:
    """The groups of a copy under this name."""
    size = 0
    for group in copies.groups:
        pieces = len(group.settled.pairs())
        size += 3 * (EFFECT_BYTES + len(name) + len(group.name) + ORIGIN_BYTES) + START_BYTES + INTERVAL_BYTES * pieces
        size += values_bytes(group.properties)
    return size


def deletion_bytes(stream: Stream, name: bytes) -> int:
    return EFFECT_BYTES + len(name) + COUNT_BYTES * len(stream.metas)
