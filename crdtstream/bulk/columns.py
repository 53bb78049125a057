"""The columns of the bulk contract: unsigned little-endian integers of 4 or 8 bytes, on every machine."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

from crdtstream.bulk.errors import INVALID_ARGUMENT, BulkError
from crdtstream.core.entries.uint_encoding import in_order

U32: Final = "I"
U64: Final = "Q"
assert array(U32).itemsize == 4 and array(U64).itemsize == 8


def column_of(values: Iterable[int], kind: str = U64) -> bytes:
    return in_order(array(kind, values)).tobytes()


def read_column(data: bytes, kind: str, count: int, name: str) -> array[int]:
    """Decode a column of exactly `count` values."""
    values = array(kind)
    if len(data) != count * values.itemsize:
        needed = f"{count} rows need {count * values.itemsize}"
        raise BulkError(INVALID_ARGUMENT, f"column {name} has {len(data)} bytes, but {needed}")
    values.frombytes(data)
    return in_order(values)
