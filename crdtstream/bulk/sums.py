"""A running sum over rows: equal for equal rows in equal order, however they are split into messages and slices."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final

from crdtstream.bulk.rows import EntryRows
from crdtstream.core.effects import Key
from crdtstream.protocols.columns import column_bytes

SUM_BYTES: Final = 8
_PARTS: Final = 4


class RowSum:
    """One sum for each column: only within a column is the order of bytes independent of the slices."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts = [blake2b(digest_size=32) for _ in range(_PARTS)]

    def add(self, rows: EntryRows, low: int, high: int) -> None:
        """Add the rows [low, high)."""
        if low >= high:
            return
        data, places, ms, id_seqs = self._parts
        data.update(rows.data[rows.start_of(low) : rows.ends[high - 1]])
        places.update(places_of(rows, low, high))
        ms.update(column_bytes(rows.ms[low:high]))
        id_seqs.update(column_bytes(rows.id_seqs[low:high]))

    def value(self) -> bytes:
        """Return the sum of the rows so far; more may be added."""
        parts = b"".join([part.digest() for part in self._parts])
        return blake2b(parts, digest_size=SUM_BYTES).digest()


def places_of(rows: EntryRows, low: int, high: int) -> bytes:
    """Encode the stream of each row unambiguously, with a mark that says whether the row has an ID."""
    kind = b"i" if rows.has_ids() else b"m"
    if not rows.stream_of:
        return place_of(rows.keys[0], kind) * (high - low)
    numbers: array[int] = rows.stream_of[low:high]
    places = {number: place_of(rows.keys[number], kind) for number in dict.fromkeys(numbers)}
    return b"".join([places[number] for number in numbers])


def place_of(key: Key, kind: bytes) -> bytes:
    database, name = key
    return b"%b%d:%d:%b" % (kind, database, len(name), name)
