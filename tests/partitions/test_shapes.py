"""Shapes: what they write is what they read, and everything else is refused with the name of what was wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.partitions.shapes import (
    COUNT,
    FLAG,
    NOTHING,
    NUMBER,
    OCTETS,
    OFFSET,
    TEXT,
    CallMalformed,
    Shape,
    list_of,
    optional,
    pair_of,
    record_of,
)

PLAIN = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(allow_nan=False)
ANY = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2))
PLAIN_SHAPES = {"number": NUMBER, "count": COUNT, "offset": OFFSET, "text": TEXT, "bytes": OCTETS, "flag": FLAG}


class Place(NamedTuple):
    partition: int
    key: bytes | None


PLACE = record_of(Place, [("partition", COUNT), ("key", optional(OCTETS))])
SHAPES = [*PLAIN_SHAPES.values(), NOTHING, PLACE, list_of(PLACE), pair_of(("one", COUNT), ("other", TEXT))]


@given(st.sampled_from(SHAPES), ANY)
def test_any_value_is_read_or_refused(shape: Shape, value: Any) -> None:
    try:
        found = shape.read(value)
    except CallMalformed as error:
        assert "expected" in str(error)
    else:
        assert shape.read(shape.write(found)) == found


@given(st.lists(st.tuples(st.integers(0, 1 << 64), st.none() | st.binary())))
def test_records_come_back(rows: list[tuple[int, bytes | None]]) -> None:
    places = [Place(*row) for row in rows]
    assert list_of(PLACE).read(list_of(PLACE).write(places)) == places


@pytest.mark.parametrize(
    ("shape", "value", "error"),
    [
        (NUMBER, True, "expected a whole number, not bool"),
        (COUNT, -1, "expected a number from 0 on, not -1"),
        (OFFSET, 1 << 60, f"expected an offset, not {1 << 60}"),
        (TEXT, b"east", "expected a text, not bytes"),
        (OCTETS, "east", "expected bytes, not str"),
        (FLAG, 1, "expected true or false, not int"),
        (NOTHING, 0, "expected nothing, not int"),
        (list_of(COUNT), (1,), "expected a list, not tuple"),
        (PLACE, [1], "expected 2 values, not 1"),
        (PLACE, [1, "k"], "key: expected bytes, not str"),
        (pair_of(("one", COUNT), ("other", TEXT)), [-2, ""], "one: expected a number from 0 on, not -2"),
    ],
)
def test_a_refusal_names_what_was_wrong(shape: Shape, value: Any, error: str) -> None:
    with pytest.raises(CallMalformed) as refused:
        shape.read(value)
    assert str(refused.value) == error
