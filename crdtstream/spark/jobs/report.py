"""`report`: the contents of an archive by stream, origin and hour, as a table and a chart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from crdtstream.spark.field_bytes import field_bytes
from crdtstream.spark.jobs.archives import read_archive
from crdtstream.spark.tables.entry_table import EntryTable

STREAMS_DRAWN = 8
REST = "all others"


@dataclass(frozen=True)
class ReportRow:
    """The entries of one origin in one stream whose IDs are within one hour.

    `size_bytes` counts fields and values; `lag_ms` is the median time from an entry's ID to its archiving, `lag_ms_max`
    the maximum; `conflicts` counts entries whose ID another origin has used too.
    """

    stream: str
    origin: str
    hour: datetime
    entries: int
    size_bytes: int
    lag_ms: int
    lag_ms_max: int
    conflicts: int


def report(spark: SparkSession, archive: str | EntryTable) -> list[ReportRow]:
    """Return one row for each stream, origin and hour, in that order. Raises UnreadableTable."""
    entries = read_archive(spark, archive)
    given = entries.groupBy("stream", "id").agg(f.count_distinct("origin").alias("origins")).where("origins > 1")
    marked = entries.join(given.select("stream", "id", f.lit(1).alias("conflict")), ["stream", "id"], "left")
    hour, size = f.date_trunc("hour", "timestamp").alias("hour"), field_bytes(entries).alias("size")
    lag_ms = (f.unix_millis("archived") - f.unix_millis("timestamp")).alias("lag")
    rows = (
        marked.select("stream", "origin", hour, size, lag_ms, "conflict")
        .groupBy("stream", "origin", "hour")
        .agg(
            f.count("*").alias("entries"),
            f.sum("size").alias("size_bytes"),
            f.percentile_approx("lag", 0.5).alias("lag_ms"),
            f.max("lag").alias("lag_ms_max"),
            f.count("conflict").alias("conflicts"),
        )
        .orderBy("stream", "origin", "hour")
    )
    return [ReportRow(**row.asDict()) for row in rows.collect()]


@dataclass(frozen=True)
class Panel:
    """One diagram of the chart: a number by hour, added up over the rows of a stream, or the largest of them."""

    title: str
    unit: str
    of: Callable[[ReportRow], int]
    largest: bool = False


PANELS: Final = (
    Panel("Entries", "entries an hour", lambda row: row.entries),
    Panel("Bytes", "bytes an hour", lambda row: row.size_bytes),
    Panel("Lag", "most ms from ID to archive", lambda row: row.lag_ms_max, largest=True),
    Panel("Conflicts", "entries an hour", lambda row: row.conflicts),
)


def draw(rows: Sequence[ReportRow], target: Path) -> None:
    """Draw entries, bytes, lag and conflicts by hour, a line for each of the largest streams; the file name's suffix
    selects the image format.
    """
    # Works without a display; imported here because only drawing needs it.
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    for axes, panel in zip(figure.subplots(2, 2, sharex=True).flat, PANELS, strict=True):
        locator = AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        for stream, hours in by_stream(rows, panel).items():
            axes.plot(list(hours), list(hours.values()), marker="o", markersize=3, label=stream)
        axes.set(title=panel.title, ylabel=panel.unit)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    if rows:
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small"
        )
    figure.savefig(target, dpi=120)


def by_stream(rows: Sequence[ReportRow], panel: Panel = PANELS[0]) -> dict[str, dict[datetime, int]]:
    """Return a number of each hour for the streams with the most entries by name, and for the rest together."""
    totals: dict[str, int] = defaultdict(int)
    for row in rows:
        totals[row.stream] += row.entries
    drawn = sorted(totals, key=lambda stream: (-totals[stream], stream))[:STREAMS_DRAWN]
    found: dict[str, dict[datetime, int]] = {stream: defaultdict(int) for stream in drawn}
    for row in sorted(rows, key=lambda row: row.hour):
        hours = found.setdefault(row.stream if row.stream in drawn else REST, defaultdict(int))
        before, here = hours[row.hour], panel.of(row)
        hours[row.hour] = max(before, here) if panel.largest else before + here
    return found
