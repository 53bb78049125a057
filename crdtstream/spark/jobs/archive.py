"""`archive`: streams to Parquet, by stream and date, each entry exactly once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from crdtstream.spark.ack import NoCommit, committed
from crdtstream.spark.jobs.dataset import Dataset
from crdtstream.spark.monitor import observed, unread
from crdtstream.spark.options import OptionError
from crdtstream.spark.tables.commits import Published

CHECKPOINT = "_checkpoint"
# Columns beside those of the source, of files and of tables.
ADDED = frozenset({"archived", "date", "part", "stream_part"})
MERGED_BYTES = 64 << 20
MERGED_FILES_MIN = 8


@dataclass(frozen=True)
class Merging:
    """Files below `below_bytes` are merged when a folder has `files_min` of them; checked after every `every_batches`
    batches.
    """

    below_bytes: int = MERGED_BYTES
    files_min: int = MERGED_FILES_MIN
    every_batches: int = 16


@dataclass
class Archived:
    """The result of a run."""

    batches: int = 0
    rows: int = 0
    files: int = 0
    size_bytes: int = 0
    merged_files: int = 0
    seconds: float = 0.0

    def add(self, published: Published) -> None:
        """Count a batch."""
        self.batches += 1
        self.rows += published.rows
        self.files += published.files
        self.size_bytes += published.size_bytes


Progress = Callable[[int, Published], None]


def entries_of(spark: SparkSession, options: Mapping[str, str], counted: bool) -> DataFrame:
    """What a query archives, with its bytes counted if asked to; raises OptionError if a payload has a column that
    archives add.
    """
    rows = spark.readStream.format("crdtstream").options(**options).load()
    added = [name for name in rows.columns if name.lower() in ADDED]
    if added:
        raise OptionError(
            f"an archive has a column {added[0]} of its own: put the payload into one column with payloadColumn, or"
            " rename it"
        )
    return observed(rows) if counted else rows


class Archive:
    """One query that writes to one directory; `start` begins it, `result` describes what it did."""

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, str],
        directory: str,
        merging: Merging | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._spark = spark
        self._options = {"startingOffsets": "earliest", **options}
        self._dataset = Dataset(directory)
        self._merging = merging or Merging()
        self.progress = progress
        # Whether Spark counts the bytes, for a monitor.
        self.counted = False
        self._began_s = time.monotonic()
        self.result = Archived()

    def start(self, interval_s: float | None = None) -> StreamingQuery:
        """Start the query: until everything present is archived, or with an interval until it is stopped.

        An existing archive is continued where it stopped, whatever `startingOffsets` says now.
        """
        self._dataset.recover()
        source = entries_of(self._spark, self._options, self.counted)
        writer = source.writeStream.foreachBatch(self._write).option("checkpointLocation", self._checkpoint())
        if interval_s is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{interval_s} seconds").start()

    def unread(self) -> int:
        """How many entries a run finds."""
        try:
            start = committed(self._checkpoint())
        except NoCommit:
            start = None
        return unread(self._options, start)

    def finish(self) -> Archived:
        """Merge small files after the query has ended; return the result."""
        query = self._query_id()
        if query:
            self._merge(query)
        self.result.seconds = time.monotonic() - self._began_s
        return self.result

    def _checkpoint(self) -> str:
        return f"{self._dataset.uri}/{CHECKPOINT}"

    def _query_id(self) -> str:
        """Return the ID that Spark gave the query when it created the checkpoint; later runs of the query have the same
        ID.
        """
        metadata = self._dataset.read(f"{CHECKPOINT}/metadata")
        return "" if metadata is None else str(json.loads(metadata)["id"])

    def _write(self, rows: DataFrame, batch: int) -> None:
        query = self._query_id()
        if batch <= self._dataset.last_batch(query):
            return
        placed = (
            rows.withColumn("stream_part", f.col("stream"))
            .withColumn("date", f.to_date("timestamp"))
            .withColumn("archived", f.current_timestamp())
        )
        # One task for each stream and day, so that each writes one file.
        gathered = placed.repartition("stream_part", "date").sortWithinPartitions(
            "stream", "timestamp", "origin", "seq"
        )
        gathered.write.mode("overwrite").partitionBy("stream_part", "date").parquet(self._dataset.staging_of(batch))
        self._count(batch, self._dataset.publish(query, batch))
        if self.result.batches % self._merging.every_batches == 0:
            self._merge(query)

    def _count(self, batch: int, published: Published) -> None:
        self.result.add(published)
        if self.progress is not None:
            self.progress(batch, published)

    def _merge(self, query: str) -> None:
        for files in self._dataset.small(query, self._merging.below_bytes, self._merging.files_min):
            self._dataset.merge(files)
            self.result.merged_files += len(files)


def archive(
    spark: SparkSession, options: Mapping[str, str], directory: str, progress: Progress | None = None
) -> Archived:
    """Archive everything present, then return.

    `options` are those of the data source; `directory` is a path or a URI that both pyarrow and Spark can access.
    """
    job = Archive(spark, options, directory, progress=progress)
    job.start().awaitTermination()
    return job.finish()
