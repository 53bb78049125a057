"""Files are loaded once, in both formats, whatever is repeated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

import grpc
import pyarrow
import pyarrow.parquet

from crdtstream.spark.jobs.backfill import Backfill, refuse_archives
from crdtstream.spark.tables.commits import PUBLISHED, UnreadableTable
from tests.spark.fake_regions import Regions
from tests.spark.jobs.streams import sink

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("file_format", ["parquet", "json"])
def test_files_are_loaded_once(spark: Any, regions: Regions, tmp_path: Path, file_format: str) -> None:
    files, state = tmp_path / "files", str(tmp_path / "state")
    files.mkdir()
    put(files, file_format, 0)
    first = Backfill(spark, str(files), file_format, sink(regions), state).run()
    put(files, file_format, 1)
    second = Backfill(spark, str(files), file_format, sink(regions), state).run()
    assert (first.rows, second.rows) == (3, 3)
    assert sorted(regions.values("s")) == [b"0-0", b"0-1", b"0-2", b"1-0", b"1-1", b"1-2"]


def put(files: Path, file_format: str, number: int) -> None:
    values = [f"{number}-{at}" for at in range(3)]
    path = files / f"{number}.{file_format}"
    if file_format == "json":
        path.write_text("".join(f"{json.dumps({'stream': 's', 'f': value})}\n" for value in values))
        return
    pairs = pyarrow.map_(pyarrow.string(), pyarrow.string())
    fields = pyarrow.array([[("f", value)] for value in values], pairs)
    pyarrow.parquet.write_table(pyarrow.table({"stream": ["s"] * len(values), "fields": fields}), path)


def test_a_user_who_may_only_add_loads_files(spark: Any, regions: Regions, tmp_path: Path) -> None:
    for region in regions.regions:
        region.fail("Heads", *[grpc.StatusCode.PERMISSION_DENIED] * 9)
    put(tmp_path, "json", 0)
    done = Backfill(spark, str(tmp_path), "json", sink(regions), str(tmp_path / "_state")).run()
    assert (done.rows, done.published, done.skipped, done.unknown) == (3, 0, 0, 3)
    assert sorted(regions.values("s")) == [b"0-0", b"0-1", b"0-2"]


def test_a_fault_at_the_start_ends_the_query(
    spark: Any, regions: Regions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("crdtstream.spark.jobs.backfill.Publisher", fault)
    put(tmp_path, "json", 0)
    with pytest.raises(ZeroDivisionError):
        Backfill(spark, str(tmp_path), "json", sink(regions), str(tmp_path / "_state")).run()
    assert not spark.streams.active and not regions.streams


def test_a_lost_commit_loads_nothing_twice(spark: Any, regions: Regions, tmp_path: Path) -> None:
    files, state = tmp_path / "files", tmp_path / "state"
    files.mkdir()
    put(files, "json", 0)
    Backfill(spark, str(files), "json", sink(regions), str(state)).run()
    shutil.rmtree(state / "commits")
    (state / "commits").mkdir()
    put(files, "json", 1)
    Backfill(spark, str(files), "json", sink(regions), str(state)).run()
    assert sorted(regions.values("s")) == [b"0-0", b"0-1", b"0-2", b"1-0", b"1-1", b"1-2"]


def test_the_rate_is_bounded(spark: Any, regions: Regions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("crdtstream.spark.jobs.backfill.time", SimpleNamespace(sleep=slept.append, monotonic=monotonic))
    put(tmp_path, "json", 0)
    Backfill(spark, str(tmp_path), "json", sink(regions), str(tmp_path / "_state"), rows_per_s=0.01).run()
    assert 250 < sum(slept) <= 300, "three rows at one in 100 s"


def test_an_archive_is_refused(spark: Any, regions: Regions, tmp_path: Path) -> None:
    files, table = tmp_path / "files", tmp_path / "table"
    files.mkdir()
    (files / PUBLISHED).write_text("{}")
    (table / "_delta_log").mkdir(parents=True)
    for directory, cure in ((files, "replay --speed 0"), (table, "add --as-of latest")):
        with pytest.raises(UnreadableTable, match=cure):
            Backfill(spark, str(directory), "parquet", sink(regions), str(tmp_path / "state")).run()
    assert regions.streams == {}


def test_a_place_that_only_spark_knows_is_left_to_spark() -> None:
    refuse_archives("s3a://bucket/files")


def test_an_unknown_format_is_refused(spark: Any) -> None:
    with pytest.raises(ValueError, match="files of format 'csv' cannot be loaded: use parquet or json"):
        Backfill(spark, "x", "csv", {}, "state")
