"""Typed columns in a table: those that appear later are added, and a column keeps its type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from crdtstream.spark.tables.entry_table import EntryTable
from tests.spark.fake_regions import Regions
from tests.spark.jobs.streams import archive_to
from tests.spark.tables.formats import FORMATS, Made, rows_of

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(params=FORMATS)
def made(request: pytest.FixtureRequest) -> Made:
    """A table of each format."""
    kind: Made = request.param
    return kind


def archive(spark: Any, regions: Regions, table: EntryTable, schema: str) -> None:
    archive_to(table, spark, regions, {"payloadSchema": schema})


def test_columns_of_a_longer_schema_are_added(spark: Any, regions: Regions, tmp_path: Path, made: Made) -> None:
    table = made(str(tmp_path / "table"))
    regions[1].add("s1", [b"n", b"1"], [b"n", b"x"])
    archive(spark, regions, table, "n BIGINT")
    regions[1].add("s1", [b"n", b"2", b"at", b"2026-11-27T06:00:00Z", b"tags", b'["a"]'])
    archive(spark, regions, table, "n BIGINT, at TIMESTAMP, tags ARRAY<STRING>")
    rows = sorted(rows_of(table).to_pylist(), key=lambda row: row["seq"])
    assert [(row["n"], row["tags"], row["at"] is None, row["_corrupt_record"]) for row in rows] == [
        (1, None, True, None),
        (None, None, True, "n is 'x', which is no bigint"),
        (2, ["a"], False, None),
    ]
    assert [pair["value"] for pair in rows[1]["fields"]] == [b"x"]


def test_a_column_keeps_its_type(spark: Any, regions: Regions, tmp_path: Path, made: Made) -> None:
    table = made(str(tmp_path / "table"))
    regions[1].add("s1", [b"n", b"1"])
    archive(spark, regions, table, "n BIGINT")
    regions[1].add("s1", [b"n", b"2"])
    with pytest.raises(Exception, match=r"column n of .* is (long|int64), and the rows have string"):
        archive(spark, regions, table, "n STRING")
    archive(spark, regions, table, "n BIGINT")
    assert sorted(rows_of(table, ["n"])["n"].to_pylist()) == [1, 2]
