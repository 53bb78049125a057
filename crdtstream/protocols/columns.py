"""Columns: sequences of unsigned 64-bit integers as bytes, and checked reading of decoded values.

A *column* is little-endian with 8 bytes for each integer, on every machine. Lists are encoded as columns rather than as
msgpack arrays: they are copied at the speed of memory, and a declared count cannot make a reader reserve memory that
the bytes themselves do not fill.

A *grouped column* holds one list of integers for each origin: origin, n, then n integers, repeated, with origins
ascending.

Blocks, keys and counts of adds are what rows of many kinds share, so they are written and read here too.

Every reader here takes an `object` decoded by msgpack and raises `CodecError` with the reason if it is not as expected.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain
from typing import Final

from crdtstream.core.effects import Key
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.uint_encoding import LITTLE, in_order
from crdtstream.core.keyspace import DATABASES
from crdtstream.core.values.causality import VersionVector, is_origin
from crdtstream.core.values.entry_id import U64_MAX, EntryId

_LANE_ONE: Final = b"\x01\x00\x00\x00\x00\x00\x00\x00"
_LANES: Final = 256
_ONES: Final = int.from_bytes(_LANE_ONE * _LANES, "little")


class CodecError(ValueError):
    """Bytes that are not a valid batch or record of this format; the text says what is wrong with them."""


def column(values: Iterable[int]) -> bytes:
    return column_bytes(array("Q", values))


def column_bytes(values: array[int]) -> bytes:
    return in_order(values).tobytes()


def shifted_down(values: array[int], by: int) -> bytes:
    """The column of `values` with `by` subtracted from each; no value may be below `by`.

    The column is treated as one long integer with a lane of 64 bits for each value: one subtraction instead of a loop.
    """
    if by == 0:
        return column_bytes(values)
    count = len(values)
    ones = _ONES >> 64 * (_LANES - count) if count <= _LANES else int.from_bytes(_LANE_ONE * count, "little")
    return (int.from_bytes(column_bytes(values), "little") - by * ones).to_bytes(8 * count, "little")


def grouped_column(origins: Iterable[tuple[int, list[int]]]) -> bytes:
    values = array("Q")
    for origin, numbers in origins:
        values.append(origin)
        values.append(len(numbers))
        values.fromlist(numbers)
    return column_bytes(values)


# Reading


def read_column(value: object, what: str, width: int = 1) -> array[int]:
    """The integers of a column whose rows have `width` integers each."""
    if not isinstance(value, bytes):
        raise CodecError(f"{what}: expected bytes, not {type(value).__name__}")
    if len(value) % (8 * width):
        raise CodecError(f"{what}: {len(value)} bytes are not a whole number of {8 * width}-byte rows")
    values = array("Q", value)
    if not LITTLE:
        values.byteswap()
    return values


def require_ascending(values: array[int], what: str) -> None:
    """Raise unless values ascend; equal neighbours are allowed. Sorting sorted numbers is the fastest full check."""
    numbers = values.tolist()
    if numbers != sorted(numbers):
        raise CodecError(f"{what} do not ascend")


def read_grouped(value: object, what: str, width: int) -> dict[int, array[int]]:
    """origin -> its integers, whose number is a multiple of `width`."""
    values = read_column(value, what)
    groups: dict[int, array[int]] = {}
    offset = origin_before = 0
    while offset < len(values):
        if offset + 2 > len(values) or values[offset + 1] > len(values) - offset - 2 or values[offset + 1] % width:
            raise CodecError(f"{what}: a group does not fit its column")
        origin = read_origin(values[offset], what)
        if origin <= origin_before:
            raise CodecError(f"{what}: origin {origin} comes after origin {origin_before}")
        end = offset + 2 + values[offset + 1]
        groups[origin] = values[offset + 2 : end]
        offset, origin_before = end, origin
    return groups


def read_bytes(value: object, what: str) -> bytes:
    if not isinstance(value, bytes):
        raise CodecError(f"{what}: expected bytes, not {type(value).__name__}")
    return value


def read_int(value: object, what: str) -> int:
    """An integer of at most 64 bits, signed or unsigned: msgpack has no larger ones."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise CodecError(f"{what}: expected an integer, not {type(value).__name__}")
    return value


def read_u64(value: object, what: str) -> int:
    if type(value) is int and 0 <= value <= U64_MAX:
        return value
    raise CodecError(f"{what}: {read_int(value, what)} is not an unsigned 64-bit integer")


def read_flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise CodecError(f"{what}: expected a flag, not {type(value).__name__}")
    return value


def read_origin(value: object, what: str) -> int:
    """An origin; its lowest byte, the region number, is not 0."""
    if type(value) is int and is_origin(value):
        return value
    raise CodecError(f"{what}: {read_int(value, what)} is not an origin")


def read_counter(value: object, what: str) -> int:
    if type(value) is int and 0 < value <= U64_MAX:
        return value
    read_u64(value, what)
    raise CodecError(f"{what}: counters begin at 1")


def text_columns(texts: list[bytes]) -> tuple[bytes, bytes]:
    """Texts as a column of their lengths, and their bytes."""
    return column([len(text) for text in texts]), b"".join(texts)


def read_texts(lengths: object, data: object, what: str) -> list[bytes]:
    texts, low, content = [], 0, read_bytes(data, what)
    for length in read_column(lengths, what):
        texts.append(content[low : low + length])
        low += length
    if low != len(content):
        raise CodecError(f"{what}: {len(content)} bytes for texts of {low}")
    return texts


def read_dots(origin_value: object, first_value: object, last_value: object) -> tuple[int, int, int]:
    """The dots of a batch: its origin, and a range of counters, both inclusive."""
    origin = read_origin(origin_value, "batch origin")
    first, last = read_counter(first_value, "first counter"), read_counter(last_value, "last counter")
    if last < first:
        raise CodecError(f"the last counter, {last}, is below the first, {first}")
    return origin, first, last


def read_row(value: object, size: int, what: str) -> tuple[object, ...]:
    if not isinstance(value, tuple) or len(value) != size:
        raise CodecError(f"{what}: not a row of {size} values")
    return value


def read_id(value: object, what: str) -> EntryId:
    ms, seq = read_row(value, 2, what)
    return (read_u64(ms, what), read_u64(seq, what))


# Pairs: entry IDs, dots, ranges


def flat(pairs: Iterable[tuple[int, int]]) -> list[int]:
    return list(chain.from_iterable(pairs))


def read_pairs(value: object, what: str) -> list[tuple[int, int]]:
    return paired(read_column(value, what, 2))


def paired(values: array[int]) -> list[tuple[int, int]]:
    return list(zip(values[0::2], values[1::2], strict=True))


# Vectors


def vector_column(vector: VersionVector) -> bytes:
    return column(flat(vector.items()))


def read_vector(value: object) -> VersionVector:
    vector = VersionVector()
    for origin, counter in read_pairs(value, "vector"):
        vector.advance(read_origin(origin, "vector"), read_counter(counter, "vector"))
    return vector


# Parts of rows


def read_key(database: object, name: object) -> Key:
    number = read_u64(database, "database")
    if number >= DATABASES:
        raise CodecError(f"there is no database {number}")
    return (number, read_bytes(name, "name of the key"))


def read_add(
    database: object, name: object, first_value: object, before_value: object, counter: int
) -> tuple[Key, int, int]:
    """What an add with this counter says besides its entries: the key, the counter of the first add that is counted,
    and how many were before this one.
    """
    first = read_counter(first_value, "counter of the first add")
    before = read_u64(before_value, "count of adds before")
    if first > counter:
        raise CodecError(f"the first add of the count, {first}, is later than this add")
    if before > counter - first:
        raise CodecError(f"{before} earlier adds do not fit between counter {first} and this add")
    return read_key(database, name), first, before


def block_columns(block: Block, low: int, high: int) -> tuple[bytes, bytes, bytes]:
    """The slice's milliseconds, sequence numbers and ends (starting at 0)."""
    ms, seq = block.id_columns(low, high)
    ends, start = block.ends_from(low, high)
    return (column_bytes(ms), column_bytes(seq), shifted_down(ends, start))


def block_pieces(block: Block, low: int, high: int) -> list[bytes]:
    """What joins to the data of the slice, which is not empty: chunks as they lie in the block, which are not joined
    for that.
    """
    start, end = block.start_of(low), block.start_of(high)
    found: list[bytes] = []
    at = 0
    for chunk in block.opened().chunks:
        after = at + len(chunk)
        if at < end and after > start:
            whole = start <= at and after <= end
            found.append(chunk if whole else chunk[max(start - at, 0) : end - at])
        at = after
    return found


def read_block(ms_value: object, seq_value: object, ends_value: object, data_value: object, counter: int) -> Block:
    ms, seq = read_column(ms_value, "milliseconds"), read_column(seq_value, "sequence numbers")
    ends, data = read_column(ends_value, "ends"), read_bytes(data_value, "data")
    count = len(ends)
    if count == 0 or len(ms) != count or len(seq) != count:
        raise CodecError(f"the columns of a block differ in length: {len(ms)}, {len(seq)} and {count}")
    if ends[-1] != len(data):
        raise CodecError(f"the last entry ends at {ends[-1]} of {len(data)} bytes")
    require_ascending(ends, "ends")
    if counter + count - 1 > U64_MAX:
        raise CodecError(f"{count} entries exhaust the counters")
    return Block.of_columns(ms, seq, range(counter, counter + count), ends, data)
