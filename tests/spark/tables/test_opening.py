"""Which table is at a place."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from crdtstream.spark.tables.opening import table_at, table_of
from tests.spark.tables.files import SCHEMA
from tests.spark.tables.formats import FORMATS, Made


@pytest.mark.parametrize("made", FORMATS)
def test_a_table_is_recognised(tmp_path: Path, made: Made) -> None:
    made(str(tmp_path / "table")).opened(SCHEMA)
    found = table_at(str(tmp_path / "table") + "/")
    assert isinstance(found, made) and found.table() is not None
    assert isinstance(table_of(made.kind, str(tmp_path)), made)


def test_where_nothing_is_there_is_no_table(tmp_path: Path) -> None:
    assert table_at(str(tmp_path / "none")).table() is None
    assert table_at(str(tmp_path / "none"), catalog="lake").kind == "iceberg"
