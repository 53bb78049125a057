"""Avro in one field."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from fastavro import parse_schema, schemaless_writer
from fastavro.schema import fingerprint, to_parsing_canonical_form
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from crdtstream.spark.options import OptionError
from crdtstream.spark.payloads.avro_codec import AvroCodec, header_of
from crdtstream.spark.payloads.errors import UndecodablePayload, UnencodableRow
from tests.spark.payloads.typed import CORRUPT, payloads, typed

ITEM: dict[str, Any] = {"type": "record", "name": "Item", "fields": [{"name": "x", "type": "long"}]}
FIELDS: list[dict[str, Any]] = [
    {"name": "order", "type": "long"},
    {"name": "item", "type": ["null", "string"]},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["new", "paid"]}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "one", "type": ITEM},
    {"name": "items", "type": {"type": "array", "items": "Item"}},
    {"name": "labels", "type": {"type": "map", "values": "string"}},
    {"name": "size", "type": ["int", "long"]},
]
ORDER = {"type": "record", "name": "Order", "fields": FIELDS}
ROW: dict[str, Any] = {
    "order": 7,
    "item": "book",
    "kind": "new",
    "at": datetime(2026, 11, 27, 6, tzinfo=UTC),
    "day": date(2026, 11, 27),
    "price": Decimal("12.30"),
    "key": "12345678-1234-5678-1234-567812345678",
    "one": {"x": 1},
    "items": [{"x": 1}],
    "labels": {"a": "b"},
    "size": 3,
}


def written(row: dict[str, Any]) -> bytes:
    data = io.BytesIO()
    schemaless_writer(data, parse_schema(ORDER), row)
    return data.getvalue()


def test_types_are_those_of_from_avro() -> None:
    assert AvroCodec(json.dumps(ORDER).encode()).ddl == (
        "`order` bigint, `item` string, `kind` string, `at` timestamp, `day` date, `price` decimal(10, 2),"
        " `key` string, `one` struct<`x` bigint>, `items` array<struct<`x` bigint>>, `labels` map<string, string>,"
        " `size` bigint"
    )


def test_records_come_and_go() -> None:
    made = AvroCodec(json.dumps(ORDER).encode())
    assert made.decode(written({**ROW, "key": UUID(ROW["key"])})) == ROW
    assert made.decode(made.encode(ROW)) == ROW


def test_a_single_object_has_the_fingerprint_of_the_schema() -> None:
    schema = parse_schema(ORDER)
    mark = bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
    assert AvroCodec(json.dumps(ORDER).encode()).decode(b"\xc3\x01" + mark + written(ROW)) == ROW


def test_the_fingerprint_is_that_of_the_specification() -> None:
    """Of `"int"` it is 7275d51a3f395c8f there, and its bytes come in little endian."""
    assert header_of("int") == bytes.fromhex("c3018f5c393f1ad57572")


def test_older_payloads_are_read_as_the_newest_schema_says(tmp_path: Path) -> None:
    more = {"name": "note", "type": ["null", "string"], "default": None}
    newest, older = tmp_path / "new.avsc", tmp_path / "old.avsc"
    newest.write_text(json.dumps({**ITEM, "fields": [*ITEM["fields"], more]}))
    older.write_text(json.dumps(ITEM))
    old = AvroCodec(older.read_bytes())
    made = [
        header_of(parse_schema(ITEM)) + old.encode({"x": 3}),
        AvroCodec(newest.read_bytes()).encode({"x": 4, "note": "n"}),
    ]
    rows = typed(
        payloads([*made, old.encode({"x": 5})]),
        {"x": LongType(), "note": StringType()},
        payloadSchema=str(newest),
        payloadOlderSchemas=str(older),
    )
    assert [(row["x"], row["note"]) for row in rows] == [(3, None), (4, "n"), (None, None)]
    assert rows[2][CORRUPT].startswith("payload is no Avro of this schema")


def test_columns_of_avro(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    types = {
        "order": LongType(),
        "items": ArrayType(StructType([StructField("x", LongType())])),
        "labels": MapType(StringType(), StringType()),
    }
    right, short, long = typed(
        payloads([written(ROW), written(ROW)[:-1], written(ROW) + b"\0"]), types, payloadSchema=str(file)
    )
    assert right == {"order": 7, "items": [{"x": 1}], "labels": [("a", "b")], CORRUPT: None}
    assert short[CORRUPT].startswith("payload is no Avro of this schema: EOFError")
    assert long[CORRUPT] == "payload is bytes are left behind the Avro record"
    assert (short["order"], long["order"]) == (None, None)


@pytest.mark.parametrize("payload", [b"", b"\xff" * 20, b"\x02" * 3])
def test_bytes_that_are_no_record(payload: bytes) -> None:
    with pytest.raises(UndecodablePayload):
        AvroCodec(json.dumps(ORDER).encode()).decode(payload)


def test_a_row_that_is_no_record() -> None:
    with pytest.raises(UnencodableRow, match="no Avro of this schema"):
        AvroCodec(json.dumps(ORDER).encode()).encode({**ROW, "order": None})


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (b"{", "is no Avro schema"),
        (b'"string"', "is no Avro record"),
        (b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Other"}]}', "is no Avro schema"),
        (b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]}', "union of several"),
        (b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}', "nests R in itself"),
        (
            b'{"type": "record", "name": "R", "fields": [{"name": "a", "type":'
            b' {"type": "int", "logicalType": "time-millis"}}]}',
            "which Spark lacks",
        ),
    ],
)
def test_schemas_that_are_no_table(definition: bytes, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        _ = AvroCodec(definition).ddl
