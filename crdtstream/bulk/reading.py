"""Reading intervals of seqs, one message at a time.

The stream may change between two messages, so each one finds its place by the last seq of the previous one. Entries
removed in between are skipped; added entries have higher seqs. Missing seqs between entries are no loss: they belong to
other streams, to other effects, or to entries that were removed.
"""

from __future__ import annotations

from array import array
from typing import Final

from crdtstream.bulk.columns import U32, column_of
from crdtstream.bulk.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, BulkError
from crdtstream.bulk.heads import tree_of
from crdtstream.connections.context import Context
from crdtstream.core.effects import Key
from crdtstream.core.entries.block import Block, demand_blocks
from crdtstream.core.entries.slices import Slice
from crdtstream.core.values.causality import origin_name
from crdtstream.protocols.columns import column_bytes

# The most entries read within a turn, however small they are.
ENTRIES_MAX: Final = 16_384


class StreamInterval:
    """The entries of one origin with `after < seq <= through`."""

    __slots__ = ("after", "key", "origin", "through")

    def __init__(self, key: Key, origin: int, after: int, through: int) -> None:
        if after > through:
            raise BulkError(INVALID_ARGUMENT, f"an interval begins after {after}, but ends before that, at {through}")
        self.key = key
        self.origin = origin
        self.after = after
        self.through = through


class Portion:
    """Consecutive entries, in the columns of the contract."""

    __slots__ = ("count", "data", "ends", "id_seqs", "last_seq", "ms", "seqs")

    def __init__(self, parts: list[Slice]) -> None:
        ms, id_seqs, seqs, ends = array("Q"), array("Q"), array("Q"), array("Q")
        chunks: list[bytes] = []
        end = 0
        for part in parts:
            block, low, high = part.block, part.low, part.high
            columns = block.id_columns(low, high)
            ms += columns[0]
            id_seqs += columns[1]
            seqs.extend(block.counters(low, high))
            shift = end - block.start_of(low)
            ends.extend(block.ends(low, high) if shift == 0 else [at + shift for at in block.ends(low, high)])
            chunks.append(part.entries())
            end += len(chunks[-1])
        self.count = len(seqs)
        self.last_seq = seqs[-1]
        self.ms = column_bytes(ms)
        self.id_seqs = column_bytes(id_seqs)
        self.seqs = column_bytes(seqs)
        self.ends = column_of(ends, U32)
        self.data = b"".join(chunks)


def require_applied(context: Context, interval: StreamInterval) -> None:
    """Reject an interval that this region has not fully applied: entries not received yet would look like
    removed ones.
    """
    applied = context.replica.applied.vector.get(interval.origin)
    if applied < interval.through:
        name = origin_name(interval.origin)
        raise BulkError(
            FAILED_PRECONDITION,
            f"this region has applied origin {name} up to seq {applied}, but the interval ends at {interval.through}:"
            " wait until it has applied more, or read from another region",
        )


def demand_next(parts: list[Slice], bytes_max: int) -> None:
    """Have the spilled blocks of about the first `bytes_max` bytes read together."""
    blocks: list[Block] = []
    for part in parts:
        if bytes_max <= 0:
            break
        blocks.append(part.block)
        bytes_max -= part.block.byte_count
    demand_blocks(blocks)


def viewed(part: Slice) -> Slice:
    """The same, of a view if the block is spilled: a scan closes no block that others have open."""
    return Slice(part.block.viewed(), part.low, part.high) if part.block.is_spilled() else part


def portion_after(context: Context, interval: StreamInterval, after: int, bytes_max: int) -> Portion | None:
    """Return the next entries of the interval, about `bytes_max` bytes; None if there are no more."""
    tree = tree_of(context.replica.keyspace.find(interval.key), interval.origin)
    parts: list[Slice] = []
    size = 0
    found = tree.slices_between(after + 1, interval.through, ENTRIES_MAX)
    demand_next(found, bytes_max)
    for part in map(viewed, found):
        whole = part.block.byte_size(part.low, part.high)
        if size + whole > bytes_max:
            if not parts:
                parts.append(Slice(part.block, part.low, part.block.fitting(part.low, part.high, bytes_max)))
            break
        parts.append(part)
        size += whole
    return Portion(parts) if parts else None
