"""What jobs read of an archive: files by Spark itself, a table by its workers, without a JVM for its format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from crdtstream.spark.tables.entry_table import EntryTable
from crdtstream.spark.tables.files import TableFile, batches_of
from crdtstream.spark.tables.opening import archive_at

ARRAY: Final = "array<struct<field: binary, value: binary>>"
TYPES: Final = {
    "stream": "string",
    "origin": "string",
    "seq": "bigint",
    "id": "string",
    "timestamp": "timestamp",
    "archived": "timestamp",
    "fields": ARRAY,
}
FILES: Final = "uri string, stream string, rows bigint"


def read_archive(spark: SparkSession, archive: str | EntryTable) -> DataFrame:
    """The entries of an archive, given as a path, a URI or a table. Raises UnreadableTable."""
    found = archive_at(archive) if isinstance(archive, str) else archive
    if isinstance(found, EntryTable):
        return read_table(spark, found, found.latest())
    # A name such as 0042 is text.
    return spark.read.option("inferSchema", "false").parquet(found)


def read_table(
    spark: SparkSession, archive: EntryTable, table: Any, columns: Sequence[str] = tuple(TYPES)
) -> DataFrame:
    """The entries of one version of a table. Raises UnreadableTable."""
    types = {**TYPES, "fields": type_of_fields(archive.columns(table).field("fields").type)}
    schema = ", ".join(f"{name} {types[name]}" for name in columns)
    files = archive.files(table)
    if not files:
        return spark.createDataFrame([], schema)
    listed = spark.createDataFrame([(file.uri, file.stream, file.rows) for file in files], FILES)
    return listed.repartition(len(files)).mapInArrow(partial(read_files, tuple(columns), archive.storage), schema)


def type_of_fields(held: pa.DataType) -> str:
    """The type of the column `fields`, in the form that was chosen when it was archived (`fieldsAs`)."""
    if pa.types.is_map(held):
        return "map<binary, binary>"
    return ARRAY if pa.types.is_nested(held) else "string"


def read_files(
    columns: Sequence[str], storage: Mapping[str, str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read these columns of each listed file, in a worker."""
    for batch in batches:
        for row in batch.to_pylist():
            yield from batches_of(TableFile(**row), columns, storage)
