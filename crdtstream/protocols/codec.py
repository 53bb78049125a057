"""Encoding of batches and log records: one encoding for the log and the wire.

A payload is a sequence of msgpack objects: a header, then one row for each effect or fact (effect_rows.py,
fact_rows.py). A batch's context is written as what it gained since the origin's previous batch (in the first batch, all
of it), without the component of the batch's own origin, which is always `first - 1`. So a batch names only the origins
that were recently active, however many there ever were. Lists are encoded as columns of bytes, never as msgpack arrays
(see columns.py). Malformed bytes raise `CodecError`, and no other exception; its text says what is wrong.

The counters `first` and `last` of a batch are both inclusive.

Reference: the msgpack specification.
"""

from __future__ import annotations

from typing import Final

import msgpack
from librt.strings import BytesWriter

from crdtstream.core.effects import Batch, Effect, EntriesAdded
from crdtstream.core.local_facts import LocalFact
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.columns import (
    CodecError,
    block_pieces,
    column,
    flat,
    read_bytes,
    read_counter,
    read_dots,
    read_origin,
    read_pairs,
    read_row,
    read_u64,
    read_vector,
    vector_column,
)
from crdtstream.protocols.effect_rows import added_head, effect_row, entries_added_row, read_effect
from crdtstream.protocols.fact_rows import read_fact, write_fact
from crdtstream.protocols.msgpack_writing import write_number, write_row
from crdtstream.protocols.rows import Rows, after_first_row, first_row

__all__ = [
    "ANNOUNCED",
    "BATCH",
    "BEGINNING",
    "FORMAT_VERSION",
    "FOUNDER",
    "GAP",
    "HANDED_OVER",
    "JOINED",
    "LIMITED",
    "LOCAL",
    "NAMED",
    "NEEDED",
    "READABLE",
    "STABLE",
    "STAGED",
    "START",
    "STARTED_OVER",
    "STOP",
    "BatchHeader",
    "CodecError",
    "batch_parts",
    "decode_announced",
    "decode_batch",
    "decode_effects",
    "decode_facts",
    "decode_founder",
    "decode_gap",
    "decode_header",
    "decode_joined",
    "decode_limited",
    "decode_named",
    "decode_number",
    "decode_readable",
    "decode_stable",
    "decode_staged",
    "decode_start",
    "encode_announced",
    "encode_batch",
    "encode_facts",
    "encode_founder",
    "encode_gap",
    "encode_joined",
    "encode_limited",
    "encode_named",
    "encode_number",
    "encode_readable",
    "encode_stable",
    "encode_staged",
    "encode_start",
    "fact_records",
]

FORMAT_VERSION: Final = 4
# The oldest format that is read: later ones add values at the ends of rows, and kinds of effects.
OLDEST_FORMAT: Final = 2
# The oldest format that peers are spoken to in: that of the release before. What only a later format can say must not
# be said before all members read that format.
OLDEST_SENT: Final = 3

# Entries of at least this size together are not copied to be encoded, and pieces of less on average are joined first.
_LARGE_BYTES: Final = 4096
_PART_BYTES_MIN: Final = 2048

# Facts of a turn that take more are several records.
FACTS_BYTES_MAX: Final = 64 << 20

# Kinds of log records.
BATCH: Final = 1
LOCAL: Final = 2
FOUNDER: Final = 3
START: Final = 4
STOP: Final = 5
STAGED: Final = 6
JOINED: Final = 7
# Only in a manifest: what a state transfer brought and this region's log therefore lacks.
GAP: Final = 8
STABLE: Final = 9
STARTED_OVER: Final = 10
HANDED_OVER: Final = 11
# Only in a manifest: the first log position that peers may be served from.
BEGINNING: Final = 12
NAMED: Final = 13
ANNOUNCED: Final = 14
READABLE: Final = 15
# Only in a manifest: the format of batches that what was applied needs.
NEEDED: Final = 16
LIMITED: Final = 17


class BatchHeader:
    """What the gates of the inbox need of a batch: its origin, its counters first..last (both inclusive), and what its
    context gained since the origin's previous batch.
    """

    __slots__ = ("context", "first", "last", "origin")

    def __init__(self, origin: int, first: int, last: int, context: VersionVector) -> None:
        self.origin = origin
        self.first = first
        self.last = last
        self.context = context

    def __repr__(self) -> str:
        return f"BatchHeader({self.origin}, {self.first}..{self.last}, {self.context})"


# Batches


def encode_batch(batch: Batch) -> bytes:
    return b"".join(batch_parts(batch))


def batch_parts(batch: Batch) -> list[bytes]:
    """What joins to the encoded batch. Many or large entries are parts of their own, as they lie in their block."""
    seen = column(flat([dot for dot in batch.context.items() if dot[0] != batch.origin]))
    packer = msgpack.Packer(autoreset=False)
    packer.pack((batch.origin, batch.first, batch.last, seen))
    parts: list[bytes] = []
    for effect in batch.effects:
        if not isinstance(effect, EntriesAdded):
            packer.pack(effect_row(effect))
        elif effect.block.byte_size(effect.low, effect.high) < _LARGE_BYTES:
            packer.pack(entries_added_row(effect))
        else:
            _add_large(parts, packer, effect)
    parts.append(packer.bytes())
    return parts


def _add_large(parts: list[bytes], packer: msgpack.Packer, effect: EntriesAdded) -> None:
    """Add what was packed so far, and the row of these entries, whose bytes are not packed."""
    head = added_head(effect)
    packer.pack_array_header(len(head) + 1)
    for value in head:
        packer.pack(value)
    data = block_pieces(effect.block, effect.low, effect.high)
    if len(data) * _PART_BYTES_MIN > effect.block.byte_size(effect.low, effect.high):
        data = [b"".join(data)]
    parts.append(packer.bytes())
    parts.append(_bytes_header(sum([len(piece) for piece in data])))
    parts += data
    packer.reset()


def _bytes_header(size: int) -> bytes:
    """What msgpack writes before so many bytes; there are at least 256."""
    return b"\xc5" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xc6" + size.to_bytes(4, "big")


def decode_batch(payload: bytes) -> Batch:
    return decode_effects(decode_header(payload), payload)


def decode_effects(header: BatchHeader, payload: bytes) -> Batch:
    """The batch with this header, which was decoded from the same payload before."""
    effects: list[Effect] = []
    counter = header.first
    rows = after_first_row(payload)
    while counter <= header.last:
        effect = read_effect(rows.next(), counter)
        effects.append(effect)
        counter += effect.width
    if counter != header.last + 1:
        raise CodecError(f"the effects take counters {header.first}..{counter - 1}, the header says ..{header.last}")
    rows.end()
    return Batch(header.origin, header.first, header.last, header.context, effects)


def decode_header(payload: bytes) -> BatchHeader:
    """Decode only the header; the effects are not read."""
    origin_value, first_value, last_value, seen = first_row(payload, 4, "batch header")
    origin, first, last = read_dots(origin_value, first_value, last_value)
    return BatchHeader(origin, first, last, _read_context(read_pairs(seen, "context"), origin, first - 1))


def _read_context(dots: list[tuple[int, int]], own_origin: int, own_counter: int) -> VersionVector:
    """What a batch names of others, and of its own origin what came before it."""
    counters = {own_origin: own_counter}
    origin_before = 0
    for origin, counter in dots:
        if read_origin(origin, "context") <= origin_before or origin == own_origin:
            raise CodecError(
                f"context: origin {origin} comes after origin {origin_before} in a batch of origin {own_origin}"
            )
        counters[origin] = read_counter(counter, "context")
        origin_before = origin
    return VersionVector(counters)


# Other records


def encode_facts(facts: list[tuple[int, LocalFact]], through: int) -> bytes:
    """The (stamp, fact) pairs in the order in which they were made, and the local counter at the end of their turn."""
    writer = BytesWriter()
    write_row(writer, 2)
    write_number(writer, len(facts))
    write_number(writer, through)
    for stamp, fact in facts:
        write_fact(writer, stamp, fact)
    return writer.getvalue()


def fact_records(facts: list[tuple[int, LocalFact]], through: int) -> list[bytes]:
    """The facts of a turn as one record, or as several if they are large, because a record is shorter than 4 GiB."""
    whole = encode_facts(facts, through)
    if len(whole) <= FACTS_BYTES_MAX or len(facts) == 1:
        return [whole]
    middle = len(facts) // 2
    return fact_records(facts[:middle], through) + fact_records(facts[middle:], through)


def decode_facts(payload: bytes) -> tuple[list[tuple[int, LocalFact]], int]:
    rows = Rows(payload)
    count, through = rows.row(2, "header of facts")
    facts = [read_fact(rows.next()) for _ in range(read_u64(count, "count of facts"))]
    rows.end()
    return facts, read_u64(through, "end of the facts' turn")


def encode_founder(origin: int) -> bytes:
    """One of the origins that founded the cluster."""
    return msgpack.packb((origin,))


def decode_founder(payload: bytes) -> int:
    rows = Rows(payload)
    (origin,) = rows.row(1, "founder")
    rows.end()
    return read_origin(origin, "founder")


def encode_named(region: int, count: int, name: str) -> bytes:
    """The name of a region, and the count of the origin that has it."""
    return msgpack.packb((region, count, name.encode()))


def decode_named(payload: bytes) -> tuple[int, int, str]:
    rows = Rows(payload)
    region, count, name = rows.row(3, "name of a region")
    rows.end()
    return read_u64(region, "region"), read_u64(count, "count of origins"), read_bytes(name, "name").decode()


def encode_announced(region: int, count: int, addresses: tuple[tuple[str, str], ...]) -> bytes:
    """The addresses that a region announced, by listener, and the count of the origin that it did so with."""
    return msgpack.packb((region, count, [text.encode() for pair in addresses for text in pair]))


def decode_announced(payload: bytes) -> tuple[int, int, tuple[tuple[str, str], ...]]:
    rows = Rows(payload)
    region, count, texts = rows.row(3, "addresses of a region")
    rows.end()
    if not isinstance(texts, tuple) or len(texts) % 2:
        raise CodecError("addresses of a region are not pairs")
    words = [read_bytes(text, "address").decode() for text in texts]
    pairs = tuple(zip(words[::2], words[1::2], strict=True))
    return read_u64(region, "region"), read_u64(count, "count of origins"), pairs


def encode_readable(region: int, count: int, format_version: int) -> bytes:
    """The highest format of batches that a region reads, and the count of the origin that it did so with."""
    return msgpack.packb((region, count, format_version))


def decode_readable(payload: bytes) -> tuple[int, int, int]:
    rows = Rows(payload)
    region, count, format_version = rows.row(3, "format of a region")
    rows.end()
    return read_u64(region, "region"), read_u64(count, "count of origins"), read_u64(format_version, "format version")


def encode_limited(origin: int, count: int, batch_bytes_max: int) -> bytes:
    """How large a batch another origin takes, and the number of earlier origins of its region."""
    return msgpack.packb((origin, count, batch_bytes_max))


def decode_limited(payload: bytes) -> tuple[int, int, int]:
    rows = Rows(payload)
    origin, count, batch_bytes_max = rows.row(3, "limit of an origin")
    rows.end()
    return read_u64(origin, "origin"), read_u64(count, "count of origins"), read_u64(batch_bytes_max, "batch limit")


def encode_start(origin: int, count: int) -> bytes:
    """From here on the log is written under this origin; `count` is the number of earlier origins of its region."""
    return msgpack.packb((FORMAT_VERSION, origin, count))


def decode_start(payload: bytes) -> tuple[int, int]:
    """The origin and its count. The format version comes first, because a row in a later format cannot be read on."""
    rows = Rows(payload)
    row = rows.next()
    format_version = read_u64(row[0], "format version")
    if not OLDEST_FORMAT <= format_version <= FORMAT_VERSION:
        read = f"this build reads formats {OLDEST_FORMAT} to {FORMAT_VERSION}"
        raise CodecError(f"format {format_version}; {read}")
    _, origin, count = read_row(row, 3, "start")
    rows.end()
    return (read_origin(origin, "origin"), read_u64(count, "count of origins"))


# State transfers


def encode_staged(region: int, transfer: int, index: int, chunk: bytes) -> bytes:
    """One chunk of a region's state; the state is joined after its last chunk."""
    return msgpack.packb((region, transfer, index, chunk))


def decode_staged(payload: bytes) -> tuple[int, int, int, bytes]:
    rows = Rows(payload)
    region, transfer, index, chunk = rows.row(4, "staged chunk")
    rows.end()
    numbers = (read_u64(region, "region"), read_u64(transfer, "transfer"), read_u64(index, "index"))
    return (*numbers, read_bytes(chunk, "chunk"))


def encode_joined(transfer: int, gap: VersionVector) -> bytes:
    """The staged chunks of this transfer are joined here; `gap` is what the vector gained: the origins that grew, with
    their new counters. The log lacks the batches of these, since the state was not made from batches.
    """
    return msgpack.packb((transfer, vector_column(gap)))


def decode_joined(payload: bytes) -> tuple[int, VersionVector]:
    rows = Rows(payload)
    transfer, gap = rows.row(2, "join")
    rows.end()
    return (read_u64(transfer, "transfer"), read_vector(gap))


def encode_number(number: int) -> bytes:
    """The only number of a record about starting over: the transfer whose state replaces all earlier state, how many
    groups are still to be handed over, the first log position that peers may be served from, or a format of batches.
    """
    return msgpack.packb((number,))


def decode_number(payload: bytes, what: str) -> int:
    rows = Rows(payload)
    (number,) = rows.row(1, what)
    rows.end()
    return read_u64(number, what)


def encode_gap(position: int, gap: VersionVector) -> bytes:
    """What the state joined at this log position brought, and the log therefore lacks."""
    return msgpack.packb((position, vector_column(gap)))


def decode_gap(payload: bytes) -> tuple[int, VersionVector]:
    rows = Rows(payload)
    position, gap = rows.row(2, "gap")
    rows.end()
    return (read_counter(position, "position"), read_vector(gap))


def encode_stable(looked: int, stable: VersionVector) -> bytes:
    """What was stable when garbage collection visited `looked` keys."""
    return msgpack.packb((looked, vector_column(stable)))


def decode_stable(payload: bytes) -> tuple[int, VersionVector]:
    rows = Rows(payload)
    looked, stable = rows.row(2, "stable")
    rows.end()
    return (read_counter(looked, "looked"), read_vector(stable))
