"""Narrow columns: integers of 64 bits that share their high halves, stored as low halves and one *base*.

Halves are copied as strided memory, in about the time of visiting one integer.
"""

from __future__ import annotations

from array import array
from typing import Final

HALF_BITS: Final = 32

_LITTLE: Final = array("Q", [1]).tobytes()[0] == 1
_LOW: Final = 0 if _LITTLE else 1
assert array("I").itemsize == 4 and array("Q").itemsize == 8


def base_of(values: array[int]) -> int:
    """The high half shared by all values of this wide column, with low half 0; -1 if they do not share one."""
    high = memoryview(values).cast("B").cast("I")[1 - _LOW :: 2].tobytes()
    if high != high[:4] * len(values):
        return -1
    return values[0] >> HALF_BITS << HALF_BITS if values else 0


def narrowed(values: array[int]) -> array[int]:
    """The low halves of a wide column: its narrow form."""
    return array("I", memoryview(values).cast("B").cast("I")[_LOW::2].tobytes())


def widened(values: array[int], base: int) -> array[int]:
    """The wide form of a narrow column with this base; a wide column is returned as it is."""
    if values.typecode == "Q":
        return values
    wide = array("Q", (base,)) * len(values)
    memoryview(wide).cast("B").cast("I")[_LOW::2] = memoryview(values)
    return wide


def in_order(values: array[int], machine_little: bool = _LITTLE) -> array[int]:
    """Convert between this machine's byte order and the little-endian order of files and messages, either way."""
    if machine_little:
        return values
    swapped = values[:]
    swapped.byteswap()
    return swapped
