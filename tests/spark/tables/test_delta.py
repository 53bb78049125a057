"""What is Delta's own: the names of files that it has merged itself."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from crdtstream.spark.tables.delta import DeltaArchive
from crdtstream.spark.tables.files import batches_of
from tests.spark.tables.files import SCHEMA, batch_of, written_by
from tests.spark.tables.formats import version_of


@pytest.mark.parametrize("stream", ["orders:1", "a/b=c %", "100%25", ""])
def test_files_that_delta_has_merged_are_found(tmp_path: Path, stream: str) -> None:
    table = DeltaArchive(str(tmp_path / "table"))
    for seq in (1, 2):
        table.publish(table.opened(SCHEMA), written_by(table, batch_of(stream, seq)), {})
    assert table.compact() == 2
    files = table.files(version_of(table))
    rows = [row for file in files for part in batches_of(file, ["stream", "seq"]) for row in part.to_pylist()]
    assert sorted(row["seq"] for row in rows) == [1, 2] and {row["stream"] for row in rows} == {stream}
