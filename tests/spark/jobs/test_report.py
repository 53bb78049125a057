"""Counts by stream, origin and hour, and the chart of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from crdtstream.spark.jobs.archive import archive
from crdtstream.spark.jobs.report import PANELS, REST, STREAMS_DRAWN, ReportRow, by_stream, draw, report
from crdtstream.spark.offsets import origin_text
from crdtstream.spark.tables.opening import table_of
from tests.spark.fake_regions import Regions
from tests.spark.jobs.streams import archive_to, filled, source

pytestmark = pytest.mark.timeout(180)


def test_a_report_counts_by_stream_origin_and_hour(spark: Any, regions: Regions, tmp_path: Path) -> None:
    filled(regions)
    archive(spark, source(regions), str(tmp_path / "archive"))
    rows = report(spark, str(tmp_path / "archive"))
    assert [(row.stream, row.origin, row.entries, row.size_bytes, row.conflicts) for row in rows] == [
        (stream, origin_text(region.origin), 5, 20, 0) for stream in ("a", "b") for region in regions.regions
    ]
    assert all(row.lag_ms_max >= row.lag_ms > 0 for row in rows)


def row(stream: str, hour: int, entries: int, lag_ms_max: int = 0) -> ReportRow:
    return ReportRow(stream, "1.ab", datetime(2026, 11, 22, hour, tzinfo=UTC), entries, 0, 0, lag_ms_max, 0)


def test_the_chart_has_the_largest_streams_and_the_rest(tmp_path: Path) -> None:
    rows = [row(f"s{number}", number % 3, number + 1) for number in range(STREAMS_DRAWN + 2)]
    drawn = by_stream(rows)
    assert next(iter(drawn)) == f"s{STREAMS_DRAWN + 1}" and len(drawn) == STREAMS_DRAWN + 1
    assert sum(drawn[REST].values()) == 1 + 2, "the two smallest"
    lag = next(panel for panel in PANELS if panel.largest)
    late = [row("s", 1, 1, lag_ms_max=5), row("s", 1, 1, lag_ms_max=9)]
    assert list(by_stream(late, lag)["s"].values()) == [9] and list(by_stream(late)["s"].values()) == [2]
    draw(rows, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    draw([], tmp_path / "empty.svg")
    assert b"<svg" in (tmp_path / "empty.svg").read_bytes()


def test_the_chart_has_what_the_report_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *_args, **_named: drawn.append(figure))
    hour = datetime(2026, 11, 22, 1, tzinfo=UTC)
    draw([ReportRow("s", "1.ab", hour, 3, 40, 5, 60, 7)], tmp_path / "chart.svg")
    shown = {axes.get_title(): axes.get_lines()[0].get_ydata().tolist() for axes in drawn[0].axes}
    assert shown == {"Entries": [3], "Bytes": [40], "Lag": [60], "Conflicts": [7]}


@pytest.mark.parametrize(("kind", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_table_is_reported_without_what_a_killed_attempt_has_left(
    spark: Any, regions: Regions, tmp_path: Path, kind: str, package: str
) -> None:
    pytest.importorskip(package)
    filled(regions)
    table = table_of(kind, str(tmp_path / "table"))
    archive_to(table, spark, regions)
    archive(spark, source(regions), str(tmp_path / "archive"))
    spark.read.parquet(str(tmp_path / "archive")).write.parquet(table.new_attempt())
    of_files, of_table = (report(spark, str(tmp_path / name)) for name in ("archive", "table"))
    same = [(row.stream, row.origin, row.hour, row.entries, row.size_bytes) for row in of_files]
    assert [(row.stream, row.origin, row.hour, row.entries, row.size_bytes) for row in of_table] == same
    assert all(row.lag_ms_max >= row.lag_ms > 0 for row in of_table)
