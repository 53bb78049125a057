"""`replay`: writes a time range of an archive to streams of a test cluster, at the original speed or another.

Entries are written in windows of the archive's time, each when it is due. The region mints new IDs unless the entries
keep theirs, which requires the ID mode liberal or semi-strict and IDs above the stream's last one.

An archive names the origins of its entries, and a region says which origins it knows: a replay into the cluster that
was archived would add all entries a second time, and is refused unless it is forced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from crdtstream.spark.jobs.archives import read_archive
from crdtstream.spark.offsets import origin_text
from crdtstream.spark.options import Options
from crdtstream.spark.sharded import client_of
from crdtstream.spark.tables.entry_table import EntryTable

WINDOW_S = 1.0


class OwnArchive(RuntimeError):
    """The archive is one of the cluster that it would be replayed into."""


@dataclass(frozen=True)
class Chosen:
    """The selected entries: by ID from `begins`, inclusive, to `ends`, exclusive, None for no bound; no streams means
    all.
    """

    streams: tuple[str, ...] = ()
    begins: datetime | None = None
    ends: datetime | None = None

    def of(self, archive: DataFrame) -> DataFrame:
        found = archive
        if self.streams:
            found = found.where(f.col("stream").isin(list(self.streams)))
        if self.begins is not None:
            found = found.where(f.col("timestamp") >= f.lit(self.begins))
        if self.ends is not None:
            found = found.where(f.col("timestamp") < f.lit(self.ends))
        return found


@dataclass
class Replayed:
    """The result of a run; `behind_s` is the largest delay of a window."""

    rows: int = 0
    windows: int = 0
    behind_s: float = 0.0
    seconds: float = 0.0


# What was done, and how many rows there are.
Progress = Callable[[Replayed, int], None]


def replay(
    spark: SparkSession,
    archive: str | EntryTable,
    options: Mapping[str, str],
    chosen: Chosen,
    speed: float = 1.0,
    into: str = "",
    keep_ids: bool = False,
    progress: Progress | None = None,
    force: bool = False,
) -> Replayed:
    """Write the selected entries; `speed` 2.0 takes half the time, 0.0 makes no pauses.

    `archive` is a path, a URI or a table; `options` are those of the sink; `into` names one stream for all entries,
    otherwise each keeps its own. `force` allows the cluster that was archived. Raises OwnArchive, UnreadableTable.
    """
    if speed < 0:
        raise ValueError(f"speed {speed} is below 0: use 1.0 for the archive's own speed, 0 for no pauses")
    held = read_archive(spark, archive)
    if not force:
        refuse_own(held, archive if isinstance(archive, str) else archive.uri, options)
    columns = ["stream", "fields", *(["id"] if keep_ids else [])]
    # A window covers this much of the archive's time, so that a window is due about every WINDOW_S.
    step_us = int(WINDOW_S * max(speed, 1.0) * 1e6) if speed else 1 << 62
    entries = chosen.of(held).withColumn("window", f.floor(f.unix_micros("timestamp") / step_us))
    entries = entries.withColumn("stream", f.lit(into)) if into else entries
    entries.persist()
    try:
        counts = entries.groupBy("window").count().orderBy("window").collect()
        return _play(entries, columns, counts, options, step_us / 1e6 / (speed or 1.0), progress)
    finally:
        entries.unpersist()


def refuse_own(held: DataFrame, uri: str, options: Mapping[str, str]) -> None:
    archived = {row["origin"] for row in held.select("origin").distinct().collect()}
    parsed = Options(options)
    parsed.need("endpoints")
    shared = sorted(archived.intersection(map(origin_text, client_of(parsed).ask_applied())))
    if shared:
        raise OwnArchive(
            f"{uri} is an archive of the cluster at {', '.join(parsed['endpoints'])}, which knows origin"
            f" {shared[0]}: a replay would add its entries a second time. Name the endpoints of a test cluster, or use"
            " --force"
        )


def _play(
    entries: DataFrame,
    columns: list[str],
    counts: list[Any],
    options: Mapping[str, str],
    window_s: float,
    progress: Progress | None,
) -> Replayed:
    done = Replayed()
    total = sum(rows for _, rows in counts)
    began_s = time.monotonic()
    for window, rows in counts:
        due_s = began_s + (window - counts[0][0]) * window_s
        time.sleep(max(0.0, due_s - time.monotonic()))
        done.behind_s = max(done.behind_s, time.monotonic() - due_s)
        due = entries.where(f.col("window") == window).coalesce(1).sortWithinPartitions("timestamp", id_seq(), "origin")
        due.select(*columns).write.format("crdtstream").options(**options).mode("append").save()
        done.rows, done.windows = done.rows + rows, done.windows + 1
        if progress is not None:
            progress(done, total)
    done.seconds = time.monotonic() - began_s
    return done


def id_seq() -> Column:
    """Return the part of an ID after its milliseconds, as an unsigned 64-bit number."""
    return f.substring_index("id", "-", -1).cast("decimal(20)")
