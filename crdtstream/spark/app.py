"""`crdtstream spark ...`: the jobs as commands, each with progress and a summary.

Jobs and Spark are imported where a command runs: the help is there without them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from prometheus_client.registry import Collector

from crdtstream.spark import metrics
from crdtstream.spark.arguments import (
    AsCsv,
    AsJson,
    Catalog,
    Endpoints,
    Extra,
    KeepRemoved,
    Master,
    MetricsPort,
    Pattern,
    StoreOption,
    StreamsOption,
    moment,
    options_of,
    pairs_of,
)
from crdtstream.spark.bars import JobBar, job_bar, tasks_bar
from crdtstream.spark.jobs.defaults import BATCH_BYTES, ROUNDS, SETTLE_S
from crdtstream.spark.metrics import WriteMetrics
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
from crdtstream.spark.session import JOB_SETTINGS, MASTER, start_session
from crdtstream.spark.shipping import write_zip
from crdtstream.spark.stopping import POLL_S, JobSignals, jvm_of_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from crdtstream.spark.jobs.archive import Archive, Archived
    from crdtstream.spark.jobs.backfill import Backfilled
    from crdtstream.spark.jobs.replay import Replayed
    from crdtstream.spark.jobs.table_archive import TableArchive
    from crdtstream.spark.tables.commits import Published
    from crdtstream.spark.tables.entry_table import EntryTable

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
console = console_of()
stopping = JobSignals()


class TableFormat(StrEnum):
    """What an archive is."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


DIVERGED = 1
USAGE_ERROR = 2
FAILED = 3

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
@stopping.says("a repeated run goes on after what it has recorded, and archives no entry twice", gently=True)
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
    spark = session_of("archive", master)
    with job_bar(console, "archiving") as bar, monitored(spark, options, metrics_port):
        job = archive_of(spark, options, directory, table, keep_removed, catalog, store_option)
        total = job.unread() if console.is_terminal and not continuous else None
        bar.count(0, total)
        job.counted = bool(metrics_port)
        job.progress = partial(show_batch, bar, job.result, total)
        await_end(job.start(interval_s if continuous else None))
        done = job.finish()
    print_summary(done, Archived)


def await_end(query: StreamingQuery) -> None:
    """Wait until a query ends, or is stopped because a signal asks for it."""
    while not query.awaitTermination(POLL_S):
        if stopping.asked.is_set():
            query.stop()
            return


def show_batch(bar: JobBar, so_far: Archived, total: int | None, batch: int, published: Published) -> None:
    bar.show(f"batch {batch}: {published.rows:,} rows, {published.files} files, {published.size_bytes:,} bytes")
    bar.count(so_far.rows, None if total is None else max(total, so_far.rows))


def session_of(command: str, master: str) -> SparkSession:
    """The session of a job, which reports by itself how it ended."""
    with jvm_of_driver():
        spark: SparkSession = start_session(f"crdtstream {command}", master, local=JOB_SETTINGS)
    stopping.session = spark
    return spark


@contextmanager
def monitored(spark: SparkSession, options: Mapping[str, str], port: int) -> Iterator[None]:
    """Serve the figures of the only query of the Spark session, if a port is given."""
    from crdtstream.spark.monitor import QueryMonitor

    if not port:
        yield
        return
    monitor = QueryMonitor(options)
    serve_metrics(monitor, port)
    spark.streams.addListener(monitor)
    try:
        yield
    finally:
        spark.streams.removeListener(monitor)


def serve_metrics(collector: Collector, port: int) -> None:
    try:
        metrics.serve(collector, port)
    except OSError as error:
        fail(f"port {port} for metrics cannot be opened: {error.strerror}. Give another --metrics-port", USAGE_ERROR)


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
        return TableArchive(spark, options, made, keep_removed=keep_removed)
    from crdtstream.spark.jobs.archive import Archive

    return Archive(spark, options, directory)


@app.command()
@stopping.says("it has not compared everything, and a repeated run begins at the start")
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
    spark = session_of("audit", master)
    with tasks_bar(screen, "comparing", spark) as bar:
        done = run_audit(spark, options, rounds, settle_s, bar.show)
    write_audit(done, as_csv, as_json)
    if done.divergences:
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
    spark = session_of("audit", master)
    with tasks_bar(screen, f"comparing {archive.uri} with the regions", spark):
        done = audit_table(spark, options, archive, keep_removed)
    write_table_audit(done, as_csv, as_json)
    if done.differences:
        screen.print(table_of_differences(done))
    screen.print(
        f"{done.entries:,} entries in the table, {done.removed:,} of them removed from the streams,"
        f" {len(done.differences)} differ"
    )
    raise typer.Exit(DIVERGED if done.differences else 0)


@app.command()
@stopping.says(
    "what it has published stays, and a repeated run adds the rest, each row once; with --as-of name the same version"
)
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
    metrics_port: MetricsPort = 0,
    option: Extra = None,
    master: Master = MASTER,
) -> None:
    """Load files, or a version of a table, into streams, each row once, even if the job is killed and run again."""
    from crdtstream.spark.jobs.backfill import Backfill, Backfilled
    from crdtstream.spark.tables.opening import table_at

    options = options_of(endpoints, option=option) | ({"stream": stream} if stream else {})
    if as_of:
        archive = table_at(directory, pairs_of("--store-option", store_option), catalog)
        print_summary(backfill_table(archive, as_of, force, options, metrics_port, master), Backfilled)
        return
    if not checkpoint:
        fail("--checkpoint is missing: name a directory that records which files are loaded", USAGE_ERROR)
    spark = session_of("backfill", master)
    with job_bar(console, f"loading {directory}") as bar:
        shown = partial(show_backfilled, bar, write_metrics("backfill", metrics_port))
        job = Backfill(spark, directory, file_format, options, checkpoint, rows_per_s, batch_bytes, shown)
        done = job.run()
    print_summary(done, Backfilled)


def backfill_table(
    archive: EntryTable, as_of: str, force: bool, options: Mapping[str, str], metrics_port: int, master: str
) -> Backfilled:
    from crdtstream.spark.jobs.table_backfill import load_table

    spark = session_of("backfill", master)
    with job_bar(console, f"loading {archive.uri}") as bar:
        shown = partial(show_backfilled, bar, write_metrics("backfill", metrics_port))
        return load_table(spark, archive, as_of, options, progress=shown, force=force)


def write_metrics(query: str, port: int) -> WriteMetrics:
    """The figures of a job that writes to streams, served if a port is given."""
    figures = WriteMetrics(query)
    if port:
        serve_metrics(figures, port)
    return figures


def show_backfilled(bar: JobBar, figures: WriteMetrics, done: Backfilled, total: int | None = None) -> None:
    left_out = f", {done.skipped:,} of them published before" if done.skipped else ""
    unknown = f", {done.unknown:,} of them perhaps published before" if done.unknown else ""
    bar.show(f"{done.rows:,} rows in {done.batches} batches{left_out}{unknown}")
    bar.count(done.rows, total)
    figures.set(done.batches, done.published, done.skipped)


@app.command()
@stopping.says(
    "what it has written stays, and a repeated run writes it again: choose the rest with --begins, or another stream"
    " with --into"
)
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
    catalog: Catalog = "",
    store_option: StoreOption = None,
    metrics_port: MetricsPort = 0,
    option: Extra = None,
    master: Master = MASTER,
) -> None:
    """Write a part of an archive back into streams of a test cluster, at the original speed or another."""
    from crdtstream.spark.jobs.replay import Chosen, Replayed
    from crdtstream.spark.jobs.replay import replay as run_replay
    from crdtstream.spark.tables.opening import archive_at

    chosen = Chosen(tuple(name for name in streams.split(",") if name), moment("begins", begins), moment("ends", ends))
    source = archive_at(directory, pairs_of("--store-option", store_option), catalog)
    options = options_of(endpoints, option=option)
    spark = session_of("replay", master)
    with job_bar(console, f"replaying {directory}") as bar:
        shown = partial(show_replayed, bar, write_metrics("replay", metrics_port))
        done = run_replay(spark, source, options, chosen, speed, into, keep_ids, shown, force)
    print_summary(done, Replayed)


def show_replayed(bar: JobBar, figures: WriteMetrics, done: Replayed, total: int) -> None:
    bar.show(f"{done.rows:,} rows in {done.windows} windows")
    bar.count(done.rows, total)
    figures.set(done.windows, done.rows)


@app.command()
@stopping.says("it had not written its result, and a repeated run begins again")
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
    catalog: Catalog = "",
    store_option: StoreOption = None,
    master: Master = MASTER,
) -> None:
    """Show entries, bytes, lag and conflicts of an archive, by stream, origin and hour."""
    from crdtstream.spark.jobs.report import draw
    from crdtstream.spark.jobs.report import report as run_report
    from crdtstream.spark.tables.opening import archive_at

    source = archive_at(directory, pairs_of("--store-option", store_option), catalog)
    spark, screen = session_of("report", master), screen_beside(as_csv, as_json)
    with tasks_bar(screen, f"reading {directory}", spark):
        rows = run_report(spark, source)
    screen.print(table_of_report(rows))
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


def print_summary(done: object, kind: type) -> None:
    console.print(table_of_summary(done, kind))
