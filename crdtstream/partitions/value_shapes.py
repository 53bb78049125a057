"""How the values of calls travel.

Bookmark: [generation, epoch number, epoch origin, [start origin, start counter], [[partition, offset]...]], where the
generation is three numbers, because it does not fit into 64 bits (coordinator.py).
"""

from __future__ import annotations

from typing import Any, Final

from crdtstream.partitions.shapes import (
    COUNT,
    NUMBER,
    OCTETS,
    OFFSET,
    TEXT,
    NamedShape,
    Shape,
    fields_in,
    list_of,
    optional,
    pair_of,
    record_of,
)
from crdtstream.partitions.state import NUMBER_BITS, NUMBER_MAX
from crdtstream.partitions.values import Bookmark, NewMessage, Polled, Reservation, Stamp

GENERATION_FIELDS: Final[list[NamedShape]] = [("resets", COUNT), ("number", COUNT), ("count", COUNT)]


def generation_in(value: Any) -> int:
    resets, number, count = fields_in(value, GENERATION_FIELDS)
    whole: int = (resets << NUMBER_BITS | number) << NUMBER_BITS | count
    return whole


def generation_row(generation: int) -> list[int]:
    return [generation >> 2 * NUMBER_BITS, generation >> NUMBER_BITS & NUMBER_MAX, generation & NUMBER_MAX]


def offsets_in(value: Any) -> dict[int, int]:
    return dict(OFFSET_ROWS.read(value))


def offset_rows(offsets: dict[int, int]) -> Any:
    return OFFSET_ROWS.write([(partition, offsets[partition]) for partition in sorted(offsets)])


GENERATION: Final = Shape(generation_in, generation_row)
EPOCH: Final = pair_of(("number", COUNT), ("origin", COUNT))
DOT: Final = pair_of(("origin", COUNT), ("counter", COUNT))
OFFSET_ROWS: Final = list_of(pair_of(("partition", COUNT), ("offset", OFFSET)))
OFFSETS: Final = Shape(offsets_in, offset_rows)
STANDING_FIELDS: Final[list[NamedShape]] = [
    ("generation", GENERATION),
    ("epoch number", COUNT),
    ("epoch origin", COUNT),
    ("start", DOT),
    ("offsets", OFFSETS),
]


def standing_row(generation: int, epoch: tuple[int, int], start: tuple[int, int], offsets: dict[int, int]) -> list[Any]:
    """A bookmark, or what was polled: the epoch is not nested."""
    return [GENERATION.write(generation), *epoch, DOT.write(start), OFFSETS.write(offsets)]


def bookmark_in(value: Any) -> Bookmark:
    generation, number, origin, start, offsets = fields_in(value, STANDING_FIELDS)
    return Bookmark(generation, (number, origin), start, offsets)


def bookmark_row(one: Bookmark) -> list[Any]:
    return standing_row(one.generation, one.epoch, one.start, one.offsets)


def polled_in(value: Any) -> Polled:
    generation, number, origin, start, positions = fields_in(value, STANDING_FIELDS)
    return Polled(generation, (number, origin), start, positions)


def polled_row(one: Polled) -> list[Any]:
    return standing_row(one.generation, one.epoch, one.start, one.positions)


BOOKMARK: Final = Shape(bookmark_in, bookmark_row)
POLLED: Final = Shape(polled_in, polled_row)
MESSAGES: Final = list_of(record_of(NewMessage, [("partition", NUMBER), ("key", optional(OCTETS)), ("value", OCTETS)]))
STAMPS: Final = list_of(record_of(Stamp, [("partition", COUNT), ("offset", OFFSET), ("time_ms", NUMBER)]))
RESERVATIONS: Final = list_of(
    record_of(Reservation, [("partition", COUNT), ("committed", OFFSET), ("instance", TEXT), ("until_ms", NUMBER)])
)
