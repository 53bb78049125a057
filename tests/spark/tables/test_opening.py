"""Which table is at a place."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from crdtstream.spark.offsets import PLAIN_ROWS, parse_origin
from crdtstream.spark.tables.commits import PUBLISHED, UnreadableTable
from crdtstream.spark.tables.entry_table import EntryTable
from crdtstream.spark.tables.opening import archive_at, table_at, table_of
from tests.spark.tables.files import ORIGIN, SCHEMA, batch_of, written_by
from tests.spark.tables.formats import FORMATS, Made


@pytest.mark.parametrize("made", FORMATS)
def test_a_table_is_recognised(tmp_path: Path, made: Made) -> None:
    made(str(tmp_path / "table")).opened(SCHEMA)
    found = table_at(str(tmp_path / "table") + "/")
    assert isinstance(found, made) and found.table() is not None
    assert isinstance(table_of(made.kind, str(tmp_path)), made)


def test_an_archive_of_files_is_no_table(tmp_path: Path) -> None:
    (tmp_path / PUBLISHED).write_text("{}")
    with pytest.raises(UnreadableTable, match=r"is an archive of Parquet files.* name a table"):
        table_at(str(tmp_path))
    assert archive_at(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("made", FORMATS)
def test_an_archive_is_a_table_or_a_directory(tmp_path: Path, made: Made) -> None:
    place = str(tmp_path / "table")
    assert archive_at(place) == place
    made(place).opened(SCHEMA)
    assert isinstance(archive_at(place), made)


@pytest.mark.parametrize("made", FORMATS)
def test_reading_makes_no_table(tmp_path: Path, made: Made) -> None:
    """As of an Iceberg table that is in another catalogue than the one in its directory."""
    (tmp_path / "metadata").mkdir()
    with pytest.raises(UnreadableTable, match=r"there is no table at .*/[^/]+: name the directory"):
        made(str(tmp_path)).latest()
    assert [path.name for path in tmp_path.iterdir()] == ["metadata"]


@pytest.mark.parametrize("made", FORMATS)
@pytest.mark.parametrize("streams", [1, PLAIN_ROWS + 1])
def test_a_vector_of_many_streams_is_packed(tmp_path: Path, made: Made, streams: int) -> None:
    table: EntryTable = made(str(tmp_path / "table"))
    vector = {f"s{number:03}": {parse_origin(ORIGIN): number + 1} for number in range(streams)}
    table.publish(table.opened(SCHEMA), written_by(table, batch_of("s000", 1)), vector)
    assert table.through(table.latest()) == vector
    texts = [path.read_text() for path in (tmp_path / "table").rglob("*.json")]
    assert any("packed" in text for text in texts) == (streams > PLAIN_ROWS)


def test_where_nothing_is_there_is_no_table(tmp_path: Path) -> None:
    assert table_at(str(tmp_path / "none")).table() is None
    assert table_at(str(tmp_path / "none"), catalog="lake").kind == "iceberg"
