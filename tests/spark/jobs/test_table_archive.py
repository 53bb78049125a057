"""An archive that is a table: continued, repeated, killed between files and commit, written by two at once."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from crdtstream.spark.jobs.archive import archive as archive_files
from crdtstream.spark.jobs.table_archive import TableArchive, TableGap
from crdtstream.spark.offsets import Positions
from crdtstream.spark.tables.commits import ForeignQuery, Published, TableConflict
from crdtstream.spark.tables.delta import DeltaArchive
from crdtstream.spark.tables.entry_table import EntryTable
from crdtstream.spark.tables.files import highest
from crdtstream.spark.tables.iceberg import IcebergArchive
from tests.spark.fake_regions import Regions
from tests.spark.jobs.streams import archive_to, filled, held, source
from tests.spark.tables.formats import FORMATS, Made, found, rows_of, vector_of, version_of

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(params=FORMATS)
def made(request: pytest.FixtureRequest) -> Made:
    """A table of each format."""
    kind: Made = request.param
    return kind


def archive(spark: Any, regions: Regions, table: EntryTable, **options: str) -> int:
    """Archive what is there; return the number of rows."""
    return archive_to(table, spark, regions, options).rows


def vector(regions: Regions) -> Positions:
    return {
        stream.decode(): {origin: max(entry[0] for entry in entries) for origin, entries in origins.items()}
        for stream, origins in regions.streams.items()
    }


def test_a_table_is_continued_and_says_up_to_where_it_holds_everything(
    spark: Any, regions: Regions, tmp_path: Path, made: Made
) -> None:
    table = made(str(tmp_path / "table"))
    filled(regions)
    assert archive(spark, regions, table) == 20
    assert (found(table), vector_of(table)) == (held(regions), vector(regions))
    regions[1].restart()
    regions[1].add("new", b"later")
    filled(regions, 1)
    assert archive(spark, regions, table) == 5
    assert (found(table), vector_of(table)) == (held(regions), vector(regions))
    assert archive(spark, regions, table) == 0


def test_columns_and_values_are_those_of_the_entries(spark: Any, regions: Regions, tmp_path: Path, made: Made) -> None:
    table = made(str(tmp_path / "table"))
    regions[1].add("a/b=c %", [b"f", b"\xff", b"f", b""])
    regions[1].add(b"\xfe", b"v")
    archive(spark, regions, table)
    read = rows_of(table)
    assert read.schema.names == ["stream", "id", "origin", "seq", "timestamp", "fields", "date", "archived"]
    rows = {row["stream"]: row for row in read.to_pylist()}
    assert rows["a/b=c %"]["fields"] == [{"field": b"f", "value": b"\xff"}, {"field": b"f", "value": b""}]
    assert rows["a/b=c %"]["id"].endswith("-1") and rows["a/b=c %"]["date"] == rows["a/b=c %"]["timestamp"].date()
    assert sorted(rows) == ["\\xfe", "a/b=c %"]
    assert {file.stream for file in table.files(version_of(table))} == {"\\xfe", "a/b=c %"}
    assert archive(spark, regions, table) == 0


def test_a_lost_commit_of_the_query_adds_nothing_twice(
    spark: Any, regions: Regions, tmp_path: Path, made: Made
) -> None:
    table = made(str(tmp_path / "table"))
    filled(regions)
    archive(spark, regions, table)
    commits = tmp_path / "table" / "_checkpoint" / "commits"
    shutil.rmtree(commits)
    commits.mkdir()
    filled(regions, 2)
    archive(spark, regions, table)
    assert found(table) == held(regions)


def test_without_its_checkpoint_a_query_goes_on_where_the_table_ends(
    spark: Any, regions: Regions, tmp_path: Path, made: Made
) -> None:
    table = made(str(tmp_path / "table"))
    filled(regions)
    archive(spark, regions, table)
    shutil.rmtree(tmp_path / "table" / "_checkpoint")
    filled(regions, 2)
    regions[1].add("new", b"later")
    regions.sync()
    assert archive(spark, regions, table) == 9
    assert found(table) == held(regions)


def test_a_query_that_ends_between_files_and_commit_leaves_no_row(
    spark: Any, regions: Regions, tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(str(tmp_path / "table"))
    filled(regions)

    def ends(*_arguments: object) -> Published:
        raise InterruptedError("killed before the commit")

    with monkeypatch.context() as patched:
        patched.setattr(table, "publish", ends)
        with pytest.raises(Exception, match="killed before the commit"):
            archive(spark, regions, table)
    assert found(table) == [] and list((tmp_path / "table" / "data").glob("*/*.parquet"))
    filled(regions, 1)
    archive(spark, regions, table)
    assert found(table) == held(regions)
    if isinstance(table, DeltaArchive):
        assert len(version_of(table).vacuum(retention_hours=0, enforce_retention_duration=False)) >= 2


def test_of_two_writers_the_slower_one_says_so_and_goes_on_behind_the_other(
    spark: Any, regions: Regions, tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = made(str(tmp_path / "table")), made(str(tmp_path / "table"))
    filled(regions)
    archive(spark, regions, slow)
    filled(regions, 1)
    publish = slow.publish

    def overtaken(*arguments: Any) -> Published:
        """The other writer has a checkpoint of its own, and more to archive."""
        filled(regions, 2)
        job = TableArchive(spark, source(regions), fast)
        job.checkpoint = str(tmp_path / "other")
        job.start().awaitTermination()
        return publish(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(slow, "publish", overtaken)
        with pytest.raises(Exception, match=f"{TableConflict.__name__}: another writer has changed"):
            archive(spark, regions, slow)
    assert found(slow) == held(regions)
    filled(regions, 1)
    assert archive(spark, regions, slow) == 4
    assert found(slow) == held(regions)


def test_a_merge_of_files_takes_back_no_vector(
    spark: Any, regions: Regions, tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = made(str(tmp_path / "table")), made(str(tmp_path / "table"))
    for _ in range(2):
        filled(regions)
        archive(spark, regions, fast)
    job = TableArchive(spark, source(regions), fast)
    read = slow.table()
    filled(regions, 1)
    job.start().awaitTermination()
    with monkeypatch.context() as patched:
        patched.setattr(slow, "table", lambda: read)
        with suppress(TableConflict):
            slow.compact()
    assert (found(fast), vector_of(fast)) == (held(regions), vector(regions))


def test_a_directory_of_the_other_kind_is_refused(spark: Any, regions: Regions, tmp_path: Path, made: Made) -> None:
    filled(regions, 1)
    archive(spark, regions, made(str(tmp_path / "table")))
    with pytest.raises(ForeignQuery, match=f"table: add --table {made.kind}"):
        archive_files(spark, source(regions), str(tmp_path / "table"))
    archive_files(spark, source(regions), str(tmp_path / "files"))
    with pytest.raises(ForeignQuery, match="is an archive of Parquet files"):
        archive(spark, regions, made(str(tmp_path / "files")))
    for other in FORMATS:
        if other is not made:
            with pytest.raises(ForeignQuery, match=f"table: add --table {made.kind}"):
                archive(spark, regions, other(str(tmp_path / "table")))


def restore(table: EntryTable, version: Any) -> None:
    latest = version_of(table)
    if isinstance(table, IcebergArchive):
        latest.manage_snapshots().rollback_to_snapshot(version.current_snapshot().snapshot_id).commit()
    else:
        latest.restore(version.version() - 1)


def test_a_table_that_was_restored_is_not_continued_with_a_gap(
    spark: Any, regions: Regions, tmp_path: Path, made: Made
) -> None:
    table = made(str(tmp_path / "table"))
    filled(regions)
    archive(spark, regions, table)
    first = version_of(table)
    filled(regions, 1)
    archive(spark, regions, table)
    restore(table, first)
    filled(regions, 1)
    with pytest.raises(Exception, match=TableGap.__name__):
        archive(spark, regions, table)
    shutil.rmtree(tmp_path / "table" / "_checkpoint")
    archive(spark, regions, table)
    assert found(table) == held(regions)


def test_small_files_are_merged_by_the_means_of_the_table(
    spark: Any, regions: Regions, tmp_path: Path, made: Made
) -> None:
    table = made(str(tmp_path / "table"))
    for _ in range(3):
        filled(regions)
        archive(spark, regions, table)
    files = table.files(version_of(table))
    assert len(files) == 2
    assert (found(table), vector_of(table), highest(files)) == (held(regions), vector(regions), vector(regions))


def test_columns_that_appear_later_are_added(spark: Any, regions: Regions, tmp_path: Path, made: Made) -> None:
    table = made(str(tmp_path / "table"))
    filled(regions, 1)
    archive(spark, regions, table)
    filled(regions, 1)
    archive(spark, regions, table, includeMetadata="true")
    rows = rows_of(table, ["region_read", "seq"]).to_pylist()
    assert sorted(row["region_read"] is None for row in rows) == [False] * 4 + [True] * 4
    assert found(table) == held(regions)
