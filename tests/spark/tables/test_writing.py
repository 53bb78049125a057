"""What workers write: one file for each stream and day, whatever batches the rows come in."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as parquet

from crdtstream.spark.tables.writing import FileWriter, WrittenFile
from tests.spark.tables.files import NOON, SCHEMA, batch_of

DAY = timedelta(days=1)


def test_files_end_where_stream_or_day_change_and_not_where_batches_do(tmp_path: Path) -> None:
    first = pa.Table.from_batches([batch_of("a", 1, 2), batch_of("a", 3, at=NOON + DAY), batch_of("b", 4)])
    batches = [*first.combine_chunks().to_batches(), batch_of("b", 5, 6), batch_of("c", 7)]
    rows = [row for each in FileWriter(str(tmp_path), SCHEMA)(iter(batches)) for row in each.to_pylist()]
    files = [WrittenFile(**row) for row in rows]
    found = [(file.stream, file.date, parquet.read_table(file.uri)["seq"].to_pylist()) for file in files]
    noon, next_day = NOON.date(), (NOON + DAY).date()
    assert found == [("a", noon, [1, 2]), ("a", next_day, [3]), ("b", noon, [4, 5, 6]), ("c", noon, [7])]
    assert [file.rows for file in files] == [2, 1, 3, 1]
    assert [file.size_bytes for file in files] == [Path(file.uri).stat().st_size for file in files]


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert list(FileWriter(str(tmp_path), SCHEMA)(iter([batch_of("a")]))) == []
    assert list(tmp_path.iterdir()) == []
