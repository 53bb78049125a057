"""An archive that is continued, repeated and merged, read as any reader would."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from crdtstream.spark.jobs.archive import Archive, Merging, archive, entries_of
from crdtstream.spark.jobs.table_archive import TableArchive
from crdtstream.spark.options import OptionError
from crdtstream.spark.tables.commits import ForeignQuery
from crdtstream.spark.tables.opening import table_of
from tests.bulk.columns import message_of
from tests.runtime.bulk_ports import rows, serving
from tests.spark.fake_regions import START_MS, Regions
from tests.spark.jobs.streams import filled, found, held, source

pytestmark = pytest.mark.timeout(180)


def test_an_archive_is_continued_and_has_each_entry_once(spark: Any, regions: Regions, tmp_path: Path) -> None:
    target = tmp_path / "archive"
    filled(regions)
    first = archive(spark, source(regions), str(target))
    assert (first.rows, found(target)) == (20, held(regions))
    regions[1].restart()
    regions[1].add("new", b"later")
    filled(regions, 1)
    second = archive(spark, source(regions), str(target))
    assert (second.rows, found(target)) == (5, held(regions))
    assert archive(spark, source(regions), str(target)).rows == 0
    day = f"{datetime.fromtimestamp(START_MS / 1000, UTC):%Y-%m-%d}"
    assert {path.name for path in target.glob("stream_part=*/date=*")} == {f"date={day}"}


def test_a_payload_takes_no_column_of_the_archive(spark: Any, regions: Regions, tmp_path: Path) -> None:
    filled(regions, 1)
    options = source(regions) | {"payloadSchema": "n BIGINT, Date DATE"}
    files = Archive(spark, options, str(tmp_path / "files"))
    table = TableArchive(spark, options, table_of("delta", str(tmp_path / "table")))
    for job in (files, table):
        with pytest.raises(OptionError, match="an archive has a column Date of its own"):
            job.start()


@pytest.mark.parametrize("counted", [False, True])
def test_bytes_are_counted_for_a_monitor_alone(
    spark: Any, regions: Regions, counted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """They take 6 % of the CPU time."""
    entries_of(spark, source(regions), counted).explain(True)
    assert ("CollectMetrics" in capsys.readouterr().out) == counted


def test_a_lost_commit_adds_nothing_twice(spark: Any, regions: Regions, tmp_path: Path) -> None:
    target = tmp_path / "archive"
    filled(regions)
    archive(spark, source(regions), str(target))
    commits = target / "_checkpoint" / "commits"
    shutil.rmtree(commits)
    commits.mkdir()
    filled(regions, 2)
    archive(spark, source(regions), str(target))
    assert found(target) == held(regions)


def test_a_lost_checkpoint_is_refused(spark: Any, regions: Regions, tmp_path: Path) -> None:
    target = tmp_path / "archive"
    filled(regions)
    archive(spark, source(regions), str(target))
    shutil.rmtree(target / "_checkpoint")
    with pytest.raises(Exception, match=ForeignQuery.__name__):
        archive(spark, source(regions), str(target))
    assert found(target) == held(regions)


def test_small_files_are_merged(spark: Any, regions: Regions, tmp_path: Path) -> None:
    target = tmp_path / "archive"
    filled(regions)
    options = source(regions) | {"maxOffsetsPerTrigger": "4"}
    job = Archive(spark, options, str(target), Merging(files_min=2))
    job.start().awaitTermination()
    done = job.finish()
    assert done.batches >= 5 and done.merged_files >= 4
    assert len(list(target.glob("stream_part=*/date=*/*.parquet"))) == 2
    assert found(target) == held(regions)


async def test_a_stream_that_was_deleted_between_two_runs(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "archive"

    async def run(**options: str) -> int:
        given = {"endpoints": port.region.loop._addresses["bulk"], "streams": "s", **options}
        return (await asyncio.to_thread(archive, spark, given, str(target))).rows

    async with serving(tmp_path / "region") as port:
        await port.write(message_of(rows(30)))
        assert await run() == 30
        await port.write(message_of(rows(70)))
        await (await port.region.connect()).ask("DEL", "s")
        with pytest.raises(Exception, match=r"DataLoss: .* deleted with their stream, .* stream 's'"):
            await run()
        await port.write(message_of(rows(5)))
        with pytest.raises(Exception, match=r"DataLoss"):
            await run()
        assert await run(failOnDataLoss="false") == 5
    assert len(found(target)) == 35
