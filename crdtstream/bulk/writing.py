"""Rows become entries: IDs by arithmetic, blocks of bytes, one effect for each block.

A slice of rows is added completely and within one turn: everything that could reject it is checked before anything
changes. The rows of one stream keep their order; in a slice with several streams, rows are added stream by stream.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from crdtstream.bulk.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, BulkError, refused_as, require_writable
from crdtstream.bulk.rows import EntryRows
from crdtstream.connections.context import CommandError, Context
from crdtstream.connections.minting import EXHAUSTED, NOT_ABOVE, STRICT_ID, ZERO_ID, minted, top_of
from crdtstream.core.effects import Key
from crdtstream.core.entries.block import BLOCK_BYTES, BLOCK_ENTRIES, Block
from crdtstream.core.entries.encoding import fields_at
from crdtstream.core.replica import Replica
from crdtstream.core.sizes import EFFECT_BYTES, ENTRY_BYTES, ID_TEXT_BYTES
from crdtstream.core.values.batch_budget import excess
from crdtstream.core.values.entry_id import ID_MIN, LIBERAL, SEQ_MODULUS, STRICT, U64_MAX, EntryId

# Below this many rows of a stream, a block of their own costs more than appending them one by one.
FEW_ROWS: Final = 4


class Added:
    """Counts of added and skipped rows; `last_seq` is 0 until a row is added."""

    __slots__ = ("added", "last_seq", "skipped")

    def __init__(self) -> None:
        self.added = 0
        self.skipped = 0
        self.last_seq = 0


class Plan:
    """The rows of one slice that go to one stream, and their IDs."""

    __slots__ = ("id_seqs", "indexes", "key", "ms")

    def __init__(self, key: Key, indexes: Sequence[int], ms: array[int], id_seqs: array[int]) -> None:
        self.key = key
        self.indexes = indexes
        self.ms = ms
        self.id_seqs = id_seqs


def add_slice(context: Context, rows: EntryRows, low: int, high: int, added: Added) -> None:
    """Add the validated rows [low, high), or raise BulkError and change nothing."""
    require_writable(context)
    require_slice_fit(context, rows, low, high)
    plans = [plan_of(context, rows, key, indexes) for key, indexes in rows.by_stream(low, high)]
    pieces = rows.pieces(low, high)
    kept = 0
    for plan in plans:
        if len(plan.indexes):
            chosen = [pieces[index - low] for index in plan.indexes]
            add_entries(context.replica, plan.key, plan.ms, plan.id_seqs, chosen)
            kept += len(plan.indexes)
    if kept:
        added.last_seq = context.replica.applied.counter()
    added.added += kept
    added.skipped += high - low - kept


def require_slice_fit(context: Context, rows: EntryRows, low: int, high: int) -> None:
    """Raise if these rows do not fit into one batch, which every region must take."""
    budget = context.replica.budget
    size = slice_bytes(rows, low, high)
    if not budget.allow(size):
        what = f"a slice of {high - low} rows" if high - low > 1 else f"row {low}"
        raise BulkError(INVALID_ARGUMENT, excess(budget, what, size, "send smaller rows"))


def slice_bytes(rows: EntryRows, low: int, high: int) -> int:
    """An upper bound of what these rows take in a batch."""
    names = [len(key[1]) for key, _ in rows.by_stream(low, high)]
    data = rows.start_of(high) - rows.start_of(low)
    # Each stream may need some blocks, and a hidden key goes first.
    effects = data // BLOCK_BYTES + 3
    return data + (ID_TEXT_BYTES + ENTRY_BYTES) * (high - low) + effects * sum([EFFECT_BYTES + name for name in names])


# IDs


def plan_of(context: Context, rows: EntryRows, key: Key, indexes: Sequence[int]) -> Plan:
    top = top_of(context, key)
    if rows.has_ids():
        return given_ids(context, rows, key, indexes, top)
    ms, id_seqs = minted_ids(context, top, len(indexes))
    return Plan(key, indexes, ms, id_seqs)


def minted_ids(context: Context, top: EntryId, count: int) -> tuple[array[int], array[int]]:
    """Mint IDs as XADD * would in this millisecond; within one millisecond they are an arithmetic progression."""
    stride = 1 if context.settings.config.id_mode == LIBERAL else SEQ_MODULUS
    ms, id_seqs = array("Q"), array("Q")
    while count:
        try:
            first_ms, first = minted(context, top)
        except CommandError as error:
            raise refused_as(FAILED_PRECONDITION, error) from error
        # How many IDs the progression has left before it exceeds 64 bits.
        run = min(count, (U64_MAX - first) // stride + 1)
        ms.extend(array("Q", [first_ms]) * run)
        id_seqs.extend(array("Q", range(first, first + run * stride, stride)))
        top = (first_ms, id_seqs[-1])
        count -= run
    return ms, id_seqs


def given_ids(context: Context, rows: EntryRows, key: Key, indexes: Sequence[int], top: EntryId) -> Plan:
    """Check IDs chosen by a client: each must be above all others in its stream, or is skipped if the client asks for
    that.
    """
    if context.settings.config.id_mode == STRICT:
        raise refused_as(INVALID_ARGUMENT, CommandError(STRICT_ID))
    kept: list[int] = []
    for index in indexes:
        entry_id = (rows.ms[index], rows.id_seqs[index])
        if entry_id > top:
            kept.append(index)
            top = entry_id
        elif not rows.skip_lower_ids:
            raise refused_as(INVALID_ARGUMENT, CommandError(fault_of(entry_id, top)), f"row {index}: ")
    ms = array("Q", [rows.ms[index] for index in kept])
    return Plan(key, kept, ms, array("Q", [rows.id_seqs[index] for index in kept]))


def fault_of(entry_id: EntryId, top: EntryId) -> str:
    if entry_id == ID_MIN:
        return ZERO_ID
    return EXHAUSTED if top == (U64_MAX, U64_MAX) else NOT_ABOVE


# Blocks


def add_entries(replica: Replica, key: Key, ms: array[int], id_seqs: array[int], pieces: list[bytes]) -> None:
    """Append at least one entry with these IDs, which are above all others."""
    if len(pieces) < FEW_ROWS:
        for at, piece in enumerate(pieces):
            replica.add_entry(key, (ms[at], id_seqs[at]), fields_at(piece, 0))
        return
    replica.freshen(key)
    entries = encoded(ms, id_seqs, pieces)
    ends = list(accumulate(map(len, entries)))
    low = start = 0
    while low < len(entries):
        high = min(low + BLOCK_ENTRIES, len(entries))
        high = max(bisect_right(ends, start + BLOCK_BYTES, low, high), low + 1)
        counter = replica.applied.counter() + 1
        block_ends = array("Q", accumulate(map(len, entries[low:high])))
        data = b"".join(entries[low:high])
        numbers = range(counter, counter + high - low)
        replica.add_block(key, Block.of_columns(ms[low:high], id_seqs[low:high], numbers, block_ends, data))
        low, start = high, ends[high - 1]
    stream = replica.keyspace.find(key)
    assert stream is not None, "a stream that has entries is not there"


def encoded(ms: array[int], id_seqs: array[int], pieces: list[bytes]) -> list[bytes]:
    """Encode each row with its ID before it, as in a reply. Within a millisecond the encoded beginning is reused while
    the sequence numbers have the same number of digits.
    """
    entries: list[bytes] = []
    start = b""
    start_ms, end = -1, 0
    for at, piece in enumerate(pieces):
        id_ms, seq = ms[at], id_seqs[at]
        if id_ms != start_ms or seq >= end:
            digits = len(str(seq))
            start_ms, end = id_ms, 10**digits
            start = b"*2\r\n$%d\r\n%d-" % (len(str(id_ms)) + 1 + digits, id_ms)
        entries.append(b"%b%d\r\n%b" % (start, seq, piece))
    return entries
