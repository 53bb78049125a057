"""Columns read as fixed-width integers, so that IDs are searched and compared without an object for each of them.

Compiled code makes an object of every number that it takes out of an `array`, which costs more than comparing it. Here
a column is copied as bytes once, and numbers are read from these as the processor does.

These integers are signed, the halves of IDs are not. So each is *shifted*, less 2^63: that keeps their order.
"""

from __future__ import annotations

from array import array
from typing import Final

from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64

from crdtstream.core.entries.uint_encoding import in_order
from crdtstream.core.values.entry_id import U64_MAX, EntryId

# A quarter of -2^63, which is itself no native constant: compiled, it would be converted from an object at each use.
_QUARTER: Final = -(2**61)
_LOW_HALF: Final = 2**32 - 1
# Below this a number is shifted without leaving native arithmetic.
_PLAIN: Final = 2**61
_WIDE: Final = 8


def shifted(number: int) -> i64:
    """A number from 0 to 2^64 - 1, less 2^63."""
    if 0 <= number < _PLAIN:
        return i64(number) + (i64(_QUARTER) << 2)
    assert 0 <= number <= U64_MAX, f"{number} is no half of an ID"
    return i64(number + 4 * _QUARTER)


def raw(column: array[int]) -> bytes:
    """The bytes of a column, little-endian."""
    return in_order(column).tobytes()


def number_at(column: bytes, wide: bool, base: i64, index: i64) -> i64:
    """The shifted number at this index of a raw column; `base` is the shifted base of a narrow one."""
    if wide:
        return read_i64_le(column, index * 8) ^ (i64(_QUARTER) << 2)
    return base + (i64(read_i32_le(column, index * 4)) & _LOW_HALF)


class Ids:
    """The IDs of a block, or of other ascending columns: milliseconds with this base, and sequence numbers."""

    __slots__ = ("_ms", "_ms_base", "_ms_wide", "_seq", "_seq_base", "_seq_wide")

    def __init__(self, ms: array[int], seq: array[int], ms_base: int) -> None:
        self._ms = raw(ms)
        self._ms_wide = len(self._ms) == len(ms) * _WIDE
        self._ms_base: i64 = shifted(ms_base)
        self._seq = raw(seq)
        self._seq_wide = len(self._seq) == len(seq) * _WIDE
        self._seq_base: i64 = shifted(0)

    def ms_at(self, index: i64) -> i64:
        return number_at(self._ms, self._ms_wide, self._ms_base, index)

    def seq_at(self, index: i64) -> i64:
        return number_at(self._seq, self._seq_wide, self._seq_base, index)

    def lower_bound(self, ms: i64, seq: i64, low: i64, high: i64) -> i64:
        """The first index from `low` on, at most `high`, whose ID is >= that of these shifted halves."""
        while low < high:
            middle = (low + high) >> 1
            here = self.ms_at(middle)
            if here < ms or (here == ms and self.seq_at(middle) < seq):
                low = middle + 1
            else:
                high = middle
        return low

    def upper_bound(self, ms: i64, seq: i64, low: i64, high: i64) -> i64:
        """The first index from `low` on, at most `high`, whose ID is > that of these shifted halves."""
        while low < high:
            middle = (low + high) >> 1
            here = self.ms_at(middle)
            if here < ms or (here == ms and self.seq_at(middle) <= seq):
                low = middle + 1
            else:
                high = middle
        return low


def lower_bound(ms: array[int], seq: array[int], entry_id: EntryId) -> int:
    """The first index whose ID is >= entry_id, in ascending columns."""
    return Ids(ms, seq, 0).lower_bound(shifted(entry_id[0]), shifted(entry_id[1]), 0, len(ms))


def upper_bound(ms: array[int], seq: array[int], entry_id: EntryId) -> int:
    """The first index whose ID is > entry_id, in ascending columns."""
    return Ids(ms, seq, 0).upper_bound(shifted(entry_id[0]), shifted(entry_id[1]), 0, len(ms))


class Texts:
    """The RESP bytes of entries of a block, by index; `offset` is where `data` begins in terms of the ends."""

    __slots__ = ("_base", "_data", "_ends", "_offset", "_wide")

    def __init__(self, data: bytes, ends: array[int], offset: int) -> None:
        self._data = data
        self._ends = raw(ends)
        self._wide = len(self._ends) == len(ends) * _WIDE
        self._base: i64 = shifted(0)
        self._offset: i64 = shifted(offset)

    def between(self, low: i64, high: i64) -> bytes:
        """The entries [low, high), concatenated."""
        start: i64 = 0
        if low > 0:
            start = number_at(self._ends, self._wide, self._base, low - 1) - self._offset
        end = number_at(self._ends, self._wide, self._base, high - 1) - self._offset
        return self._data[start:end]
