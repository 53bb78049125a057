"""Offsets: a position in each stream, which is one seq for each origin. All entries of the origin up to the seq,
inclusive, are before the position.

As JSON: `{"orders": {"1.1eedd2cf6377f6": 42}}`. Spark compares offsets as text, so keys are sorted at every level and
no row is dropped, not even one of 0. Origins are written as INFO and CRDT.VECTOR show them: the region, and the
origin's distinguishing part in hexadecimal. Stream names are text here; bytes that are not UTF-8 become surrogates.

Positions with many rows are *packed*: `{"version": 2, "streams": 10000, "packed": "<base64>"}`, of zlib-compressed JSON
in columns: the sorted names, each as how many characters it shares with the name before and the rest, and for each
origin its different seqs, and which one each stream has. They are few because positions are `raised`: an origin gives
each seq to one stream only, so a stream with new entries is read up to the highest head that the origin has in any
stream, and all streams that had new entries in the same batch have the same seq.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from itertools import accumulate
from typing import Any, Final

_ORIGIN: Final = re.compile(r"([0-9]{1,3})\.([0-9a-f]{1,14})")

OffsetPosition = dict[int, int]
Positions = dict[str, OffsetPosition]
PlainOffset = dict[str, dict[str, int]]
OffsetJson = dict[str, Any]

# Positions with more rows than this are packed: a shorter text stays readable.
PLAIN_ROWS: Final = 64
PACKED_VERSION: Final = 2


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


def shown(name: str) -> str:
    """The name as the column `stream` has it."""
    return stream_bytes(name).decode("utf-8", "backslashreplace")


def to_json(positions: Positions) -> PlainOffset:
    return {
        stream: dict(sorted((origin_text(origin), seq) for origin, seq in position.items()))
        for stream, position in sorted(positions.items())
    }


def offset_of(positions: Positions) -> OffsetJson:
    """Return the positions as Spark keeps them: packed if they are many."""
    return packed(positions) if are_many(positions) else to_json(positions)


def from_json(offset: OffsetJson) -> Positions:
    """Parse an offset of any release."""
    if is_packed(offset):
        return unpacked(offset)
    return {
        stream: {parse_origin(origin): seq for origin, seq in position.items()} for stream, position in offset.items()
    }


def are_many(positions: Positions) -> bool:
    return sum(map(len, positions.values())) > PLAIN_ROWS


def is_packed(offset: OffsetJson) -> bool:
    # A stream may have the name `version`, but its position is no number.
    return isinstance(offset.get("version"), int)


def packed(positions: Positions) -> OffsetJson:
    names = sorted(positions)
    origins = sorted({origin for position in positions.values() for origin in position})
    columns = {origin_text(origin): column_of([positions[name].get(origin) for name in names]) for origin in origins}
    text = json.dumps({"names": shortened(names), "origins": columns}, separators=(",", ":"))
    octets = base64.b64encode(zlib.compress(text.encode(), 9))
    return {"version": PACKED_VERSION, "streams": len(names), "packed": octets.decode()}


def unpacked(offset: OffsetJson) -> Positions:
    if offset["version"] != PACKED_VERSION:
        raise ValueError(
            f"the offset has version {offset['version']}, which a later release wrote: run the query with that release"
        )
    found = json.loads(zlib.decompress(base64.b64decode(offset["packed"])))
    positions: Positions = {name: {} for name in lengthened(found["names"])}
    for text, column in found["origins"].items():
        origin, seqs = parse_origin(text), column["seqs"]
        for position, place in zip(positions.values(), column["of"], strict=True):
            if place is not None:
                position[origin] = seqs[place]
    return positions


def shortened(names: list[str]) -> list[int | str]:
    """Return for each name how many characters it shares with the one before, and the rest, one after the other."""
    result: list[int | str] = []
    for before, name in zip(["", *names], names, strict=False):
        shared = next((at for at, (one, other) in enumerate(zip(before, name, strict=False)) if one != other), None)
        shared = min(len(before), len(name)) if shared is None else shared
        result += [shared, name[shared:]]
    return result


def lengthened(parts: list[Any]) -> list[str]:
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return list(accumulate(pairs, lambda name, pair: name[: pair[0]] + pair[1], initial=""))[1:]


def column_of(seqs: list[int | None]) -> dict[str, list[int | None]]:
    """Return the different seqs, ascending, and for each stream which one it has: None if it lacks the origin."""
    distinct = sorted({seq for seq in seqs if seq is not None})
    places = {seq: place for place, seq in enumerate(distinct)}
    return {"seqs": [*distinct], "of": [None if seq is None else places[seq] for seq in seqs]}


def raised(end: Positions, begin: Positions) -> Positions:
    """Raise positions beyond `begin` to the highest seq that their origin has in any stream, if they are many. No entry
    is passed by: what lies between two positions is read, and a position that is not beyond `begin` stays.
    """
    if not are_many(end):
        return end
    top: OffsetPosition = {}
    for position in end.values():
        for origin, seq in position.items():
            top[origin] = max(seq, top.get(origin, 0))
    return {
        stream: {
            origin: top[origin] if seq > begin.get(stream, {}).get(origin, 0) else seq
            for origin, seq in position.items()
        }
        for stream, position in end.items()
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
