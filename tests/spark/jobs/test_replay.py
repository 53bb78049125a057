"""A part of an archive, again and in order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from crdtstream.spark.jobs.archive import archive
from crdtstream.spark.jobs.replay import Chosen, OwnArchive, replay
from tests.spark.fake_regions import START_MS, Regions
from tests.spark.jobs.streams import filled, sink, source

pytestmark = pytest.mark.timeout(180)


def test_a_part_of_an_archive_is_replayed_in_order(
    spark: Any, regions: Regions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    target = Regions(1)
    target[1].origin += 0x10000 << 8
    try:
        done = replay(spark, str(tmp_path / "archive"), sink(target), Chosen(("a",), begins), speed=2.0, into="again")
    finally:
        target.stop()
    assert (done.rows, target.values("again")) == (
        9,
        [b"1-1", b"1-2", b"1-3", b"1-4", *(b"2-%d" % n for n in range(5))],
    )


def test_a_negative_speed_is_refused(spark: Any) -> None:
    with pytest.raises(ValueError, match="speed -1 is below 0"):
        replay(spark, "x", {}, Chosen(), speed=-1)
