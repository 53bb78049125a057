"""`crdtstream spark ...`: the jobs as commands, each with progress and a summary.

Jobs and Spark are imported where a command runs: the help is there without them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from crdtstream.spark.jobs.defaults import BATCH_BYTES, ROUNDS, SETTLE_S
from crdtstream.spark.output import (
    console_of,
    screen_beside,
    table_of_differences,
    table_of_divergences,
    table_of_report,
    table_of_summary,
    write_audit,
    write_report,
    write_table_audit,
)
from crdtstream.spark.session import MASTER, start_session
from crdtstream.spark.shipping import write_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crdtstream.spark.jobs.archive import Archive
    from crdtstream.spark.jobs.backfill import Backfilled
    from crdtstream.spark.jobs.table_archive import TableArchive
    from crdtstream.spark.tables.commits import Published
    from crdtstream.spark.tables.entry_table import EntryTable

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
console = console_of()


class TableFormat(StrEnum):
    """What an archive is."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


DIVERGED = 1
USAGE_ERROR = 2
FAILED = 3

Master = Annotated[str, typer.Option(help="Spark's master; spark-submit sets its own.", show_default="local[2,4]")]
Endpoints = Annotated[str, typer.Option(help="HOST:PORT of the bulk port of each region, separated by commas.")]
StreamsOption = Annotated[str, typer.Option(help="Streams by name, separated by commas.")]
Pattern = Annotated[str, typer.Option(help="Streams by pattern, as in KEYS.")]
AsCsv = Annotated[str, typer.Option("--csv", help="All rows as CSV into this file; - is standard output.")]
AsJson = Annotated[str, typer.Option("--json", help="Everything as JSON into this file; - is standard output.")]
Catalog = Annotated[
    str, typer.Option(help="Of an Iceberg table: a catalogue of pyiceberg's settings, instead of a file at the table.")
]
StoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--store-option", help="Of a table in an object store: NAME=VALUE such as AWS_REGION=...; may be repeated."
    ),
]
KeepRemoved = Annotated[
    bool, typer.Option(help="A table keeps what is removed from the streams; otherwise the job deletes it at its end.")
]
MetricsPort = Annotated[
    int, typer.Option(help="Prometheus metrics of the query on this port of loopback; 0 for none.", min=0, max=65535)
]
Extra = Annotated[list[str] | None, typer.Option("--option", help="Data source option NAME=VALUE; may be repeated.")]


# The errors worded by this package, which Spark wraps in a text of its own.
WORDED = re.compile(
    r"(?:AuditError|BulkError|ChangedType|CorruptRecord|DataLoss|ForeignQuery|MissingStream|OptionError|RowError"
    r"|Stranded|TableConflict|TableGap|UnreadableTable): (.+)"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Errors that a user can fix are printed as one sentence, with exit code 3; 2 without Spark."""
    try:
        app(arguments, prog_name="crdtstream spark")
    except SystemExit:
        raise
    except ImportError as error:
        if "pyiceberg" in str(error):
            fail(f"{error}: install Iceberg's packages with pip install 'crdtstream[spark,iceberg]'", USAGE_ERROR)
        fail(f"{error}: install the Spark jobs with pip install 'crdtstream[spark]', and Java 17", USAGE_ERROR)
    except own_errors() as error:
        fail(str(error))
    except spark_errors() as error:
        fail(sentence_of(str(error)))


def own_errors() -> tuple[type[Exception], ...]:
    """The errors whose text tells a user what to do."""
    from crdtstream.spark.jobs.audited_regions import AuditError
    from crdtstream.spark.jobs.replay import OwnArchive
    from crdtstream.spark.losses import DataLoss
    from crdtstream.spark.options import OptionError
    from crdtstream.spark.reader import MissingStream
    from crdtstream.spark.regions import BulkError
    from crdtstream.spark.tables.commits import ForeignQuery, TableConflict, UnreadableTable

    of_tables = (ForeignQuery, TableConflict, UnreadableTable)
    return (AuditError, BulkError, DataLoss, MissingStream, OptionError, OwnArchive, *of_tables)


def spark_errors() -> type[Exception]:
    from pyspark.errors import PySparkException

    found: type[Exception] = PySparkException
    return found


def fail(text: str, code: int = FAILED) -> None:
    typer.echo(f"crdtstream spark: {text}", err=True)
    sys.exit(code)


def sentence_of(text: str) -> str:
    """Return the sentence of this package's own error in a text of Spark's, or the whole text."""
    found: list[str] = WORDED.findall(text)
    return found[-1].strip() if found else text


@app.callback()
def spark() -> None:
    """Archive, audit, load, replay and report on streams with Spark."""


@app.command()
def archive(
    directory: Annotated[str, typer.Argument(help="Path or URI of the archive.")],
    endpoints: Endpoints,
    streams: StreamsOption = "",
    streams_pattern: Pattern = "",
    continuous: Annotated[bool, typer.Option("--continuous", help="Run until stopped.")] = False,
    interval_s: Annotated[
        float, typer.Option(help="With --continuous: seconds between two micro-batches.", min=0)
    ] = 10.0,
    table: Annotated[
        TableFormat,
        typer.Option(help="`parquet` is files alone, `delta` a Delta table, `iceberg` an Iceberg table."),
    ] = TableFormat.PARQUET,
    catalog: Catalog = "",
    store_option: StoreOption = None,
    keep_removed: KeepRemoved = True,
    metrics_port: MetricsPort = 0,
    option: Extra = None,
    master: Master = MASTER,
) -> None:
    """Archive streams to Parquet or to a table, by stream and date, each entry once; an existing archive is
    continued.
    """
    from crdtstream.spark.jobs.archive import Archived

    options = options_of(endpoints, streams, streams_pattern, option)
    spark = start_session("crdtstream archive", master)
    job = archive_of(spark, options, directory, table, keep_removed, catalog, store_option)
    if metrics_port:
        serve_metrics(spark, options, metrics_port)
    query = job.start(interval_s if continuous else None)
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    print_summary(job.finish(), Archived)


def serve_metrics(spark: SparkSession, options: Mapping[str, str], port: int) -> None:
    """Serve the figures of the only query of this session."""
    from crdtstream.spark.monitor import QueryMonitor

    monitor = QueryMonitor(options)
    try:
        monitor.serve(port)
    except OSError as error:
        fail(f"port {port} for metrics cannot be opened: {error.strerror}. Give another --metrics-port", USAGE_ERROR)
    spark.streams.addListener(monitor)


def archive_of(
    spark: SparkSession,
    options: Mapping[str, str],
    directory: str,
    table: TableFormat,
    keep_removed: bool,
    catalog: str,
    store_option: list[str] | None,
) -> Archive | TableArchive:
    if table != TableFormat.PARQUET:
        from crdtstream.spark.jobs.table_archive import TableArchive
        from crdtstream.spark.tables.opening import table_of

        made = table_of(table.value, directory, pairs_of("--store-option", store_option), catalog)
        return TableArchive(spark, options, made, print_batch, keep_removed)
    from crdtstream.spark.jobs.archive import Archive

    return Archive(spark, options, directory, progress=print_batch)


def print_batch(batch: int, published: Published) -> None:
    console.print(f"batch {batch}: {published.rows:,} rows, {published.files} files, {published.size_bytes:,} bytes")


@app.command()
def audit(
    endpoints: Endpoints,
    streams: StreamsOption = "",
    streams_pattern: Pattern = "",
    rounds: Annotated[int, typer.Option(help="How many times differences are compared.", min=1)] = ROUNDS,
    settle_s: Annotated[
        float, typer.Option(help="How long regions may stay behind each other, in seconds.", min=0)
    ] = SETTLE_S,
    archive: Annotated[str, typer.Option(help="Instead: compare this table with the regions, at its vector.")] = "",
    catalog: Catalog = "",
    store_option: StoreOption = None,
    keep_removed: KeepRemoved = True,
    as_csv: AsCsv = "",
    as_json: AsJson = "",
    option: Extra = None,
    master: Master = MASTER,
) -> None:
    """Compare all regions entry by entry, and groups by what they have acknowledged; exit 1 if they differ."""
    from crdtstream.spark.jobs.audit import audit as run_audit

    options = options_of(endpoints, streams, streams_pattern, option)
    if archive:
        from crdtstream.spark.tables.opening import table_at

        compare_table(
            options,
            table_at(archive, pairs_of("--store-option", store_option), catalog),
            keep_removed,
            as_csv,
            as_json,
            master,
        )
    screen = screen_beside(as_csv, as_json)
    done = run_audit(start_session("crdtstream audit", master), options, rounds, settle_s, screen.print)
    write_audit(done, as_csv, as_json)
    screen.print(table_of_divergences(done))
    screen.print(
        f"{done.streams} streams, {done.entries:,} entries in {len(done.regions)} regions, {done.suspected} places"
        f" differed at first, {len(done.divergences)} at last; {done.seconds:.1f} s"
    )
    raise typer.Exit(DIVERGED if done.divergences else 0)


def compare_table(
    options: Mapping[str, str], archive: EntryTable, keep_removed: bool, as_csv: str, as_json: str, master: str
) -> NoReturn:
    from crdtstream.spark.jobs.table_audit import audit_table

    screen = screen_beside(as_csv, as_json)
    done = audit_table(start_session("crdtstream audit", master), options, archive, keep_removed)
    write_table_audit(done, as_csv, as_json)
    screen.print(table_of_differences(done))
    screen.print(
        f"{done.entries:,} entries in the table, {done.removed:,} of them removed from the streams,"
        f" {len(done.differences)} differ"
    )
    raise typer.Exit(DIVERGED if done.differences else 0)


@app.command()
def backfill(
    directory: Annotated[str, typer.Argument(help="Directory of Parquet files or of JSON lines, or a table.")],
    endpoints: Endpoints,
    checkpoint: Annotated[
        str, typer.Option(help="Directory that records which files are loaded; a run resumes from it.")
    ] = "",
    as_of: Annotated[
        str,
        typer.Option(help="Load a table that archive has written, IDs kept: a version, an ISO time, or latest."),
    ] = "",
    file_format: Annotated[str, typer.Option("--format", help="parquet or json.")] = "parquet",
    stream: Annotated[str, typer.Option(help="The stream, if rows have no column `stream`.")] = "",
    rows_per_s: Annotated[float, typer.Option(help="Average rate; 0 for no limit.", min=0)] = 0.0,
    batch_bytes: Annotated[
        int, typer.Option(help="File bytes in a batch; one larger file is a batch of its own.", min=1)
    ] = BATCH_BYTES,
    catalog: Catalog = "",
    store_option: StoreOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --as-of: also into the cluster that was archived.")
    ] = False,
    option: Extra = None,
    master: Master = MASTER,
) -> None:
    """Load files, or a version of a table, into streams, each row once, even if the job is killed and run again."""
    from crdtstream.spark.jobs.backfill import Backfill, Backfilled
    from crdtstream.spark.tables.opening import table_at

    options = options_of(endpoints, option=option) | ({"stream": stream} if stream else {})
    if as_of:
        archive = table_at(directory, pairs_of("--store-option", store_option), catalog)
        print_summary(backfill_table(archive, as_of, force, options, master), Backfilled)
        return
    if not checkpoint:
        fail("--checkpoint is missing: name a directory that records which files are loaded", USAGE_ERROR)
    job = Backfill(
        start_session("crdtstream backfill", master),
        directory,
        file_format,
        options,
        checkpoint,
        rows_per_s,
        batch_bytes,
        lambda done: console.print(f"{done.rows:,} rows in {done.batches} batches"),
    )
    print_summary(job.run(), Backfilled)


def backfill_table(archive: EntryTable, as_of: str, force: bool, options: Mapping[str, str], master: str) -> Backfilled:
    from crdtstream.spark.jobs.table_backfill import load_table

    return load_table(
        start_session("crdtstream backfill", master),
        archive,
        as_of,
        options,
        progress=lambda done: console.print(f"{done.rows:,} rows in {done.batches} batches"),
        force=force,
    )


@app.command()
def replay(
    directory: Annotated[str, typer.Argument(help="The archive.")],
    endpoints: Endpoints,
    streams: StreamsOption = "",
    begins: Annotated[str, typer.Option(help="ISO time, inclusive; UTC unless it says otherwise.")] = "",
    ends: Annotated[str, typer.Option(help="ISO time, exclusive.")] = "",
    speed: Annotated[float, typer.Option(help="2 takes half the time, 0 makes no pauses.", min=0)] = 1.0,
    into: Annotated[str, typer.Option(help="One stream for all entries.")] = "",
    keep_ids: Annotated[
        bool, typer.Option("--keep-ids", help="Entries keep their IDs; not in ID mode strict.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also into the cluster that was archived, which gets the entries twice.")
    ] = False,
    option: Extra = None,
    master: Master = MASTER,
) -> None:
    """Write a part of an archive back into streams of a test cluster, at the original speed or another."""
    from crdtstream.spark.jobs.replay import Chosen, Replayed
    from crdtstream.spark.jobs.replay import replay as run_replay

    chosen = Chosen(tuple(name for name in streams.split(",") if name), moment("begins", begins), moment("ends", ends))
    spark = start_session("crdtstream replay", master)
    done = run_replay(
        spark,
        directory,
        options_of(endpoints, option=option),
        chosen,
        speed,
        into,
        keep_ids,
        lambda done: console.print(f"{done.rows:,} rows in {done.windows} windows"),
        force,
    )
    print_summary(done, Replayed)


@app.command()
def report(
    directory: Annotated[str, typer.Argument(help="The archive.")],
    chart: Annotated[
        Path | None, typer.Option(help="Entries, bytes, lag and conflicts by hour as an image: .png, .svg or .pdf.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="All of it as one page with charts, which needs no network to be read.")
    ] = None,
    as_csv: AsCsv = "",
    as_json: AsJson = "",
    master: Master = MASTER,
) -> None:
    """Show entries, bytes, lag and conflicts of an archive, by stream, origin and hour."""
    from crdtstream.spark.jobs.report import draw
    from crdtstream.spark.jobs.report import report as run_report

    rows = run_report(start_session("crdtstream report", master), directory)
    screen_beside(as_csv, as_json).print(table_of_report(rows))
    write_report(rows, as_csv, as_json)
    if chart:
        draw(rows, chart)
    if html:
        from crdtstream.spark.report_page.page import write_page

        write_page(rows, directory, html)


@app.command()
def package(
    target: Annotated[Path, typer.Argument(help="The zip, for spark-submit --py-files.")],
) -> None:
    """Pack the package as a zip, for executors on which it is not installed."""
    try:
        write_zip(target, "crdtstream", "pyspark_crdtstream")
    except OSError as error:
        fail(f"{target} cannot be written: {error.strerror}")
    console.print(f"{target}: pass it to spark-submit --py-files", soft_wrap=True)


# Arguments


def options_of(endpoints: str, streams: str = "", pattern: str = "", option: list[str] | None = None) -> dict[str, str]:
    """Return the options for the data source, which validates them itself."""
    options = {"endpoints": endpoints, "streams": streams, "streamsPattern": pattern}
    options |= pairs_of("--option", option)
    return {name: value for name, value in options.items() if value}


def pairs_of(parameter: str, given: list[str] | None) -> dict[str, str]:
    pairs = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"{each!r} has no value: write {parameter} NAME=VALUE")
        pairs[name] = value
    return pairs


def moment(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{name} is {text!r}: write a time such as 2026-11-22T14:00") from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def print_summary(done: object, kind: type) -> None:
    console.print(table_of_summary(done, kind))
