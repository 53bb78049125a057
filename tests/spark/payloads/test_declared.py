"""What `payloadSchema` may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from crdtstream.spark.options import OptionError, Options
from crdtstream.spark.payloads.declared import declared, names_of


def options(**given: str) -> Options:
    return Options({"endpoints": "h:1", **given})


@pytest.mark.parametrize(
    ("ddl", "names"),
    [
        ("order BIGINT, item STRING", ["order", "item"]),
        ("a: int,b string COMMENT 'x, y'", ["a", "b"]),
        ("a STRUCT<x: INT, y: ARRAY<INT>>, b DECIMAL(10, 2), c MAP<STRING, INT>", ["a", "b", "c"]),
        ("`a, b` INT, `c``d` STRING", ["a, b", "c`d"]),
    ],
)
def test_names_of_ddl(ddl: str, names: list[str]) -> None:
    assert names_of(ddl) == names


def test_without_a_schema_its_companions_are_refused() -> None:
    assert declared(options()) is None
    with pytest.raises(OptionError, match="payloadField was given without payloadSchema"):
        declared(options(payloadField="body"))


def test_where_a_payload_lies(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('{"properties": {"a": {"type": "integer"}}}')
    fields = declared(options(payloadSchema="a INT"))
    assert fields is not None and fields.field == "" and fields.ddl == "a INT"
    json = declared(options(payloadSchema="a INT", payloadField="body", payloadColumn="p"))
    assert json is not None and json.field == "body" and json.ddl == "`p` struct<a INT>" and json.names == ["p"]
    by_file = declared(options(payloadSchema=str(file)))
    assert by_file is not None and by_file.field == "payload" and by_file.ddl == "`a` bigint"
    by_uri = declared(options(payloadSchema=file.as_uri()))
    assert by_uri == by_file


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"payloadSchema": "/no/such.avsc"}, "cannot be read on the driver"),
        ({"payloadSchema": "a INT", "payloadOlderSchemas": __file__}, "payloadOlderSchemas is for Avro"),
        ({"payloadSchema": "orders.proto"}, "descriptor_set_out=orders.desc orders.proto"),
    ],
)
def test_files_that_are_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        declared(options(**given))


def test_rows_may_not_be_lost_without_a_word() -> None:
    with pytest.raises(OptionError, match="filter by the column columnNameOfCorruptRecord"):
        options(mode="DROPMALFORMED")
