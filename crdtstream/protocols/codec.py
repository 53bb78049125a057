"""Batches and records to bytes and back: one encoding for log and wire.

A payload is msgpack objects, one after the other: a header, then one row for each effect or fact (effect_rows.py,
fact_rows.py). The context is written without its own part, which is always `first - 1`. Lists travel as columns of
bytes, never as msgpack arrays (see rows.py). Bad bytes raise `CodecError` with what was wrong, and nothing else.

Counters `first` and `last` of a batch are both inclusive.

Reference: the msgpack specification.
"""

from __future__ import annotations

from typing import Final

import msgpack

from crdtstream.core.causality import Origin, VersionVector
from crdtstream.core.effects import Batch, Effect, LocalFact
from crdtstream.protocols.columns import (
    CodecError,
    column,
    flat,
    paired,
    read_bytes,
    read_column,
    read_counter,
    read_flag,
    read_int,
    read_row,
    read_slot,
    read_u64,
)
from crdtstream.protocols.effect_rows import Row, effect_row, read_effect
from crdtstream.protocols.fact_rows import fact_row, read_fact
from crdtstream.protocols.rows import Rows, TooShort

__all__ = [
    "BATCH",
    "BIRTH",
    "FORMAT_VERSION",
    "GAP",
    "JOINED",
    "LOCAL",
    "STAGED",
    "START",
    "STOP",
    "BatchHeader",
    "CodecError",
    "decode_batch",
    "decode_facts",
    "decode_gap",
    "decode_header",
    "decode_joined",
    "decode_origin",
    "decode_staged",
    "decode_start",
    "encode_batch",
    "encode_facts",
    "encode_gap",
    "encode_joined",
    "encode_origin",
    "encode_staged",
    "encode_start",
]

FORMAT_VERSION: Final = 1

# Kinds of log records.
BATCH: Final = 1
LOCAL: Final = 2
BIRTH: Final = 3
START: Final = 4
STOP: Final = 5
STAGED: Final = 6
JOINED: Final = 7
# A record of a manifest alone.
GAP: Final = 8

_HEADER_BYTES: Final = 512


class BatchHeader:
    """What the gates ask of a batch: its origin, its counters first..last (both inclusive), its context."""

    __slots__ = ("context", "first", "last", "nonce", "slot")

    def __init__(self, slot: int, nonce: int, first: int, last: int, context: VersionVector) -> None:
        self.slot = slot
        self.nonce = nonce
        self.first = first
        self.last = last
        self.context = context

    def __repr__(self) -> str:
        return f"BatchHeader({self.slot}, {self.nonce:#x}, {self.first}..{self.last}, {self.context})"


# Batches


def encode_batch(batch: Batch, nonce: int) -> bytes:
    assert batch.context.get(batch.slot) == batch.first - 1, "the context's own part is not first - 1"
    seen = column(flat([dot for dot in batch.context.items() if dot[0] != batch.slot]))
    packer = msgpack.Packer(autoreset=False)
    packer.pack((batch.slot, nonce, batch.first, batch.last, seen))
    for effect in batch.effects:
        packer.pack(effect_row(effect))
    return packer.bytes()


def decode_batch(payload: bytes) -> Batch:
    rows = Rows(payload)
    header = _read_header(rows.next())
    effects: list[Effect] = []
    counter = header.first
    while counter <= header.last:
        effect = read_effect(rows.next(), counter)
        effects.append(effect)
        counter += effect.width()
    if counter != header.last + 1:
        raise CodecError(f"the effects take counters {header.first}..{counter - 1}, the header says ..{header.last}")
    rows.end()
    return Batch(header.slot, header.first, header.last, header.context, effects)


def decode_header(payload: bytes) -> BatchHeader:
    """The header alone, without a look at the effects."""
    try:
        return _read_header(Rows(payload[:_HEADER_BYTES]).next())
    except TooShort:
        return _read_header(Rows(payload).next())


def _read_header(row: Row) -> BatchHeader:
    slot_value, nonce, first_value, last_value, seen = read_row(row, 5, "batch header")
    slot = read_slot(slot_value, "batch slot")
    first = read_counter(first_value, "first counter")
    last = read_counter(last_value, "last counter")
    if last < first:
        raise CodecError(f"the last counter, {last}, is below the first, {first}")
    context = _read_context(paired(read_column(seen, "context", 2)), slot)
    context.advance(slot, first - 1)
    return BatchHeader(slot, read_u64(nonce, "nonce"), first, last, context)


def _read_context(dots: list[tuple[int, int]], own_slot: int) -> VersionVector:
    context = VersionVector()
    slot_before = 0
    for slot, counter in dots:
        if read_slot(slot, "context") <= slot_before or slot == own_slot:
            raise CodecError(f"context: slot {slot} follows slot {slot_before} in a batch of slot {own_slot}")
        context.advance(slot, read_counter(counter, "context"))
        slot_before = slot
    return context


# Other records


def encode_facts(facts: list[tuple[int, LocalFact]], through: int) -> bytes:
    """(stamp, fact), in the order in which they were made, and the counter that ends their turn."""
    packer = msgpack.Packer(autoreset=False)
    packer.pack((len(facts), through))
    for stamp, fact in facts:
        packer.pack(fact_row(stamp, fact))
    return packer.bytes()


def decode_facts(payload: bytes) -> tuple[list[tuple[int, LocalFact]], int]:
    rows = Rows(payload)
    count, through = read_row(rows.next(), 2, "header of facts")
    facts = [read_fact(rows.next()) for _ in range(read_u64(count, "count of facts"))]
    rows.end()
    return facts, read_u64(through, "end of the facts' turn")


def encode_origin(origin: Origin, own: bool) -> bytes:
    """A birth; `own` when the log's node is that origin."""
    return msgpack.packb((origin.region, origin.incarnation, origin.nonce, own))


def decode_origin(payload: bytes) -> tuple[Origin, bool]:
    rows = Rows(payload)
    region, incarnation, nonce, own = read_row(rows.next(), 4, "birth")
    rows.end()
    try:
        origin = Origin(read_int(region, "region"), read_int(incarnation, "incarnation"), read_u64(nonce, "nonce"))
    except ValueError as error:
        raise CodecError(str(error)) from error
    return (origin, read_flag(own, "own"))


def encode_start(boot_id: bytes, fsync: str) -> bytes:
    """Under which boot of the machine and which fsync policy the log is written from here on."""
    return msgpack.packb((FORMAT_VERSION, boot_id, fsync.encode()))


def decode_start(payload: bytes) -> tuple[bytes, str]:
    """The boot ID and the policy. The format comes first: what follows is known for this build's own format only."""
    rows = Rows(payload)
    row = rows.next()
    format_version = read_u64(row[0], "format version")
    if format_version != FORMAT_VERSION:
        raise CodecError(f"format {format_version}; this build reads and writes format {FORMAT_VERSION}")
    _, boot_id, fsync = read_row(row, 3, "start")
    rows.end()
    try:
        return (read_bytes(boot_id, "boot ID"), read_bytes(fsync, "fsync policy").decode())
    except UnicodeDecodeError as error:
        raise CodecError("fsync policy: no UTF-8") from error


# State transfers


def encode_staged(region: int, transfer: int, index: int, chunk: bytes) -> bytes:
    """A chunk of the state of a region, which is joined after the last one."""
    return msgpack.packb((region, transfer, index, chunk))


def decode_staged(payload: bytes) -> tuple[int, int, int, bytes]:
    rows = Rows(payload)
    region, transfer, index, chunk = read_row(rows.next(), 4, "staged chunk")
    rows.end()
    numbers = (read_u64(region, "region"), read_u64(transfer, "transfer"), read_u64(index, "index"))
    return (*numbers, read_bytes(chunk, "chunk"))


def encode_joined(transfer: int, gap: VersionVector) -> bytes:
    """The staged chunks are joined here; `gap` is what the vector grew by, the counters of the slots that did."""
    return msgpack.packb((transfer, _vector_column(gap)))


def decode_joined(payload: bytes) -> tuple[int, VersionVector]:
    rows = Rows(payload)
    transfer, gap = read_row(rows.next(), 2, "join")
    rows.end()
    return (read_u64(transfer, "transfer"), _read_vector(gap))


def encode_gap(position: int, gap: VersionVector) -> bytes:
    """What the join at this position of the log brought."""
    return msgpack.packb((position, _vector_column(gap)))


def decode_gap(payload: bytes) -> tuple[int, VersionVector]:
    rows = Rows(payload)
    position, gap = read_row(rows.next(), 2, "gap")
    rows.end()
    return (read_counter(position, "position"), _read_vector(gap))


def _vector_column(vector: VersionVector) -> bytes:
    return column(flat(vector.items()))


def _read_vector(value: object) -> VersionVector:
    vector = VersionVector()
    for slot, counter in paired(read_column(value, "vector", 2)):
        vector.advance(read_slot(slot, "vector"), read_counter(counter, "vector"))
    return vector
