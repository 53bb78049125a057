"""A table compared with the regions at its vector: what is missing, altered, there twice, or removed since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

import pyarrow as pa
from deltalake import write_deltalake

from crdtstream.spark.jobs.table_audit import TableAudited, TableDifference, audit_table
from crdtstream.spark.offsets import origin_text
from crdtstream.spark.tables.commits import UnreadableTable
from crdtstream.spark.tables.delta import DeltaArchive
from crdtstream.spark.tables.entry_table import EntryTable
from tests.spark.fake_regions import Regions
from tests.spark.jobs.streams import archive_to, filled, source
from tests.spark.tables.files import SCHEMA
from tests.spark.tables.formats import FORMATS, Made, rows_of, version_of

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(params=FORMATS)
def made(request: pytest.FixtureRequest) -> Made:
    """A table of each format."""
    kind: Made = request.param
    return kind


def archived(spark: Any, regions: Regions, archive: EntryTable, keep_removed: bool = True) -> EntryTable:
    archive_to(archive, spark, regions, keep_removed=keep_removed)
    return archive


def audited(spark: Any, regions: Regions, archive: EntryTable, keep_removed: bool = True) -> TableAudited:
    return audit_table(spark, source(regions), archive, keep_removed)


def test_a_table_has_what_the_streams_had_and_nothing_that_came_later(
    spark: Any, regions: Regions, tmp_path: Path, made: Made
) -> None:
    filled(regions)
    archive = archived(spark, regions, made(str(tmp_path / "table")))
    filled(regions, 3)
    regions[1].add("new", b"later")
    assert audited(spark, regions, archive) == TableAudited(20, 0, [])


def test_what_is_wrong_is_named(spark: Any, regions: Regions, tmp_path: Path) -> None:
    filled(regions)
    archive = archived(spark, regions, DeltaArchive(str(tmp_path / "delta")))
    read = version_of(archive)
    origin = origin_text(regions[1].origin)
    write_deltalake(read, read.to_pyarrow_table(filters=[("stream", "=", "a"), ("seq", "=", 2)]), mode="append")
    read.delete(f"stream = 'a' AND seq = 3 AND origin = '{origin}'")
    read.update({"id": "'1-1'"}, predicate=f"stream = 'a' AND seq = 4 AND origin = '{origin}'")
    done = audited(spark, regions, archive)
    twice = [TableDifference("a", origin_text(region.origin), 2, "twice") for region in regions.regions]
    wrong = [TableDifference("a", origin, 3, "missing"), TableDifference("a", origin, 4, "altered")]
    assert sorted(map(str, done.differences)) == sorted(map(str, [*twice, *wrong]))


def test_what_was_removed_is_kept_or_deleted(spark: Any, regions: Regions, tmp_path: Path, made: Made) -> None:
    filled(regions)
    keeps, deletes = (archived(spark, regions, made(str(tmp_path / name))) for name in ("keeps", "deletes"))
    origin = regions[1].origin
    gone = regions.streams[b"a"][origin].pop(1)
    assert audited(spark, regions, keeps) == TableAudited(20, 1, [])
    removed = [TableDifference("a", origin_text(origin), gone[0], "removed")]
    assert audited(spark, regions, deletes, keep_removed=False) == TableAudited(20, 1, removed)
    filled(regions, 1)
    archived(spark, regions, made(str(tmp_path / "deletes")), keep_removed=False)
    assert audited(spark, regions, deletes, keep_removed=False) == TableAudited(23, 0, [])


def test_what_no_region_has_reached_is_no_removal(spark: Any, regions: Regions, tmp_path: Path, made: Made) -> None:
    filled(regions)
    archive = archived(spark, regions, made(str(tmp_path / "table")), keep_removed=False)
    regions[1].stop()
    regions[2].applied[regions[1].origin] -= 3
    with pytest.raises(Exception, match="Stranded"):
        archived(spark, regions, made(str(tmp_path / "table")), keep_removed=False)
    assert rows_of(archive).num_rows == 20


def test_fields_that_are_not_whole_are_not_compared(spark: Any, regions: Regions, tmp_path: Path) -> None:
    table = DeltaArchive(str(tmp_path / "table"))
    pairs = pa.map_(pa.binary(), pa.binary())
    table.opened(pa.schema([pa.field("fields", pairs) if each.name == "fields" else each for each in SCHEMA]))
    with pytest.raises(UnreadableTable, match=r"stores fields as map<binary, binary.*: archive without the option"):
        audited(spark, regions, table)


def test_a_directory_without_a_table_is_named(spark: Any, regions: Regions, tmp_path: Path, made: Made) -> None:
    with pytest.raises(UnreadableTable, match="there is no table at"):
        audited(spark, regions, made(str(tmp_path / "none")))
