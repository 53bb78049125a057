"""Columns computed with as a whole: the bytes of an array are one large integer, in which each number has a lane.

Adding and subtracting such integers treats all numbers of a column at once, in a fraction of the time of visiting them.
It is right as long as every number stays in its lane: none may become negative or too large for its type.
"""

from __future__ import annotations

from array import array
from typing import Final

# Longer columns are treated number by number.
LANES: Final = 256
_ORDER: Final = "little" if array("Q", (1,)).tobytes()[0] else "big"


def _whole(column: array[int]) -> int:
    return int.from_bytes(column.tobytes(), _ORDER)


_ONES: Final = {code: _whole(array(code, (1,)) * LANES) for code in ("I", "Q")}
_INDEXES: Final = {code: _whole(array(code, range(LANES))) for code in ("I", "Q")}

_STEPS: Final[dict[tuple[int, int], tuple[int, int]]] = {}
_STEPS_MAX: Final = 2 * LANES


def counting(typecode: str, first: int, count: int) -> array[int]:
    """The numbers from `first` on, `count` of them."""
    column: array[int] = array(typecode)
    if count > LANES or (first + LANES) >> column.itemsize * 8:
        return array(typecode, range(first, first + count))
    every = _INDEXES[typecode] + _ONES[typecode] * first
    column.frombytes(every.to_bytes(LANES * column.itemsize, _ORDER))
    del column[count:]
    return column


def stepping(first: int, step: int, count: int) -> array[int]:
    """The wide numbers first, first + step, ..., `count` of them, all of which are below 2^64."""
    if count > LANES:
        return array("Q", [first + index * step for index in range(count)])
    column: array[int] = array("Q")
    ones, steps = _STEPS.get((step, count)) or _steps(step, count)
    column.frombytes((ones * first + steps).to_bytes(count * 8, _ORDER))
    return column


def _steps(step: int, count: int) -> tuple[int, int]:
    """So many ones, and so many multiples of the step from 0 on, as wide lanes; kept, because the same are asked for
    again.
    """
    if len(_STEPS) == _STEPS_MAX:
        _STEPS.clear()
    found = (_whole(array("Q", (1,)) * count), _whole(array("Q", [index * step for index in range(count)])))
    _STEPS[(step, count)] = found
    return found


def lowered(column: array[int], amount: int) -> array[int]:
    """The numbers of a column, each of which is at least `amount`, less that amount."""
    count, size = len(column), column.itemsize
    if count > LANES:
        return array(column.typecode, [number - amount for number in column])
    ones = _ONES[column.typecode] >> (LANES - count) * size * 8
    less: array[int] = array(column.typecode)
    less.frombytes((_whole(column) - ones * amount).to_bytes(count * size, _ORDER))
    return less


def joined_ends(ends: array[int], pieces: list[tuple[int, int]]) -> array[int]:
    """The ends of the entries in these ascending slices [low, high) once only these entries follow each other."""
    kept: array[int] = array(ends.typecode)
    for low, high in pieces:
        start = ends[low - 1] if low else 0
        before = kept[-1] if kept else 0
        kept += ends[low:high] if start == before else lowered(ends[low:high], start - before)
    return kept


def gaps_between(pieces: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """What of [0, count) lies outside these ascending slices, as slices [low, high), descending."""
    gaps: list[tuple[int, int]] = []
    for low, high in reversed(pieces):
        gaps.append((high, count))
        count = low
    gaps.append((0, count))
    return gaps


def cut(column: array[int], gaps: list[tuple[int, int]]) -> array[int]:
    """Remove these descending slices from the column, and return it."""
    for low, high in gaps:
        del column[low:high]
    return column
