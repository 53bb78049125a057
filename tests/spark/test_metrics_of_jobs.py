"""The page of metrics of each job that has one, read while the job runs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from crdtstream.processes.ports import free_port
from crdtstream.processes.region import RegionProcess
from crdtstream.processes.waiting import until
from crdtstream.spark import app as jobs
from crdtstream.spark.jobs.archive import archive
from tests.spark.fake_regions import Regions
from tests.spark.jobs.streams import filled, source
from tests.spark.pages import metrics_at

pytestmark = pytest.mark.timeout(400)
ENDS_S = 60


@contextmanager
def running(words: Sequence[str], spark: Any, held: threading.Event) -> Iterator[None]:
    """A command in a thread; the context waits for its end, which must be a good one. Where the context fails, the
    queries are stopped, and what is held goes on.
    """
    ends: list[object] = []

    def run() -> None:
        try:
            jobs.main(words)
        except SystemExit as end:
            ends.append(end.code)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
        thread.join()
    finally:
        held.set()
        for query in spark.streams.active:
            query.stop()
        thread.join(ENDS_S)
    assert ends == [0]


@pytest.fixture
def command(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def session_of(_name: str, _master: str) -> Any:
        # This makes it the active session of this thread, in which a source in Python is looked up.
        spark.createDataFrame([], "nothing int")
        return spark

    monkeypatch.setattr(jobs, "session_of", session_of)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A job that would rest does so until this is set."""
    released = threading.Event()
    clock = SimpleNamespace(sleep=lambda seconds: released.wait(200) if seconds else None, monotonic=monotonic)
    for job in ("backfill", "replay"):
        monkeypatch.setattr(f"crdtstream.spark.jobs.{job}.time", clock)
    return released


@pytest.fixture
def region(tmp_path: Path) -> Iterator[RegionProcess]:
    with RegionProcess(9, tmp_path, bulk=True) as made:
        made.start()
        made.await_serving()
        yield made


def page_of(port: int) -> dict[str, float]:
    try:
        return metrics_at(port)
    except OSError:  # It is not served yet.
        return {}


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("table", ["parquet", "delta"])
def test_an_archive(spark: Any, regions: Regions, tmp_path: Path, held: threading.Event, table: str) -> None:
    pytest.importorskip("deltalake")
    filled(regions)
    port = free_port()
    words = ["archive", str(tmp_path / "archive"), "--endpoints", regions.endpoints, "--streams-pattern", "*"]
    words += ["--continuous", "--interval-s", "0.2", "--metrics-port", str(port), "--table", table]
    with running([*words, "--option", "discoveryIntervalMs=1"], spark, held):
        label = ""

        def value(name: str, more: str = "") -> float | None:
            return page_of(port).get(f'crdtstream_spark_{name}{{{more}query="{label}"}}')

        until(lambda: spark.streams.active, "the query runs", 200)
        label = str(spark.streams.active[0].id)
        until(lambda: value("rows_total") == 20, lambda: str(page_of(port)), 200)
        assert value("bytes_total") == 20 * len(b"f1-0")
        filled(regions, 1)
        until(lambda: value("rows_total") == 24, lambda: str(page_of(port)), 200)
        assert value("bytes_total") == 24 * len(b"f1-0") and value("skipped_rows_total") == 0
        backlog = "crdtstream_spark_backlog_entries"
        assert [count for name, count in page_of(port).items() if name.startswith(backlog)] == [0] * 4
        spark.streams.active[0].stop()


@pytest.mark.usefixtures("command")
def test_a_backfill(spark: Any, region: RegionProcess, tmp_path: Path, held: threading.Event) -> None:
    (tmp_path / "files").mkdir()
    for number in range(2):
        (tmp_path / "files" / f"{number}.json").write_text(json.dumps({"stream": "s", "f": str(number)}) + "\n")
    port = free_port()
    words = ["backfill", str(tmp_path / "files"), "--endpoints", region.bulk_address, "--format", "json"]
    words += ["--checkpoint", str(tmp_path / "state"), "--batch-bytes", "1", "--rows-per-s", "0.001"]
    with running([*words, "--metrics-port", str(port)], spark, held):
        published = 'crdtstream_spark_published_rows_total{query="backfill"}'
        until(lambda: page_of(port).get(published) == 1, lambda: str(page_of(port)), 200)
        assert page_of(port)['crdtstream_spark_skipped_rows_total{query="backfill"}'] == 0
        held.set()


@pytest.mark.usefixtures("command")
def test_a_replay(spark: Any, regions: Regions, tmp_path: Path, held: threading.Event) -> None:
    regions[1].add("s", b"1")
    regions.now_ms += 3_600_000
    regions[1].add("s", b"2")
    archive(spark, source(regions), str(tmp_path / "archive"))
    port = free_port()
    words = ["replay", str(tmp_path / "archive"), "--endpoints", regions.endpoints, "--into", "again", "--force"]
    with running([*words, "--metrics-port", str(port)], spark, held):
        published = 'crdtstream_spark_published_rows_total{query="replay"}'
        until(lambda: page_of(port).get(published) == 1, lambda: str(page_of(port)), 200)
        assert page_of(port)['crdtstream_spark_batches_total{query="replay"}'] == 1
        held.set()
    assert regions.values("again") == [b"1", b"2"]
