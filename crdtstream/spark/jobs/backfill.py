"""`backfill`: Parquet files or JSON lines into streams, resumable and at a limited rate.

A directory is read by Spark's file source, so the checkpoint records which files are loaded, and files added later are
loaded by the next run. A micro-batch is published once (the sink's ledger), even if the job is killed during it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from crdtstream.spark.jobs.defaults import BATCH_BYTES
from crdtstream.spark.ledgers import LedgerWatch
from crdtstream.spark.options import Options
from crdtstream.spark.tables.commits import PARQUET, UnreadableTable
from crdtstream.spark.tables.opening import kind_at

JSON = "json"
POLL_S = 0.5


@dataclass
class Backfilled:
    """The result of a run: the rows of all its batches, of which `skipped` are those that an earlier run had published
    already, and `unknown` those of which no region said whether they are.
    """

    batches: int = 0
    rows: int = 0
    skipped: int = 0
    unknown: int = 0
    seconds: float = 0.0

    @property
    def published(self) -> int:
        return self.rows - self.skipped - self.unknown

    def add(self, rows: int, was_published: bool | None) -> None:
        """Count a batch."""
        self.batches += 1
        self.rows += rows
        self.skipped += rows if was_published is False else 0
        self.unknown += rows if was_published is None else 0


Progress = Callable[[Backfilled], None]


class Backfill:
    """Loads one directory into streams; `run` returns when all its files are loaded."""

    def __init__(
        self,
        spark: SparkSession,
        directory: str,
        file_format: str,
        options: Mapping[str, str],
        checkpoint: str,
        rows_per_s: float = 0.0,
        batch_bytes: int = BATCH_BYTES,
        progress: Progress | None = None,
    ) -> None:
        if file_format not in (PARQUET, JSON):
            raise ValueError(f"files of format {file_format!r} cannot be loaded: use parquet or json")
        self._spark = spark
        self._directory = directory
        self._format = file_format
        self._options = dict(options)
        self._checkpoint = checkpoint
        self._rows_per_s = rows_per_s
        self._batch_bytes = batch_bytes
        self._progress = progress
        self._began_s = 0.0
        self._publisher: Future[Publisher] = Future()
        self._query: StreamingQuery | None = None
        self.result = Backfilled()

    def run(self) -> Backfilled:
        """Load what is there. Raises UnreadableTable if it is an archive."""
        refuse_archives(self._directory)
        self._began_s = time.monotonic()
        query = self._query = (
            self._spark.readStream.format(self._format)
            .schema(self._spark.read.format(self._format).load(self._directory).schema)
            .option("maxBytesPerTrigger", self._batch_bytes)
            .load(self._directory)
            .writeStream.foreachBatch(self._write)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        try:
            self._publisher.set_result(Publisher(self._options, f"backfill-{query.id}"))
        except BaseException as error:  # The first batch waits for it.
            self._publisher.set_exception(error)
            query.stop()
            raise
        query.awaitTermination()
        self.result.seconds = time.monotonic() - self._began_s
        return self.result

    def _write(self, rows: DataFrame, batch: int) -> None:
        counted = Observation()
        # Spark may run the first batch before it returns from starting the query.
        was_published = self._publisher.result().publish(rows.observe(counted, f.count(f.lit(1)).alias("rows")), batch)
        self.result.add(int(counted.get["rows"]), was_published)
        if self._progress is not None:
            self._progress(self.result)
        self._rest()

    def _rest(self) -> None:
        """Wait until the rows so far are due, or the query is stopped; a batch itself is written without pauses."""
        if not self._rows_per_s:
            return
        left_s = self._began_s + self.result.rows / self._rows_per_s - time.monotonic()
        while left_s > 0 and self._is_active():
            time.sleep(min(left_s, POLL_S))
            left_s -= POLL_S

    def _is_active(self) -> bool:
        return self._query is None or self._query.isActive


class Publisher:
    """Writes batches under one name, each once, and says which had been published before, as far as that is known."""

    def __init__(self, options: Mapping[str, str], application: str) -> None:
        self._options = {**options, "txnAppId": application}
        self._ledger = LedgerWatch(Options(self._options), application)

    def publish(self, rows: DataFrame, batch: int) -> bool | None:
        """Return whether the rows were added; otherwise this batch was published by an earlier run. None if the region
        does not say.
        """
        writer = rows.write.format("crdtstream").options(**self._options).option("txnVersion", str(batch))
        writer.mode("append").save()
        return self._ledger.has_changed()


def refuse_archives(directory: str) -> None:
    """Of the files of a table not all count, and the rows of any archive have columns that are no fields."""
    try:
        kind = kind_at(directory)
    except (pa.ArrowInvalid, OSError):  # A place that Spark knows, and pyarrow does not.
        return
    if kind == PARQUET:
        raise UnreadableTable(
            f"{directory} is an archive of Parquet files: write its entries by replay --speed 0, with their IDs by"
            " --keep-ids"
        )
    if kind:
        raise UnreadableTable(
            f"{directory} is a table, of which not all files count: add --as-of latest, or another version"
        )
