"""Readers and writers as Spark makes them, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from crdtstream.spark.options import Options
from crdtstream.spark.reader import BatchReader, BulkStreamReader
from tests.spark.fake_regions import Regions

PAIR = StructType([StructField("field", BinaryType()), StructField("value", BinaryType())])
FIELDS = {"array": ArrayType(PAIR), "map": MapType(BinaryType(), BinaryType()), "json": StringType()}
FAST = {"fetchOffset.retryIntervalMs": "1", "fetchOffset.numRetries": "2", "discoveryIntervalMs": "0"}


def schema_of(fields_as: str = "array", metadata: bool = False) -> StructType:
    """What Spark makes of the source's own words."""
    columns = [
        ("stream", StringType()),
        ("id", StringType()),
        ("origin", StringType()),
        ("seq", LongType()),
        ("timestamp", TimestampType()),
        ("fields", FIELDS[fields_as]),
    ]
    if metadata:
        columns += [
            ("region", IntegerType()),
            ("id_ms", LongType()),
            ("id_seq", LongType()),
            ("region_read", StringType()),
        ]
    return StructType([StructField(name, kind) for name, kind in columns])


def options(regions: Regions, **given: object) -> Options:
    """`max_partitions=1` stands for maxPartitions."""
    named = {name.replace("_", ""): str(value) for name, value in given.items()}
    return Options({"endpoints": regions.endpoints, **FAST, **named})


def batch_reader(regions: Regions, **given: object) -> BatchReader:
    made = options(regions, **given)
    return BatchReader(made, schema_of(made["fieldsAs"], made["includeMetadata"]))


def stream_reader(regions: Regions, **given: object) -> BulkStreamReader:
    made = options(regions, **given)
    return BulkStreamReader(made, schema_of(made["fieldsAs"], made["includeMetadata"]))


def rows_of(reader: Any, tasks: Sequence[Any]) -> list[dict[str, Any]]:
    """What the tasks read, each with a reader that was pickled for it."""
    rows: list[dict[str, Any]] = []
    for task in tasks:
        copy, task = pickle.loads(pickle.dumps((reader, task)))
        for batch in copy.read(task):
            assert isinstance(batch, pa.RecordBatch)
            assert batch.schema == reader.reading.decoder.schema
            rows += batch.to_pylist()
    return rows


def values_of(rows: Sequence[dict[str, Any]]) -> list[bytes]:
    return [row["fields"][0]["value"] for row in rows]
