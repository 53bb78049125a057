"""What is Iceberg's own: commits that are not repeated behind another's, names, merged files, catalogues, readers."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")
pytest.importorskip("duckdb")

import duckdb
import pyarrow.dataset
from pyiceberg.table import StaticTable
from pyiceberg.utils.config import Config

from crdtstream.spark.offsets import parse_origin
from crdtstream.spark.tables.commits import TableConflict, UnreadableTable
from crdtstream.spark.tables.files import batches_of
from crdtstream.spark.tables.iceberg import IcebergArchive
from tests.spark.tables.files import ORIGIN, SCHEMA, batch_of, places_of, written_by
from tests.spark.tables.formats import found, vector_of, version_of

AT = parse_origin(ORIGIN)


@pytest.fixture
def table(tmp_path: Path) -> IcebergArchive:
    return IcebergArchive(str(tmp_path / "orders"))


def publish(table: IcebergArchive, stream: str, *seqs: int) -> None:
    table.publish(table.opened(SCHEMA), written_by(table, batch_of(stream, *seqs)), {stream: {AT: max(seqs)}})


def test_a_commit_that_another_has_overtaken_is_not_repeated_behind_it(table: IcebergArchive) -> None:
    version = table.opened(SCHEMA)
    publish(table, "a", 1, 2)
    with pytest.raises(TableConflict, match="another writer has changed"):
        table.publish(version, written_by(table, batch_of("a", 1)), {"a": {AT: 1}})
    assert (found(table), vector_of(table)) == ([("a", ORIGIN, 1), ("a", ORIGIN, 2)], {"a": {AT: 2}})


def test_a_name_longer_than_statistics_of_a_file_keeps_its_partition(table: IcebergArchive) -> None:
    long = "x" * 5000
    publish(table, long, 1)
    assert [file.stream for file in table.files(version_of(table))] == [long]
    assert version_of(table).scan(f"stream = '{long}'").to_arrow().num_rows == 1


def test_deletes_are_exact_and_keep_the_vector(table: IcebergArchive) -> None:
    publish(table, "a", 1, 2, 3)
    publish(table, "b", 2)
    assert table.delete(version_of(table), places_of("a", 2, 9)) == 1
    assert (found(table), vector_of(table)) == (
        [("a", ORIGIN, 1), ("a", ORIGIN, 3), ("b", ORIGIN, 2)],
        {"b": {AT: 2}},
    )


def test_small_files_of_a_partition_become_one(table: IcebergArchive) -> None:
    for seq in (1, 2, 3):
        publish(table, "a", seq)
    publish(table, "b", 4)
    held = found(table)
    assert table.compact() == 3
    assert sorted((file.stream, file.rows) for file in table.files(version_of(table))) == [("a", 3), ("b", 1)]
    assert (found(table), vector_of(table)) == (held, {"b": {AT: 4}})
    assert table.compact() == 0


def test_without_a_vector_the_highest_seqs_are_it(table: IcebergArchive) -> None:
    publish(table, "a", 1, 7)
    version = version_of(table)
    files = [file.uri for file in written_by(table, batch_of("a", 8))]
    version.overwrite(version.scan().to_arrow())
    version.maintenance.expire_snapshots().by_ids(
        [each.snapshot_id for each in version.snapshots() if each != version.current_snapshot()]
    ).commit()
    version.add_files(files)
    assert vector_of(table) == {"a": {AT: 8}}


def test_other_readers_find_it(table: IcebergArchive) -> None:
    """Without a catalogue, and without Iceberg."""
    publish(table, "a", 1, 2)
    publish(table, "b", 3)
    seen = StaticTable.from_metadata(version_of(table).metadata_location).scan().to_arrow()
    counted = duckdb.from_arrow(seen).aggregate("stream, count(*), max(seq)").order("stream")
    assert counted.fetchall() == [("a", 2, 2), ("b", 1, 3)]
    paths = [file.uri.removeprefix("file://") for file in table.files(version_of(table))]
    assert pyarrow.dataset.dataset(paths).count_rows() == 3
    parts = [part for file in table.files(version_of(table)) for part in batches_of(file, ("stream", "seq"))]
    assert sorted(row["seq"] for part in parts for row in part.to_pylist()) == [1, 2, 3]


def test_a_catalogue_of_pyiceberg_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreadableTable, match="pyiceberg cannot open the catalogue lake: URI missing"):
        IcebergArchive(str(tmp_path / "orders"), catalog="lake").table()
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/lake.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    table = IcebergArchive(str(tmp_path / "orders"), catalog="lake")
    assert table.table() is None
    publish(table, "a", 1)
    assert found(IcebergArchive(str(tmp_path / "orders"), catalog="lake")) == [("a", ORIGIN, 1)]
    assert not (tmp_path / "orders" / "catalog.db").exists()


def test_the_catalogue_of_a_table_in_an_object_store_is_named() -> None:
    with pytest.raises(UnreadableTable, match="name one of pyiceberg's settings with --catalog"):
        IcebergArchive("s3://bucket/orders?region=eu-central-1")


def test_files_of_deletes_are_refused(table: IcebergArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(table, "a", 1)
    version = version_of(table)
    task = next(iter(version.scan().plan_files()))
    task.delete_files.add(task.file)
    monkeypatch.setattr("pyiceberg.table.DataScan.plan_files", lambda _scan: [task])
    with pytest.raises(UnreadableTable, match="has files of deletes, which are not read here"):
        table.files(version)
    assert table.compact() == 0
