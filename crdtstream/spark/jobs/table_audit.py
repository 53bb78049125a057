"""A table compared with the regions at its vector, entry by entry.

The merged streams up to a vector are the same in every region that has applied it, except for removals. So each of
their entries is in the table once, with the same ID and fields, and what is in the table alone has been removed since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from crdtstream.spark.jobs.archives import ARRAY, TYPES, read_table, type_of_fields
from crdtstream.spark.jobs.audit import PLACE, SHOWN_MAX, text_of_entry
from crdtstream.spark.offsets import Positions, origin_text, shown, to_json
from crdtstream.spark.tables.commits import UnreadableTable
from crdtstream.spark.tables.entry_table import EntryTable

COLUMNS: Final = ("stream", "origin", "seq", "id", "fields")
MISSING, ALTERED, TWICE, REMOVED = "missing", "altered", "twice", "removed"


@dataclass(frozen=True)
class TableDifference:
    """One entry: `kind` is `missing` from the table, `altered`, there `twice`, or `removed` from the streams."""

    stream: str
    origin: str
    seq: int
    kind: str


@dataclass
class TableAudited:
    """`entries` counts the rows of the table, `removed` those that the regions do not have any more."""

    entries: int = 0
    removed: int = 0
    differences: list[TableDifference] = field(default_factory=list)


def audit_table(
    spark: SparkSession, options: Mapping[str, str], archive: EntryTable, keep_removed: bool = True
) -> TableAudited:
    """Compare; `options` are those of the source. A table that does not keep what was removed has nothing else."""
    table = archive.latest()
    refuse_other_forms(archive, table)
    found = compared(spark, options, archive, table).persist()
    try:
        counted = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
        shown = found.where(f.col("kind").isNotNull())
        if keep_removed:
            shown = shown.where(f.col("kind") != REMOVED)
        rows = shown.orderBy(*PLACE).limit(SHOWN_MAX).collect()
    finally:
        found.unpersist()
    differences = [TableDifference(row["stream"], row["origin"], row["seq"], row["kind"]) for row in rows]
    return TableAudited(sum(counted.values()) - counted.get(MISSING, 0), counted.get(REMOVED, 0), differences)


def delete_removed(spark: SparkSession, options: Mapping[str, str], archive: EntryTable) -> int:
    """Delete from the table what the regions have removed of it; return how many rows. Raises TableConflict."""
    table = archive.table()
    if table is None:
        return 0
    gone = compared(spark, options, archive, table).where(f.col("kind") == REMOVED).select(*PLACE).toArrow()
    return archive.delete(table, gone) if gone.num_rows else 0


def refuse_other_forms(archive: EntryTable, table: Any) -> None:
    """What a map or JSON has lost of an entry cannot be compared."""
    held = archive.columns(table).field("fields").type
    if type_of_fields(held) != ARRAY:
        raise UnreadableTable(
            f"{archive.uri} stores fields as {held}, which loses part of an entry, so it cannot be compared: archive"
            " without the option fieldsAs"
        )


def compared(spark: SparkSession, options: Mapping[str, str], archive: EntryTable, table: Any) -> DataFrame:
    """A row for each entry of the table or of the regions up to its vector, with what is wrong with it, or null."""
    held = archive.through(table)
    ours = read_table(spark, archive, table, COLUMNS).select(*PLACE, text_of_entry()).groupBy(*PLACE)
    archived = ours.agg(f.first("text").alias("archived"), f.count("*").alias("times"))
    there = in_regions(spark, options, held).select(*PLACE, text_of_entry().alias("there"))
    kind = (
        f.when(f.col("archived").isNull(), MISSING)
        .when(f.col("times") > 1, TWICE)
        .when(f.col("there").isNull(), REMOVED)
        .when(f.col("there") != f.col("archived"), ALTERED)
    )
    return archived.join(there, list(PLACE), "full").withColumn("kind", kind)


def in_regions(spark: SparkSession, options: Mapping[str, str], held: Positions) -> DataFrame:
    """The entries of the merged streams up to this vector."""
    chosen = {
        name: value
        for name, value in options.items()
        if name.lower() not in ("streams", "streamspattern", "startingoffsets")
    }
    # A trim is what the comparison finds. An end that no region has reached fails, instead of looking like a removal.
    chosen |= {
        "streams": json.dumps(sorted(held)),
        "endingOffsets": json.dumps(to_json(held)),
        "failOnDataLoss": "false",
        "failOnMissingStream": "false",
    }
    bounds = f.broadcast(bounds_of(spark, held))
    if not held:
        return spark.createDataFrame([], ", ".join(f"{name} {TYPES[name]}" for name in COLUMNS))
    entries = spark.read.format("crdtstream").options(**chosen).load()
    return entries.join(bounds, ["stream", "origin"]).where(f.col("seq") <= f.col("held"))


def bounds_of(spark: SparkSession, held: Positions) -> DataFrame:
    """A row for each stream and origin of a vector, with its seq in the column `held`."""
    rows = [
        (shown(stream), origin_text(origin), seq)
        for stream, position in held.items()
        for origin, seq in position.items()
    ]
    return spark.createDataFrame(rows, "stream string, origin string, held bigint")
