"""A version of a table in the streams of another cluster: each entry once, also if the job is run again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

import grpc

from crdtstream.processes.region import RegionProcess
from crdtstream.spark.jobs.backfill import Backfilled
from crdtstream.spark.jobs.replay import OwnArchive
from crdtstream.spark.jobs.table_backfill import load_table
from crdtstream.spark.tables.commits import UnreadableTable
from crdtstream.spark.tables.entry_table import EntryTable
from tests.spark.fake_regions import Regions
from tests.spark.jobs.streams import archive_to, filled, sink, source
from tests.spark.tables.formats import FORMATS, Made

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> EntryTable:
    made: Made = request.param
    return made(str(tmp_path / "table"))


@pytest.fixture
def other() -> Iterator[Regions]:
    """Another cluster."""
    made = Regions(1)
    # Its origins are others.
    made.regions[0].origin += 1 << 20
    yield made
    made.stop()


def archive(spark: Any, regions: Regions, table: EntryTable) -> int:
    archive_to(table, spark, regions)
    return table.version_of(table.table())


def entries(spark: Any, regions: Regions) -> list[tuple[str, bytes]]:
    """In the order of their IDs: the fake regions give new ones."""
    rows = spark.read.format("crdtstream").options(**source(regions)).load().collect()
    ordered = sorted(rows, key=lambda row: (row.stream, row.timestamp, row.origin))
    return [(row.stream, bytes(row.fields[0].value)) for row in ordered]


def test_a_version_is_loaded_and_a_repeated_run_adds_nothing(
    spark: Any, regions: Regions, other: Regions, table: EntryTable
) -> None:
    filled(regions)
    version, then = archive(spark, regions, table), entries(spark, regions)
    filled(regions, 3)
    archive(spark, regions, table)
    seen: list[tuple[Backfilled, int]] = []
    for _ in range(2):
        done = load_table(
            spark, table, str(version), sink(other), batch_rows=6, progress=lambda *told: seen.append(told)
        )
        assert (done.rows, done.batches) == (len(then), 4)
        assert entries(spark, other) == then
    assert len(seen) == 8 and {total for _, total in seen} == {len(then)}


def test_a_user_who_may_only_add_loads_a_table(spark: Any, regions: Regions, other: Regions, table: EntryTable) -> None:
    filled(regions)
    archive(spark, regions, table)
    other[1].fail("Heads", *[grpc.StatusCode.PERMISSION_DENIED] * 9)
    done = load_table(spark, table, "latest", sink(other))
    assert (done.rows, done.published, done.unknown) == (20, 0, 20)
    assert len(other.values("a")) == 10


def test_what_cannot_be_loaded_is_named(spark: Any, regions: Regions, other: Regions, table: EntryTable) -> None:
    filled(regions, 1)
    archive(spark, regions, table)
    with pytest.raises(OwnArchive, match=r"is an archive of the cluster at .* which knows origin"):
        load_table(spark, table, "latest", sink(regions))
    with pytest.raises(UnreadableTable, match="has no version of 77"):
        load_table(spark, table, "77", sink(other))
    with pytest.raises(UnreadableTable, match="has no version of 2001-01-01"):
        load_table(spark, table, "2001-01-01T00:00", sink(other))
    with pytest.raises(UnreadableTable, match="neither the number of a version, nor an ISO time"):
        load_table(spark, table, "yesterday", sink(other))
    assert load_table(spark, table, "2101-01-01T00:00", sink(other)).rows == 4


def test_ids_are_kept_and_what_is_repeated_is_counted(
    spark: Any, regions: Regions, tmp_path: Path, table: EntryTable
) -> None:
    filled(regions)
    archive(spark, regions, table)
    with RegionProcess(9, tmp_path, bulk=True) as region:
        region.start(id_mode="liberal")
        region.await_serving()
        target = {"endpoints": region.bulk_address}
        first, second = (load_table(spark, table, "latest", target, batch_rows=6) for _ in range(2))
        assert (first.rows, first.skipped) == (second.rows, 0) and second.skipped == second.rows > 0
        for stream in ("a", "b"):
            rows = spark.read.format("crdtstream").options(**source(regions, stream)).load().collect()
            wanted = sorted((row.id, bytes(row.fields[0].value)) for row in rows)
            found = region.ask("XRANGE", stream, "-", "+")
            assert [(entry_id.decode(), fields[1]) for entry_id, fields in found] == wanted
