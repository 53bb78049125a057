"""Fields of entries as columns: each is found by its name in all rows at once, and cast as a whole.

Where a cast fails, it is repeated with halves, so only what cannot be cast becomes null. A field that an entry has more
than once counts with its last value, as a member of JSON does.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtstream.spark.columns import pairs
from crdtstream.spark.entries import Array, Parsed
from crdtstream.spark.payloads.values import Convert, json_to

ZONED: Final = r":\d.*(Z|[+-]\d\d(:?\d\d)?)$"
DATE_CHARACTERS: Final = 10


class FieldValues:
    """The fields of all rows of a batch, side by side."""

    def __init__(self, parsed: Parsed) -> None:
        offsets, self._names, self._values = pairs(parsed)
        self._rows = len(offsets) - 1
        self._row_of: Array = np.repeat(np.arange(self._rows), np.diff(offsets.to_numpy()))

    def of(self, name: str) -> Array:
        """The values of one field as bytes, null where a row does not have it."""
        found = np.flatnonzero(pc.equal(self._names, pa.scalar(name.encode(), pa.binary())).to_numpy(False))
        places: Array = np.full(self._rows, -1)
        places[self._row_of[found]] = found
        return self._values.take(pa.array(places, mask=places < 0))


def bisected(convert: Convert, items: Any, kind: pa.DataType) -> tuple[Array, list[int]]:
    """Convert all items; return those that cannot be converted as nulls, and their indices."""
    try:
        return convert(items), []
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        if len(items) == 1:
            return pa.nulls(1, kind), [0]
    middle = len(items) // 2
    low, wrong = bisected(convert, items[:middle], kind)
    high, more = bisected(convert, items[middle:], kind)
    return pa.concat_arrays([low, high]), [*wrong, *(middle + index for index in more)]


def cast_to(kind: pa.DataType) -> Convert:
    """How bytes become values of a type: text as people write it, JSON where the type is nested."""
    if pa.types.is_binary(kind):
        return lambda items: items
    if pa.types.is_nested(kind):
        return json_to(kind)
    if pa.types.is_timestamp(kind) and kind.tz:
        return lambda items: zoned(items.cast(pa.string())).cast(kind)
    return lambda items: items.cast(pa.string()).cast(kind)


def zoned(texts: Array) -> Array:
    """Times with a zone: those without one are UTC."""
    times = pc.if_else(pc.equal(pc.utf8_length(texts), DATE_CHARACTERS), joined_text(texts, "T00:00:00Z"), texts)
    return pc.if_else(pc.match_substring_regex(times, ZONED), times, joined_text(times, "Z"))


def joined_text(texts: Array, end: str) -> Array:
    return pc.binary_join_element_wise(texts, end, "")
