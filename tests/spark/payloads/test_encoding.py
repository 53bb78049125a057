"""Typed rows of a sink become entries, from which a reader has the same rows."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
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

from crdtstream.spark.options import Options
from crdtstream.spark.payloads.encoding import TypedRows
from crdtstream.spark.rows import RowError
from tests.spark.payloads.test_avro_codec import ITEM
from tests.spark.payloads.typed import CORRUPT, typed
from tests.spark.support import PAIR

TYPES: dict[str, DataType] = {
    "n": LongType(),
    "d": DoubleType(),
    "b": BooleanType(),
    "s": StringType(),
    "raw": BinaryType(),
    "m": DecimalType(10, 2),
    "day": DateType(),
    "at": TimestampType(),
    "local": TimestampNTZType(),
    "list": ArrayType(StructType([StructField("x", LongType()), StructField("at", TimestampType())])),
    "map": MapType(StringType(), DecimalType(5, 1)),
}
TIME = datetime(2026, 11, 27, 6, 30, 5, 250_000)
ROW: dict[str, Any] = {
    "n": -7,
    "d": 1.25,
    "b": False,
    "s": "für",
    "raw": b"\xff\r\n",
    "m": Decimal("12.30"),
    "day": date(2026, 11, 27),
    "at": TIME.replace(tzinfo=UTC),
    "local": TIME,
    "list": [{"x": 1, "at": TIME.replace(tzinfo=UTC)}],
    "map": [("a", Decimal("1.5"))],
}
EMPTY = dict.fromkeys(TYPES)


def schema_of(types: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def entries(rows: list[dict[str, Any]], types: dict[str, DataType], **given: str) -> list[tuple[str, list[bytes]]]:
    """The stream and the fields of each entry."""
    schema = schema_of(types)
    made = pickle.loads(pickle.dumps(TypedRows(Options({"endpoints": "h:1", **given}), schema)))
    batch = made.reshaped(pa.RecordBatch.from_pylist(rows, to_arrow_schema(schema, timezone="UTC")))
    batch.validate(full=True)
    flat = [[item for pair in row["fields"] for item in (pair["field"], pair["value"])] for row in batch.to_pylist()]
    streams = batch.column("stream").to_pylist() if "stream" in batch.schema.names else [""] * len(rows)
    return list(zip(streams, flat, strict=True))


@pytest.mark.parametrize("given", [{}, {"payloadField": "body"}])
def test_rows_come_back_as_they_went(given: dict[str, str]) -> None:
    ddl = ", ".join(TYPES)
    went = entries([ROW, {**EMPTY, "n": 1}], TYPES, payloadSchema=ddl, stream="s", **given)
    assert len(went[1][1]) == 2
    back = typed([fields for _, fields in went], TYPES, payloadSchema=ddl, **given)
    assert back == [{**ROW, CORRUPT: None}, {**EMPTY, "n": 1, CORRUPT: None}]


def test_one_column_with_the_whole_payload() -> None:
    kind: dict[str, DataType] = {"p": schema_of({"id": LongType(), "s": StringType()})}
    (went,) = entries([{"p": {"id": 1, "s": "x"}}], kind, payloadSchema="id, s", payloadColumn="p", stream="s")
    assert went[1] == [b"id", b"1", b"s", b"x"]


def test_avro_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "item.avsc"
    file.write_text(json.dumps(ITEM))
    types: dict[str, DataType] = {"x": LongType()}
    (went,) = entries([{"x": 3}], types, payloadSchema=str(file), stream="s")
    assert went[1] == [b"payload", b"\x06"]
    with pytest.raises(RowError, match="a row is no Avro of this schema"):
        entries([{"x": None}], types, payloadSchema=str(file), stream="s")


DEAD: dict[str, DataType] = {
    "stream": StringType(),
    "id": StringType(),
    "seq": LongType(),
    "fields": ArrayType(PAIR),
    "x": LongType(),
    CORRUPT: StringType(),
}


def dead(**more: object) -> dict[str, Any]:
    row = {"stream": "s", "id": "5-1", "seq": 1, "fields": [{"field": b"x", "value": b"?"}], "x": 7, CORRUPT: None}
    return {**row, **more}


def test_corrupt_rows_go_to_the_dead_letter_stream_as_they_came(tmp_path: Path) -> None:
    rows = [dead(), dead(**{CORRUPT: "x is '?'", "x": None}), dead(x=8)]
    assert entries(rows, DEAD, payloadSchema="x BIGINT", deadLetterStream="bad") == [
        ("s", [b"x", b"7"]),
        ("bad", [b"x", b"?"]),
        ("s", [b"x", b"8"]),
    ]
    without = {name: kind for name, kind in DEAD.items() if name not in ("x", "stream")}
    assert entries(rows, without, stream="t", deadLetterStream="bad") == [
        ("t", [b"x", b"?"]),
        ("bad", [b"x", b"?"]),
        ("t", [b"x", b"?"]),
    ]
    file = tmp_path / "item.avsc"
    file.write_text(json.dumps(ITEM))
    went = entries(rows, DEAD, payloadSchema=str(file), deadLetterStream="bad")
    assert went == [("s", [b"payload", b"\x0e"]), ("bad", [b"x", b"?"]), ("s", [b"payload", b"\x10"])]


def test_without_a_dead_letter_stream_a_corrupt_row_fails_the_write() -> None:
    with pytest.raises(RowError, match=r"a row is corrupt \(x is '\?'\): name a stream with deadLetterStream"):
        entries([dead(), dead(**{CORRUPT: "x is '?'"})], DEAD, payloadSchema="x BIGINT")


@pytest.mark.parametrize(
    ("types", "given", "text"),
    [
        ({"x": LongType()}, {"payloadSchema": "x INT"}, "rows have no column stream"),
        ({"x": LongType()}, {"payloadSchema": "x INT, y INT", "stream": "s"}, "rows lack column y of payloadSchema"),
        (
            {"x": LongType(), "z": LongType()},
            {"payloadSchema": "x INT", "stream": "s"},
            "column z is not in payloadSch",
        ),
        ({"x": LongType(), CORRUPT: StringType()}, {"payloadSchema": "x INT", "stream": "s"}, "have no column fields"),
        ({"fields": StringType()}, {"deadLetterStream": "d", "stream": "s"}, "read with fieldsAs=array"),
    ],
)
def test_rows_that_do_not_suit(types: dict[str, DataType], given: dict[str, str], text: str) -> None:
    with pytest.raises(RowError, match=text):
        entries([], types, **given)
