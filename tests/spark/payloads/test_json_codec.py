"""JSON in one field, by DDL and by a JSON Schema."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from crdtstream.spark.options import OptionError
from crdtstream.spark.payloads.errors import UnencodableRow
from crdtstream.spark.payloads.json_codec import JsonCodec
from tests.spark.payloads.typed import CORRUPT, payloads, typed

ORDER: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["order"],
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "price": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "state": {"enum": ["new", "paid"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "place": {"$ref": "#/$defs/place"},
    },
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}},
}


def codec(**properties: object) -> JsonCodec:
    return JsonCodec(json.dumps({"properties": properties}).encode())


def test_members_have_the_types_of_the_ddl() -> None:
    types = {
        "n": LongType(),
        "d": DoubleType(),
        "b": BooleanType(),
        "t": TimestampType(),
        "day": DateType(),
        "m": DecimalType(5, 2),
        "raw": BinaryType(),
        "list": ArrayType(StructType([StructField("x", LongType())])),
    }
    payload = (
        b'{"n": 1, "d": 2, "b": true, "t": "2026-11-27T06:00:00Z", "day": "2026-11-27", "m": 1.10, "raw": "AP8=",'
        b' "list": [{"x": 1, "y": 2}, null], "more": {}}'
    )
    (row,) = typed(payloads([payload]), types, payloadSchema=", ".join(types), payloadField="payload")
    assert row == {
        "n": 1,
        "d": 2.0,
        "b": True,
        "t": datetime(2026, 11, 27, 6, tzinfo=UTC),
        "day": date(2026, 11, 27),
        "m": Decimal("1.10"),
        "raw": b"\x00\xff",
        "list": [{"x": 1}, None],
        CORRUPT: None,
    }


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"null", "payload is JSON, but no object"),
        (b"", "payload is no JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"{" * 10, "payload is no JSON"),
        (b"[" * 100_000, "payload is no JSON"),
        (b'{"n": "1"}', "n is '1', which is no bigint"),
        (b'{"n": true}', "n is True, which is no bigint"),
        (b'{"n": 1.5}', "n is Decimal('1.5'), which is no bigint"),
        (b'{"n": 1e400}', "n is Decimal"),
        (b'{"s": "\\ud800"}', "s is '\\ud800', which is no string"),
        (b'{"s": "\xff"}', "payload is no JSON: 'utf-8' codec"),
    ],
)
def test_payloads_that_do_not_fit(payload: bytes, reason: str) -> None:
    types = {"n": LongType(), "s": StringType()}
    rows = typed(payloads([payload, b'{"n": 2, "s": "x"}']), types, payloadSchema="n, s", payloadField="payload")
    assert rows[0][CORRUPT].startswith(reason)
    assert rows[0]["n"] is None and rows[0]["s"] is None
    assert rows[1] == {"n": 2, "s": "x", CORRUPT: None}


def test_an_entry_without_the_field() -> None:
    (row,) = typed([[b"f", b"1"]], {"n": LongType()}, payloadSchema="n", payloadField="payload")
    assert row == {"n": None, CORRUPT: "the entry has no field payload"}


def test_a_json_schema_has_types_and_validates(tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text(json.dumps(ORDER))
    assert JsonCodec(file.read_bytes()).ddl == (
        "`order` bigint, `price` double, `at` timestamp, `day` date, `state` string, `tags` array<string>,"
        " `labels` map<string, boolean>, `place` struct<`x` double, `y` double>"
    )
    right, low, without = typed(
        payloads([b'{"order": 1, "price": 2.5}', b'{"order": 0}', b"{}"]),
        {"order": LongType(), "price": DoubleType()},
        payloadSchema=str(file),
    )
    assert right == {"order": 1, "price": 2.5, CORRUPT: None}
    assert low[CORRUPT] == "payload is $.order: 0 is less than the minimum of 1"
    assert without[CORRUPT] == "payload is $: 'order' is a required property"


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (b"{", "is no JSON"),
        (b'{"type": "string"}', "needs properties"),
        (b'{"properties": {"a": {"type": ["integer", "string"]}}}', "gives a no single type"),
        (b'{"properties": {"a": {}}}', "gives a no single type"),
        (b'{"properties": {"a": {"type": "object"}}}', "add its properties"),
        (b'{"properties": {"a": {"$ref": "#/none"}}}', "gives a no single type"),
        (b'{"properties": {"a": {"$ref": "#/properties/a"}}}', "is no schema"),
        (
            b'{"properties": {"a": {"type": "object", "properties": {"b": {"$ref": "#/properties/a"}}}}}',
            "nests b without end",
        ),
    ],
)
def test_schemas_that_are_no_table(definition: bytes, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        _ = JsonCodec(definition).ddl


def test_rows_become_json_and_must_be_valid() -> None:
    made = JsonCodec(json.dumps(ORDER).encode()).encode({"order": 1, "price": None, "place": {"x": 1.5, "y": None}})
    assert json.loads(made) == {"order": 1, "place": {"x": 1.5}}
    with pytest.raises(UnencodableRow, match="less than the minimum"):
        JsonCodec(json.dumps(ORDER).encode()).encode({"order": 0})
    plain = codec().encode({"m": Decimal("1.10"), "raw": b"\x00\xff", "day": date(2026, 11, 27)})
    assert json.loads(plain) == {"m": "1.10", "raw": "AP8=", "day": "2026-11-27"}
