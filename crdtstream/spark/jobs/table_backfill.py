"""`backfill --as-of`: the entries of one version of a table into the streams of another cluster, with their IDs.

The version decides what is written, and in which batches: a batch has all entries of a stretch of time, in the order of
their IDs, and is published once (the sink's ledger). So a job that was killed is run again, and adds nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from hashlib import sha256

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from crdtstream.spark.jobs.archives import read_table
from crdtstream.spark.jobs.backfill import Backfilled, Publisher
from crdtstream.spark.jobs.replay import OwnArchive, id_seq
from crdtstream.spark.offsets import Positions, origin_text
from crdtstream.spark.options import Options
from crdtstream.spark.sharded import client_of
from crdtstream.spark.tables.entry_table import EntryTable

ROWS_MAX = 200_000
LATEST = "latest"


def load_table(
    spark: SparkSession,
    archive: EntryTable,
    as_of: str,
    options: Mapping[str, str],
    batch_rows: int = ROWS_MAX,
    progress: Callable[[Backfilled, int], None] | None = None,
    force: bool = False,
) -> Backfilled:
    """Write all entries of the version; `as_of` is its number, an ISO time, or `latest`. `options` are those of the
    sink; `force` allows the cluster that was archived. Raises UnreadableTable, OwnArchive.
    """
    began_s = time.monotonic()
    table = archive.latest() if as_of == LATEST else archive.as_of(as_of)
    if not force:
        refuse_own(archive.uri, archive.through(table), options)
    rows = read_table(spark, archive, table).withColumn("ms", f.substring_index("id", "-", 1).cast("double"))
    total = sum(file.rows for file in archive.files(table))
    bounds = bounds_of(rows, -(-total // batch_rows))
    application = sha256(f"{archive.uri} {archive.version_of(table)} {batch_rows}".encode()).hexdigest()[:32]
    # A batch of this number under this name has these rows, so a later run passes over all that were published.
    publisher = Publisher({**options, "skipPublished": "true"}, f"as-of-{application}")
    done = Backfilled()
    for batch, (low, high) in enumerate(zip([float("-inf"), *bounds], [*bounds, float("inf")], strict=True)):
        chosen = rows.where((f.col("ms") >= low) & (f.col("ms") < high)) if bounds else rows
        done.add(*write(chosen, publisher, batch))
        if progress is not None:
            progress(done, total)
    done.seconds = time.monotonic() - began_s
    return done


def refuse_own(uri: str, held: Positions, options: Mapping[str, str]) -> None:
    parsed = Options(options)
    parsed.need("endpoints")
    origins = {origin_text(origin) for position in held.values() for origin in position}
    shared = sorted(origins.intersection(map(origin_text, client_of(parsed).ask_applied())))
    if shared:
        raise OwnArchive(
            f"{uri} is an archive of the cluster at {', '.join(parsed['endpoints'])}, which knows origin {shared[0]}: a"
            " region of it gets the entries from the others. Name the endpoints of another cluster, or use --force"
        )


def bounds_of(rows: DataFrame, batches: int) -> list[float]:
    """The times, in ms, at which batches end but for the last one: the same whenever they are asked for."""
    shares = [number / batches for number in range(1, batches)]
    return sorted(set(rows.approxQuantile("ms", shares, 0.0))) if shares else []


def write(rows: DataFrame, publisher: Publisher, batch: int) -> tuple[int, bool | None]:
    """Publish one batch, each stream in the order of its IDs; return how many rows it has, and whether they are new."""
    ordered = rows.repartition("stream").sortWithinPartitions("stream", "ms", id_seq(), "origin").persist()
    try:
        was_published = publisher.publish(ordered.select("stream", "id", "fields"), batch)
        return ordered.count(), was_published
    finally:
        ordered.unpersist()
