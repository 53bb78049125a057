"""`report`: the contents of an archive by stream, origin and hour, as a table and a chart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from crdtstream.spark.ack import files_of
from crdtstream.spark.tables.commits import PARQUET, kind_of
from crdtstream.spark.tables.files import TableFile, batches_of
from crdtstream.spark.tables.opening import table_at

STREAMS_DRAWN = 8
REST = "all others"
# What jobs read of an archive that is a table.
ENTRIES: Final = (
    "stream string, origin string, seq bigint, id string, timestamp timestamp, archived timestamp,"
    " fields array<struct<field: binary, value: binary>>"
)
COLUMNS: Final = ("stream", "origin", "seq", "id", "timestamp", "archived", "fields")
FILES: Final = "uri string, stream string, rows bigint"


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


def read_archive(spark: SparkSession, directory: str) -> DataFrame:
    """Read the entries of an archive, of files or of a table; `stream` stays text even if all stream names are
    numbers.
    """
    files = files_of_table(directory)
    if files is None:
        return spark.read.option("inferSchema", "false").parquet(directory)
    return rows_of_table(spark, files)


def files_of_table(uri: str) -> list[TableFile] | None:
    """The files that count in a table; None for an archive of files. Raises UnreadableTable."""
    if kind_of(*files_of(uri.rstrip("/"))) in ("", PARQUET):
        return None
    archive = table_at(uri)
    table = archive.table()
    return [] if table is None else archive.files(table)


def rows_of_table(spark: SparkSession, files: Sequence[TableFile]) -> DataFrame:
    """The entries of a table: its files are read by the workers."""
    if not files:
        return spark.createDataFrame([], ENTRIES)
    listed = spark.createDataFrame([(file.uri, file.stream, file.rows) for file in files], FILES)
    return listed.repartition(len(files)).mapInArrow(read_files, ENTRIES)


def read_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the entries of each listed file."""
    for batch in batches:
        for row in batch.to_pylist():
            yield from batches_of(TableFile(**row), COLUMNS)


def report(spark: SparkSession, directory: str) -> list[ReportRow]:
    """Return one row for each stream, origin and hour, in that order."""
    entries = read_archive(spark, directory)
    given = entries.groupBy("stream", "id").agg(f.count_distinct("origin").alias("origins")).where("origins > 1")
    marked = entries.join(given.select("stream", "id", f.lit(1).alias("conflict")), ["stream", "id"], "left")
    lag_ms = (f.unix_millis("archived") - f.unix_millis("timestamp")).alias("lag")
    rows = (
        marked.select("stream", "origin", f.date_trunc("hour", "timestamp").alias("hour"), size(), lag_ms, "conflict")
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


def size() -> Column:
    def add(so_far: Column, pair: Column) -> Column:
        return so_far + f.octet_length(pair["field"]) + f.octet_length(pair["value"])

    return f.aggregate("fields", f.lit(0).cast("long"), add).alias("size")


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
