"""A part of an archive, again and in order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from crdtstream.spark.jobs.archive import archive
from crdtstream.spark.jobs.archives import read_archive
from crdtstream.spark.jobs.replay import Chosen, OwnArchive, replay
from crdtstream.spark.tables.opening import table_of
from tests.spark.fake_regions import START_MS, Regions
from tests.spark.jobs.streams import archive_to, filled, sink, source

pytestmark = pytest.mark.timeout(180)


def test_a_part_of_an_archive_is_replayed_in_order(
    spark: Any, regions: Regions, other: Regions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(sleep=lambda _seconds: None, monotonic=monotonic)
    monkeypatch.setattr("crdtstream.spark.jobs.replay.time", clock)
    filled(regions)
    archive(spark, source(regions), str(tmp_path / "archive"))
    begins = datetime.fromtimestamp((START_MS + 2) / 1000, UTC)
    before = regions.values("a")
    with pytest.raises(OwnArchive, match=r"is an archive of the cluster at .*, which knows origin 1\..*use --force"):
        replay(spark, str(tmp_path / "archive"), sink(regions), Chosen(("a",)), speed=0.0)
    assert regions.values("a") == before
    assert replay(spark, str(tmp_path / "archive"), sink(regions), Chosen(("a",)), 0.0, "copy", force=True).rows == 10
    done = replay(spark, str(tmp_path / "archive"), sink(other), Chosen(("a",), begins), speed=2.0, into="again")
    assert (done.rows, other.values("again")) == (
        9,
        [b"1-1", b"1-2", b"1-3", b"1-4", *(b"2-%d" % n for n in range(5))],
    )


@pytest.fixture
def other() -> Iterator[Regions]:
    """Another cluster: its origins are others."""
    made = Regions(1)
    made[1].origin += 0x10000 << 8
    yield made
    made.stop()


@pytest.mark.parametrize(("kind", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_table_is_replayed_without_what_a_killed_attempt_has_left(
    spark: Any, regions: Regions, other: Regions, tmp_path: Path, kind: str, package: str
) -> None:
    pytest.importorskip(package)
    filled(regions)
    table = table_of(kind, str(tmp_path / "table"))
    archive_to(table, spark, regions)
    read_archive(spark, table).write.parquet(table.new_attempt())
    with pytest.raises(OwnArchive, match=r"is an archive of the cluster at .*, which knows origin 1\..*use --force"):
        replay(spark, table, sink(regions), Chosen(), speed=0.0)
    # The entries of b are the 6th to 10th of all, and the 16th to 20th.
    begins, ends = (datetime.fromtimestamp((START_MS + ms) / 1000, UTC) for ms in (7, 18))
    for archived in (str(tmp_path / "table"), table):
        assert replay(spark, archived, sink(other), Chosen(("b",), begins, ends), speed=0.0).rows == 6
    assert other.values("b") == [b"1-1", b"1-2", b"1-3", b"1-4", b"2-0", b"2-1"] * 2
    assert other.values("a") == []


def test_entries_are_replayed_in_the_form_that_they_were_archived_in(
    spark: Any, regions: Regions, other: Regions, tmp_path: Path
) -> None:
    pytest.importorskip("deltalake")
    filled(regions, 1)
    for form in ("map", "json"):
        table = table_of("delta", str(tmp_path / form))
        archive_to(table, spark, regions, {"fieldsAs": form})
        assert replay(spark, table, sink(other), Chosen(("a",)), speed=0.0, into=form).rows == 2
        assert sorted(other.values(form)) == [b"1-0", b"2-0"]


def test_a_negative_speed_is_refused(spark: Any) -> None:
    with pytest.raises(ValueError, match="speed -1 is below 0"):
        replay(spark, "x", {}, Chosen(), speed=-1)
