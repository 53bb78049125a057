"""Figures of a query: its backlog by stream and origin, its regions, what its sink left out, as Prometheus has them."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

import grpc

from crdtstream.processes.ports import free_port
from crdtstream.processes.region import RegionProcess
from crdtstream.processes.waiting import until
from crdtstream.spark.heads import LEDGERS
from crdtstream.spark.monitor import AGES_ASKED, QueryMonitor, observed, unread
from tests.spark.fake_regions import START_MS, Regions
from tests.spark.pages import metrics_at
from tests.spark.support import FAST

ORIGINS = "1.ab01", "2.ab02"
pytestmark = pytest.mark.timeout(180)


def given(regions: Regions, **options: str) -> dict[str, str]:
    return {"endpoints": regions.endpoints, "streamsPattern": "*", **FAST, **options}


def progress(end: dict[str, dict[str, int]], rows: int = 0, batch: int = 0, name: str = "mine") -> SimpleNamespace:
    source = SimpleNamespace(startOffset=None, endOffset=json.dumps(end), numInputRows=rows)
    sink = SimpleNamespace(numOutputRows=rows)
    return SimpleNamespace(
        progress=SimpleNamespace(
            name=name, id=f"id-{name}", batchId=batch, sources=[source], sink=sink, observedMetrics={}
        )
    )


def test_the_backlog_is_by_stream_and_origin_with_the_age_of_what_waits(regions: Regions) -> None:
    regions[1].add("s", b"1", b"2", b"3")
    regions[2].add("t", b"4")
    regions.sync()
    monitor = QueryMonitor(given(regions))
    monitor.onQueryProgress(progress({"s": {ORIGINS[0]: 1}}, rows=1))
    found = {(each.stream, each.origin): each for each in monitor.figures.backlog if each.entries}
    assert {key: each.entries for key, each in found.items()} == {("s", ORIGINS[0]): 2, ("t", ORIGINS[1]): 1}
    assert monitor.figures.waiting == 3 and monitor.figures.rows == 1
    assert all(each.age_s is not None and each.age_s > 1e6 for each in found.values()), f"added at {START_MS} ms"
    monitor.onQueryProgress(progress({"s": {ORIGINS[0]: 3}, "t": {ORIGINS[1]: 1}}, rows=3, batch=1))
    assert monitor.figures.waiting == 0 and {each.age_s for each in monitor.figures.backlog} == {0.0}
    assert (monitor.figures.rows, monitor.figures.batches, monitor.figures.batch) == (4, 2, 1)


def test_what_was_trimmed_before_it_was_read_is_counted(regions: Regions) -> None:
    last = regions[1].add("s", b"1", b"2", b"3", b"4")
    regions[1].trim("s", regions[1].origin, last - 1)
    regions.sync()
    monitor = QueryMonitor(given(regions))
    monitor.onQueryProgress(progress({"s": {ORIGINS[0]: 1}}))
    (each,) = [each for each in monitor.figures.backlog if each.stream == "s" and each.entries]
    assert (each.entries, each.trimmed) == (1, last - 2)


def test_only_the_largest_backlogs_are_asked_for_their_age(regions: Regions) -> None:
    for number in range(AGES_ASKED + 4):
        regions[1].add(f"s{number}", b"1")
    regions.sync()
    monitor = QueryMonitor(given(regions))
    monitor.onQueryProgress(progress({}))
    waiting = [each for each in monitor.figures.backlog if each.entries]
    assert (len(waiting), sum(each.age_s is None for each in waiting)) == (AGES_ASKED + 4, 4)


def test_a_sink_whose_ledger_did_not_change_has_left_the_rows_out(regions: Regions) -> None:
    sink = given(regions, txnAppId="loads")
    monitor = QueryMonitor(given(regions), sink=sink)
    monitor.onQueryStarted(SimpleNamespace(name="mine", id="id-mine"))
    regions[1].add(f"{LEDGERS}loads", b"batch 0")
    monitor.onQueryProgress(progress({}, rows=5))
    assert (monitor.figures.published, monitor.figures.skipped) == (5, 0)
    monitor.onQueryProgress(progress({}, rows=7, batch=1))
    assert (monitor.figures.published, monitor.figures.skipped) == (5, 7)
    assert not [each for each in monitor.figures.backlog if each.stream.startswith(LEDGERS)]


def test_a_sink_that_is_not_watched_has_no_figures(regions: Regions) -> None:
    monitor = QueryMonitor(given(regions))
    monitor.onQueryStarted(SimpleNamespace(name="mine", id="id-mine"))
    monitor.onQueryProgress(progress({}, rows=5))
    assert (monitor.figures.published, monitor.figures.skipped) == (0, 0)


def test_a_ledger_that_cannot_be_read_costs_the_figures_alone(
    regions: Regions, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = QueryMonitor(given(regions), sink=given(regions, txnAppId="loads"))
    regions.stop()
    with caplog.at_level(logging.WARNING):
        monitor.onQueryStarted(SimpleNamespace(name="mine", id="id-mine"))
    assert "which rows were published before is not known until the ledger can be read" in caplog.text


def test_a_batch_beside_an_unread_ledger_was_neither_published_nor_left_out(regions: Regions) -> None:
    monitor = QueryMonitor(given(regions), sink=given(regions, txnAppId="loads"))
    for region in regions.regions:
        region.fail("Heads", grpc.StatusCode.PERMISSION_DENIED)
    monitor.onQueryStarted(SimpleNamespace(name="mine", id="id-mine"))
    for batch in range(2):
        monitor.onQueryProgress(progress({}, rows=5, batch=batch))
    assert (monitor.figures.published, monitor.figures.skipped) == (0, 5)


def test_what_is_unread_is_counted_from_where_a_query_begins(regions: Regions) -> None:
    regions[1].add("s", b"1", b"2", b"3")
    regions[2].add("t", b"4")
    regions.sync()
    assert unread(given(regions)) == 0, "without startingOffsets a query begins with what comes"
    assert unread(given(regions, startingOffsets="earliest")) == 4
    assert unread(given(regions), {"s": {regions[1].origin: 2}}) == 2


def test_regions_that_are_down_leave_the_figures_and_other_queries_do_not_count(
    regions: Regions, caplog: pytest.LogCaptureFixture
) -> None:
    regions[1].add("s", b"1")
    monitor = QueryMonitor(given(regions), query_name="mine")
    monitor.onQueryProgress(progress({}, rows=3, name="other"))
    assert monitor.figures.batch == -1
    monitor.onQueryProgress(progress({}, rows=3))
    before = monitor.figures
    regions.stop()
    with caplog.at_level(logging.WARNING):
        monitor.onQueryProgress(progress({}, rows=4, batch=1))
    assert monitor.figures == before and "the figures of a batch are missing" in caplog.text


@contextmanager
def watched(spark: Any, monitor: QueryMonitor) -> Iterator[None]:
    spark.streams.addListener(monitor)
    try:
        yield
    finally:
        spark.streams.removeListener(monitor)


def test_a_query_in_spark_has_figures_and_metrics(spark: Any, regions: Regions, tmp_path: Path) -> None:
    regions[1].add("s", *[b"%d" % number for number in range(10)])
    regions.sync()
    options = given(regions, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    monitor = QueryMonitor(options, query_name="watched")
    port = free_port()
    monitor.serve(port)
    rows = observed(spark.readStream.format("crdtstream").options(**options).load())
    with watched(spark, monitor):
        writer = rows.writeStream.foreachBatch(lambda batch, _: batch.write.format("noop").mode("append").save())
        writer.queryName("watched").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        until(lambda: monitor.figures.rows == 10 and monitor.figures.waiting == 0, lambda: str(monitor.figures))
    assert monitor.figures.batches == 2 and monitor.figures.regions
    found = metrics_at(port)
    assert found['crdtstream_spark_rows_total{query="watched"}'] == 10
    assert found['crdtstream_spark_bytes_total{query="watched"}'] == monitor.figures.size_bytes > 0
    assert found[f'crdtstream_spark_backlog_entries{{origin="{ORIGINS[0]}",query="watched",stream="s"}}'] == 0
    assert found[f'crdtstream_spark_region{{query="watched",region="{monitor.figures.regions[0]}"}}'] == 1


def test_the_figures_of_a_sink_are_those_of_its_ledger(spark: Any, regions: Regions, tmp_path: Path) -> None:
    regions[1].add("s", b"1", b"2", b"3")
    regions.sync()
    options = given(regions, startingOffsets="earliest")
    with RegionProcess(9, tmp_path, bulk=True) as region:
        region.start()
        region.await_serving()
        sink = {"endpoints": region.bulk_address, "stream": "copy"}

        def run() -> QueryMonitor:
            monitor = QueryMonitor(options, query_name="copies", sink=sink)
            rows = spark.readStream.format("crdtstream").options(**options).load().select("fields")
            writer = rows.writeStream.format("crdtstream").options(**sink).queryName("copies")
            with watched(spark, monitor):
                writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
                until(lambda: monitor.figures.batches and not spark.streams.active, lambda: str(monitor.figures), 120)
            return monitor

        first = run()
        shutil.rmtree(tmp_path / "state" / "commits")
        (tmp_path / "state" / "commits").mkdir()
        regions[1].add("s", b"4")
        second = run()
        until(lambda: second.figures.batches == 2, lambda: str(second.figures))
        assert region.ask("XLEN", "copy") == 4
    assert (first.figures.published, first.figures.skipped) == (3, 0)
    assert (second.figures.published, second.figures.skipped) == (1, 3)
