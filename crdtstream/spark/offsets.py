"""Offsets: a position in each stream, which is one seq for each origin. All entries of the origin up to the seq,
inclusive, are before the position.

As JSON: `{"orders": {"1.1eedd2cf6377f6": 42}}`. Spark compares offsets as text, so keys are sorted at every level and
no row is dropped, not even one of 0. Origins are written as INFO and CRDT.VECTOR show them: the region, and the
origin's distinguishing part in hexadecimal. Stream names are text here; bytes that are not UTF-8 become surrogates.
"""

from __future__ import annotations

import re
from typing import Final

_ORIGIN: Final = re.compile(r"([0-9]{1,3})\.([0-9a-f]{1,14})")

OffsetPosition = dict[int, int]
Positions = dict[str, OffsetPosition]
OffsetJson = dict[str, dict[str, int]]


def origin_text(origin: int) -> str:
    return f"{origin % 256}.{origin >> 8:x}"


def parse_origin(text: str) -> int:
    match = _ORIGIN.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= 255:
        raise ValueError(f"{text!r} is not an origin: write it as CRDT.VECTOR shows it, such as 1.1eedd2cf6377f6")
    return int(match[1]) + (int(match[2], 16) << 8)


def stream_text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def stream_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def to_json(positions: Positions) -> OffsetJson:
    return {
        stream: dict(sorted((origin_text(origin), seq) for origin, seq in position.items()))
        for stream, position in sorted(positions.items())
    }


def from_json(offset: OffsetJson) -> Positions:
    return {
        stream: {parse_origin(origin): seq for origin, seq in position.items()} for stream, position in offset.items()
    }


def merged(one: Positions, other: Positions) -> Positions:
    """Return the pointwise maximum: never below `one`, with every row of both."""
    result = {stream: dict(position) for stream, position in one.items()}
    for stream, position in other.items():
        row = result.setdefault(stream, {})
        for origin, seq in position.items():
            row[origin] = max(seq, row.get(origin, 0))
    return result


def capped(positions: Positions, target: Positions, floor: Positions) -> Positions:
    """Limit positions to `target`, but not below `floor`; rows in neither are dropped."""
    bounds = merged(floor, target)
    result: Positions = {}
    for stream, bound in bounds.items():
        position = positions.get(stream, {})
        result[stream] = {origin: min(seq, bound[origin]) for origin, seq in position.items() if origin in bound}
    return result
