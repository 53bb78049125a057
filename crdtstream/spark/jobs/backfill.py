"""`backfill`: Parquet files or JSON lines into streams, resumable and at a limited rate.

A directory is read by Spark's file source, so the checkpoint records which files are loaded, and files added later are
loaded by the next run. A micro-batch is published once (the sink's ledger), even if the job is killed during it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from crdtstream.spark.jobs.defaults import BATCH_BYTES

PARQUET = "parquet"
JSON = "json"


@dataclass
class Backfilled:
    """The result of a run; after a crash `rows` includes rows that an earlier run had published."""

    batches: int = 0
    rows: int = 0
    seconds: float = 0.0


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
            raise ValueError(f"files of format {file_format!r} cannot be loaded: use {PARQUET} or {JSON}")
        self._spark = spark
        self._directory = directory
        self._format = file_format
        self._options = dict(options)
        self._checkpoint = checkpoint
        self._rows_per_s = rows_per_s
        self._batch_bytes = batch_bytes
        self._progress = progress
        self._began_s = 0.0
        self.result = Backfilled()

    def run(self) -> Backfilled:
        self._began_s = time.monotonic()
        query = (
            self._spark.readStream.format(self._format)
            .schema(self._spark.read.format(self._format).load(self._directory).schema)
            .option("maxBytesPerTrigger", self._batch_bytes)
            .load(self._directory)
            .writeStream.foreachBatch(self._write)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        self._application = f"backfill-{query.id}"
        query.awaitTermination()
        self.result.seconds = time.monotonic() - self._began_s
        return self.result

    def _write(self, rows: DataFrame, batch: int) -> None:
        counted = Observation()
        writer = (
            rows.observe(counted, f.count(f.lit(1)).alias("rows")).write.format("crdtstream").options(**self._options)
        )
        writer.option("txnAppId", self._application).option("txnVersion", batch).mode("append").save()
        self.result.batches += 1
        self.result.rows += int(counted.get["rows"])
        if self._progress is not None:
            self._progress(self.result)
        self._rest()

    def _rest(self) -> None:
        """Wait until the rows so far are due; a batch itself is written without pauses."""
        if self._rows_per_s:
            due_s = self._began_s + self.result.rows / self._rows_per_s
            time.sleep(max(0.0, due_s - time.monotonic()))
