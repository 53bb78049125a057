"""Fields of entries as columns of a DDL string."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from crdtstream.spark.payloads.plain import bisected, cast_to
from tests.spark.payloads.typed import CORRUPT, typed

TIME = datetime(2026, 11, 27, 6, 30, 5, 250_000)
POINT = StructType([StructField("x", LongType()), StructField("at", TimestampType())])


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (LongType(), b"-42", -42),
        (ByteType(), b"127", 127),
        (DoubleType(), b"2.5e3", 2500.0),
        (BooleanType(), b"true", True),
        (BooleanType(), b"0", False),
        (DecimalType(10, 2), b"12.30", Decimal("12.30")),
        (StringType(), "für".encode(), "für"),
        (BinaryType(), b"\xff\x00", b"\xff\x00"),
        (DateType(), b"2026-11-27", date(2026, 11, 27)),
        (TimestampType(), b"2026-11-27T06:30:05.25Z", TIME.replace(tzinfo=UTC)),
        (TimestampType(), b"2026-11-27 07:30:05.25+01:00", TIME.replace(tzinfo=UTC)),
        (TimestampType(), b"2026-11-27 06:30:05.250000", TIME.replace(tzinfo=UTC)),
        (TimestampType(), b"2026-11-27", datetime(2026, 11, 27, tzinfo=UTC)),
        (TimestampNTZType(), b"2026-11-27T06:30:05.25", TIME),
        (ArrayType(LongType()), b"[1, 2, null]", [1, 2, None]),
        (MapType(StringType(), DoubleType()), b'{"a": 1}', [("a", 1.0)]),
        (POINT, b'{"x": 1, "at": "2026-11-27T06:30:05.25Z"}', {"x": 1, "at": TIME.replace(tzinfo=UTC)}),
    ],
)
def test_values_of_every_type(kind: DataType, text: bytes, value: object) -> None:
    rows = typed([[b"f", text], [b"other", b"1"]], {"f": kind}, payloadSchema="f")
    assert rows == [{"f": value, CORRUPT: None}, {"f": None, CORRUPT: None}]


@pytest.mark.parametrize(
    ("kind", "text", "word"),
    [
        (LongType(), b"12a", "bigint"),
        (LongType(), b"", "bigint"),
        (LongType(), b"1" * 30, "bigint"),
        (ByteType(), b"128", "tinyint"),
        (StringType(), b"\xff", "string"),
        (DecimalType(4, 2), b"123.45", "decimal(4,2)"),
        (TimestampType(), b"yesterday", "timestamp"),
        (ArrayType(LongType()), b'{"a": 1}', "array<bigint>"),
        (ArrayType(LongType()), b"[true]", "array<bigint>"),
        (POINT, b"[1]", "struct<x:bigint,at:timestamp>"),
    ],
)
def test_what_does_not_fit_is_null_and_the_reason_is_beside_it(kind: DataType, text: bytes, word: str) -> None:
    wrong, right = typed([[b"f", text, b"g", b"7"], [b"g", b"8"]], {"f": kind, "g": LongType()}, payloadSchema="f, g")
    assert (wrong["f"], wrong["g"]) == (None, 7)
    assert wrong[CORRUPT].startswith("f is '") and wrong[CORRUPT].endswith(f"which is no {word}")
    assert right == {"f": None, "g": 8, CORRUPT: None}


def test_a_long_value_is_shown_in_part() -> None:
    (row,) = typed([[b"f", b"x" * 1000]], {"f": LongType()}, payloadSchema="f")
    assert row[CORRUPT] == f"f is '{'x' * 59}..., which is no bigint"


def test_a_field_that_is_there_twice_has_its_last_value() -> None:
    assert typed([[b"f", b"1", b"f", b"2"]], {"f": LongType()}, payloadSchema="f")[0]["f"] == 2


@given(st.lists(st.one_of(st.integers(-(2**70), 2**70).map(str), st.text(max_size=3)), max_size=40))
def test_halves_find_exactly_what_is_no_number(texts: list[str]) -> None:
    array, wrong = bisected(cast_to(pa.int64()), pa.array([each.encode() for each in texts], pa.binary()), pa.int64())
    for number, each in enumerate(texts):
        try:
            expected = pc.cast(pa.scalar(each), pa.int64()).as_py()
        except pa.ArrowInvalid:
            assert number in wrong and array[number].as_py() is None
        else:
            assert number not in wrong and array[number].as_py() == expected
