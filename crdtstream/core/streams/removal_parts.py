"""A large removal as several effects, each with a bounded number of ranges and intervals; together they mean it."""

from __future__ import annotations

from typing import Final

from crdtstream.core.effects import CounterRange
from crdtstream.core.values.intervals import Interval

Ranges = dict[int, list[CounterRange]]
References = dict[int, list[Interval]]
# At least what a range or an interval takes, with its part of the column's head.
PIECE_BYTES: Final = 64


def parts_of(ranges: Ranges, references: References, pieces_max: int) -> list[tuple[Ranges, References]]:
    """The removal in parts of at most so many pieces; the ranges of each origin keep their order."""
    count = 0
    for found in ranges.values():
        count += len(found)
    for pieces in references.values():
        count += len(pieces)
    if count <= pieces_max:
        return [(ranges, references)]
    parts: list[tuple[Ranges, References]] = []
    for origin, found in ranges.items():
        parts += [({origin: found[low : low + pieces_max]}, {}) for low in range(0, len(found), pieces_max)]
    for origin, pieces in references.items():
        parts += [({}, {origin: pieces[low : low + pieces_max]}) for low in range(0, len(pieces), pieces_max)]
    return parts
