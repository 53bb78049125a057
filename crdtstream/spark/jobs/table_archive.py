"""`archive --table`: streams to a table, partitioned by stream and date, each entry exactly once.

A batch ends at a vector, which Spark has noted before it runs the batch. Rows that the table holds already are left
out, and the rest is committed together with the vector: so it does not matter what was killed, nor that the checkpoint
is behind the table, or lost.
"""

from __future__ import annotations

import atexit
import json
import shutil
import time
from collections.abc import Mapping
from tempfile import mkdtemp

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from crdtstream.spark.ack import planned
from crdtstream.spark.jobs.archive import CHECKPOINT, Archived, Progress, entries_of
from crdtstream.spark.jobs.table_audit import bounds_of, delete_removed
from crdtstream.spark.monitor import unread
from crdtstream.spark.offsets import Positions, merged, to_json
from crdtstream.spark.tables.commits import Published
from crdtstream.spark.tables.entry_table import EntryTable
from crdtstream.spark.tables.stores import is_remote
from crdtstream.spark.tables.writing import schema_of, written

COMPACTED_EVERY = 16


class TableGap(Exception):
    """The checkpoint is ahead of the table."""


class TableArchive:
    """One query that writes to one table; `start` begins it, `result` describes what it did."""

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, str],
        table: EntryTable,
        progress: Progress | None = None,
        keep_removed: bool = True,
    ) -> None:
        self._spark = spark
        self._options = {"startingOffsets": "earliest", **options}
        self._table = table
        self.progress = progress
        # Whether Spark counts the bytes, for a monitor.
        self.counted = False
        self._keep_removed = keep_removed
        self._began_s = time.monotonic()
        self.checkpoint = checkpoint_of(table.uri)
        self.result = Archived()

    def start(self, interval_s: float | None = None) -> StreamingQuery:
        """Start the query: until everything present is archived, or with an interval until it is stopped.

        An existing table is continued where it ends, whatever `startingOffsets` says now.
        """
        self._table.refuse_others()
        table = self._table.table()
        options = self._options
        if table is not None:
            options = {**options, "startingOffsets": json.dumps(to_json(self._table.through(table)))}
        source = entries_of(self._spark, options, self.counted)
        writer = source.writeStream.foreachBatch(self._write).option("checkpointLocation", self.checkpoint)
        if interval_s is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{interval_s} seconds").start()

    def unread(self) -> int:
        """How many entries a run finds."""
        table = self._table.table()
        return unread(self._options, None if table is None else self._table.through(table))

    def finish(self) -> Archived:
        """Delete what was removed, unless it is kept, and merge small files, after the query has ended; return the
        result.
        """
        if not self._keep_removed:
            delete_removed(self._spark, self._options, self._table)
        self.result.merged_files += self._table.compact()
        self.result.seconds = time.monotonic() - self._began_s
        return self.result

    def _write(self, rows: DataFrame, batch: int) -> None:
        end = planned(self.checkpoint, batch)
        begin = planned(self.checkpoint, batch - 1) if batch else {}
        placed = rows.withColumn("date", f.to_date("timestamp")).withColumn("archived", f.current_timestamp())
        table = self._table.opened(schema_of(placed))
        held = self._table.through(table)
        if covers(held, end):
            return
        if not covers(held, begin):
            raise TableGap(
                f"{self._table.uri} holds less than its checkpoint says: it was restored to an earlier version. Remove"
                f" {self.checkpoint}, and the next run goes on where the table ends"
            )
        lacking = placed if covers(begin, held) else self._beyond(placed, held)
        files = written(lacking, self._table.new_attempt(), self._table.storage)
        self._count(batch, self._table.publish(table, files, merged(held, end)))

    def _beyond(self, rows: DataFrame, held: Positions) -> DataFrame:
        """The rows that a table with this vector lacks."""
        joined = rows.join(f.broadcast(bounds_of(self._spark, held)), ["stream", "origin"], "left")
        return joined.where(f.col("held").isNull() | (f.col("seq") > f.col("held"))).select(*rows.columns)

    def _count(self, batch: int, published: Published) -> None:
        self.result.add(published)
        if self.progress is not None:
            self.progress(batch, published)
        if self.result.batches % COMPACTED_EVERY == 0:
            self.result.merged_files += self._table.compact()


def checkpoint_of(uri: str) -> str:
    """Spark would need Hadoop for one in an object store: a run has its own there, and begins where the table ends."""
    if not is_remote(uri):
        return f"{uri}/{CHECKPOINT}"
    made = mkdtemp(prefix="crdtstream-checkpoint-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return f"file://{made}"


def covers(one: Positions, other: Positions) -> bool:
    """True if no seq of the other vector is beyond this one."""
    return all(
        one.get(stream, {}).get(origin, 0) >= seq
        for stream, position in other.items()
        for origin, seq in position.items()
    )
