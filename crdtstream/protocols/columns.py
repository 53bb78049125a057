"""Columns: sequences of unsigned 64-bit integers as bytes, and checked reading of decoded values.

A *column* is little-endian, 8 bytes for each integer, on every machine. Lists travel as columns rather than as msgpack
arrays: they are copied at the speed of memory, and no declared count can make a reader reserve memory that the bytes
themselves do not fill.

A *grouped column* holds lists of integers by slot: slot, n, then n integers, again and again, slots ascending.

Every reader here takes an `object` that came out of msgpack and raises `CodecError` with what was wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain
from typing import Final

from crdtstream.core.causality import SLOTS
from crdtstream.core.entry_id import U64_MAX, EntryId

_LITTLE: Final = array("Q", [1]).tobytes()[0] == 1
_LANE_ONE: Final = b"\x01\x00\x00\x00\x00\x00\x00\x00"
_LANES: Final = 256
_ONES: Final = int.from_bytes(_LANE_ONE * _LANES, "little")


class CodecError(ValueError):
    """Bytes that are no batch or record of this format; the text says what was wrong with them."""


def column(values: Iterable[int]) -> bytes:
    return column_bytes(array("Q", values))


def column_bytes(values: array[int]) -> bytes:
    return in_order(values).tobytes()


def in_order(values: array[int], machine_little: bool = _LITTLE) -> array[int]:
    """From this machine's byte order to the column's, or back."""
    if machine_little:
        return values
    swapped = values[:]
    swapped.byteswap()
    return swapped


def shifted_down(values: array[int], by: int) -> bytes:
    """The column of `values`, each less `by`; none may be below it.

    The column is taken as one long integer with a lane of 64 bits for each value: one subtraction, no loop.
    """
    if by == 0:
        return column_bytes(values)
    count = len(values)
    ones = _ONES >> 64 * (_LANES - count) if count <= _LANES else int.from_bytes(_LANE_ONE * count, "little")
    return (int.from_bytes(column_bytes(values), "little") - by * ones).to_bytes(8 * count, "little")


def grouped_column(slots: Iterable[tuple[int, list[int]]]) -> bytes:
    values = array("Q")
    for slot, numbers in slots:
        values.append(slot)
        values.append(len(numbers))
        values.fromlist(numbers)
    return column_bytes(values)


# Reading


def read_column(value: object, what: str, width: int = 1) -> array[int]:
    """The integers of a column whose rows are `width` integers each."""
    raw = read_bytes(value, what)
    if len(raw) % (8 * width):
        raise CodecError(f"{what}: {len(raw)} bytes are no column of {8 * width}-byte rows")
    return in_order(array("Q", raw))


def require_ascending(values: array[int], what: str) -> None:
    """Equal neighbours pass; sorting what is sorted is the fastest look at all of it."""
    numbers = values.tolist()
    if numbers != sorted(numbers):
        raise CodecError(f"{what} do not ascend")


def read_grouped(value: object, what: str, width: int) -> dict[int, array[int]]:
    """slot -> its integers, a multiple of `width` of them."""
    values = read_column(value, what)
    groups: dict[int, array[int]] = {}
    offset = slot_before = 0
    while offset < len(values):
        if offset + 2 > len(values) or values[offset + 1] > len(values) - offset - 2 or values[offset + 1] % width:
            raise CodecError(f"{what}: a group does not fit its column")
        slot = read_slot(values[offset], what)
        if slot <= slot_before:
            raise CodecError(f"{what}: slot {slot} follows slot {slot_before}")
        end = offset + 2 + values[offset + 1]
        groups[slot] = values[offset + 2 : end]
        offset, slot_before = end, slot
    return groups


def read_bytes(value: object, what: str) -> bytes:
    if not isinstance(value, bytes):
        raise CodecError(f"{what}: a {type(value).__name__} stands where bytes belong")
    return value


def read_int(value: object, what: str) -> int:
    """A signed or unsigned 64-bit integer: msgpack has no others."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise CodecError(f"{what}: a {type(value).__name__} stands where an integer belongs")
    return value


def read_u64(value: object, what: str) -> int:
    number = read_int(value, what)
    if not 0 <= number <= U64_MAX:
        raise CodecError(f"{what}: {number} is no unsigned 64-bit integer")
    return number


def read_flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise CodecError(f"{what}: a {type(value).__name__} stands where a flag belongs")
    return value


def read_slot(value: object, what: str) -> int:
    """A slot of some region: its lowest byte, the region, is not 0."""
    slot = read_int(value, what)
    if not 0 < slot < SLOTS or slot % 256 == 0:
        raise CodecError(f"{what}: {slot} is no slot of an origin")
    return slot


def read_counter(value: object, what: str) -> int:
    counter = read_u64(value, what)
    if counter == 0:
        raise CodecError(f"{what}: counters begin at 1")
    return counter


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


def paired(values: array[int]) -> list[tuple[int, int]]:
    return list(zip(values[0::2], values[1::2], strict=True))
