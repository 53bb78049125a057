"""Rows of every form of columns, against the plain reading of the contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.spark import rows as rows_module
from crdtstream.spark.rows import RowError, RowTarget, check_columns, messages
from tests.spark.fake_regions import rows_of

TO = RowTarget(0, "s", False)
PAIR = pa.struct([("field", pa.binary()), ("value", pa.binary())])
pairs = st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=200)), min_size=1, max_size=4)
many = st.lists(pairs, min_size=1, max_size=8)


def sent(batch: pa.RecordBatch, target: RowTarget = TO) -> list[tuple[bytes, list[bytes]]]:
    return [row for message in messages(batch, target) for row in rows_of(message)]


def flat(rows: list[list[tuple[bytes, bytes]]]) -> list[list[bytes]]:
    return [[item for pair in row for item in pair] for row in rows]


@given(many, st.integers(0, 3))
def test_arrays_and_maps(rows: list[list[tuple[bytes, bytes]]], skipped: int) -> None:
    structs = pa.array([[{"field": f, "value": v} for f, v in row] for row in rows], pa.list_(PAIR))
    maps = pa.array(rows, pa.map_(pa.binary(), pa.binary()))
    for column in (structs, maps):
        batch = pa.RecordBatch.from_arrays([column], ["fields"]).slice(skipped)
        assert sent(batch) == [(b"s", row) for row in flat(rows)[skipped:]]


def test_maps_of_text_and_numbers() -> None:
    column = pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int32()))
    assert sent(pa.RecordBatch.from_arrays([column], ["fields"])) == [(b"s", [b"a", b"1", b"b", b"2"])]


def test_json() -> None:
    text = '{"a": "x", "b": 1.5, "a": {"c": [1, {"d": null}], "e": {}}, "f": [], "g": true}'
    row = [b"a", b"x", b"b", b"1.5", b"a", b'{"c": [1, {"d": null}], "e": {}}', b"f", b"[]", b"g", b"true"]
    assert sent(pa.RecordBatch.from_arrays([pa.array([text])], ["fields"])) == [(b"s", row)]
    with pytest.raises(RowError, match="JSON is not an object"):
        sent(pa.RecordBatch.from_arrays([pa.array(["[1]"])], ["fields"]))


def test_flat_columns_become_fields_and_null_is_left_out() -> None:
    batch = pa.record_batch({"stream": ["t", "u"], "n": [1, None], "b": [b"\xff", b""], "ok": [True, False]})
    assert sent(batch) == [
        (b"t", [b"n", b"1", b"b", b"\xff", b"ok", b"true"]),
        (b"u", [b"b", b"", b"ok", b"false"]),
    ]
    with pytest.raises(RowError, match="a row has no fields"):
        sent(pa.record_batch({"n": pa.array([None], pa.int32())}))
    with pytest.raises(RowError, match="column n holds list"):
        sent(pa.record_batch({"n": [[1]]}))


def test_ids() -> None:
    batch = pa.record_batch({"id": ["5-1", "6", "18446744073709551615-0"], "f": ["a", "b", "c"]})
    (message,) = messages(batch, TO)
    assert np.frombuffer(message.ms, "<u8").tolist() == [5, 6, 2**64 - 1]
    assert np.frombuffer(message.id_seqs, "<u8").tolist() == [1, 0, 0]
    (message,) = messages(pa.record_batch({"id": pa.array([None], pa.string()), "f": ["a"]}), TO)
    assert message.ms == message.id_seqs == b""


@pytest.mark.parametrize("wrong", [None, "", "x", "5-", "-1", "5-1-1"])
def test_ids_that_are_none_are_refused(wrong: str | None) -> None:
    with pytest.raises(RowError, match="write ms-seq in all rows"):
        sent(pa.record_batch({"id": ["5-1", wrong], "f": ["a", "b"]}))


def test_ids_beyond_64_bits_are_refused() -> None:
    with pytest.raises(RowError, match="beyond 64 bits"):
        sent(pa.record_batch({"id": ["18446744073709551616-0"], "f": ["a"]}))


def test_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MESSAGE_BYTES", 1000)
    values = [b"x" * (size * 7 % 400) for size in range(200)]
    values[100] = b"y" * 5000
    batch = pa.record_batch({"stream": ["a" if size % 3 else "b" for size in range(200)], "f": values})
    made = list(messages(batch, TO))
    assert all(len(message.data) <= 1000 or message.count == 1 for message in made)
    assert len(made) > 30
    assert sent(batch) == [(b"a" if at % 3 else b"b", [b"f", value]) for at, value in enumerate(values)]


@pytest.mark.parametrize(
    ("names", "target", "why"),
    [
        (["fields"], RowTarget(0, "", False), "rows have no column stream"),
        (["stream", "id"], TO, "neither a column fields nor other columns"),
        (["fields", "colour"], TO, "column colour cannot be used together with fields"),
    ],
)
def test_columns_are_checked(names: list[str], target: RowTarget, why: str) -> None:
    with pytest.raises(RowError, match=why):
        check_columns(names, target)


def test_columns_of_the_source_may_come_back() -> None:
    check_columns(["stream", "id", "origin", "seq", "timestamp", "fields", "region_read"], TO)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"stream": pa.array([None], pa.string()), "f": ["a"]}, "null as its stream"),
        ({"fields": pa.array([None], pa.list_(PAIR))}, "null as its fields"),
        ({"fields": pa.array([[]], pa.list_(PAIR))}, "has no fields"),
        ({"fields": pa.array([[{"field": b"a", "value": None}]], pa.list_(PAIR))}, "fields hold a null"),
        ({"fields": pa.array([5])}, "column fields has type int64"),
    ],
)
def test_rows_that_cannot_be_entries_are_refused(columns: dict[str, Any], why: str) -> None:
    with pytest.raises(RowError, match=why):
        sent(pa.record_batch(columns))


def test_no_rows_are_no_messages() -> None:
    assert list(messages(pa.record_batch({"f": pa.array([], pa.string())}), TO)) == []
