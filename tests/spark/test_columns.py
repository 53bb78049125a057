"""Columns: types as Spark has them, and values at their edges."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from crdtstream.bulk import bulk_pb2
from crdtstream.spark.columns import Decoder, columns_of, ddl
from crdtstream.spark.entries import run_of
from tests.spark.fake_regions import Entry, entries_of
from tests.spark.support import schema_of


def decoded(rows: list[Entry], fields_as: str = "array", metadata: bool = False) -> pa.RecordBatch:
    schema = to_arrow_schema(schema_of(fields_as, metadata), timezone="UTC")
    interval = bulk_pb2.Interval(stream=b"s", origin=257, through=9)
    batch = Decoder(columns_of(fields_as, metadata), schema).batch(run_of([(interval, entries_of(0, rows))], "r"))
    assert batch.schema.equals(schema)
    batch.validate(full=True)
    return batch


@pytest.mark.parametrize("fields_as", ["array", "map", "json"])
@pytest.mark.parametrize("metadata", [False, True])
def test_every_column_has_the_type_that_spark_wants(fields_as: str, metadata: bool) -> None:
    batch = decoded([(1, 5, 6, [b"f", b"v"])], fields_as, metadata)
    assert batch.num_rows == 1
    assert batch.schema.names == [
        part.split()[0]
        for part in ddl(columns_of(fields_as, metadata)).split(", ")
        if (not part.startswith("value") and not part.startswith("binary"))
    ]


def test_numbers_that_do_not_fit_are_null() -> None:
    rows: list[Entry] = [(1, 2**64 - 1, 2**64 - 1, [b"f", b"v"]), (2, 2**63 - 1, 2**63 - 1, [b"f", b"v"])]
    first, second = decoded(rows, metadata=True).to_pylist()
    assert (first["id_ms"], first["id_seq"], first["timestamp"]) == (None, None, None)
    assert (second["id_ms"], second["timestamp"]) == (2**63 - 1, None)
    assert first["id"] == f"{2**64 - 1}-{2**64 - 1}"


texts = st.text(max_size=8).map(str.encode)
repeated = st.lists(st.tuples(texts, texts), min_size=1, max_size=4)


@given(st.lists(repeated, min_size=1, max_size=5))
def test_json_is_what_python_reads(rows: list[list[tuple[bytes, bytes]]]) -> None:
    entries: list[Entry] = [(seq + 1, 5, seq, [item for pair in row for item in pair]) for seq, row in enumerate(rows)]
    found = [json.loads(text, object_pairs_hook=list) for text in decoded(entries, "json").column("fields").to_pylist()]
    assert found == [[(name.decode(), value.decode()) for name, value in row] for row in rows]


def test_json_of_bytes_that_are_no_text() -> None:
    (text,) = decoded([(1, 5, 6, [b"f\xff", b"\x00\x7f\x1f"])], "json").column("fields").to_pylist()
    assert json.loads(text) == {"f\ufffd": "\x00\x7f\x1f"}


@given(st.lists(st.lists(st.binary(max_size=5), min_size=2, max_size=2), min_size=1, max_size=5))
def test_fields_keep_their_order_and_repetitions(pairs: list[list[bytes]]) -> None:
    flat = [item for pair in pairs for item in pair]
    (row,) = decoded([(1, 5, 6, flat)]).column("fields").to_pylist()
    assert [[each["field"], each["value"]] for each in row] == pairs
    (row,) = decoded([(1, 5, 6, flat)], "map").column("fields").to_pylist()
    assert [list(pair) for pair in row] == pairs
