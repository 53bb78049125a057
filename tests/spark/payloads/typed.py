"""Entries decoded by a payload's schema, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StringType, StructField, StructType

from crdtstream.bulk import bulk_pb2
from crdtstream.spark.columns import Decoder, columns_of
from crdtstream.spark.entries import run_of
from crdtstream.spark.options import Options
from crdtstream.spark.payloads.decoding import payload_columns
from tests.spark.fake_regions import Entry, entries_of
from tests.spark.support import schema_of

CORRUPT = "_corrupt_record"


def typed(
    rows: Sequence[list[bytes]], types: dict[str, DataType], corrupt: str = CORRUPT, **given: str
) -> list[dict[str, Any]]:
    """The rows that entries with these fields become."""
    options = Options({"endpoints": "h:1", **given})
    names = [*types.items(), (corrupt, StringType())]
    schema = StructType([*schema_of().fields, *(StructField(name, kind) for name, kind in names)])
    own = columns_of("array", False)
    decoder = Decoder([*own, *payload_columns(options, schema, own)], to_arrow_schema(schema, timezone="UTC"))
    entries: list[Entry] = [(seq + 1, 5, seq, items) for seq, items in enumerate(rows)]
    batch: pa.RecordBatch = decoder.batch(
        run_of([(bulk_pb2.Interval(stream=b"s", origin=257, through=9), entries_of(0, entries))], "r")
    )
    batch.validate(full=True)
    return [{name: row[name] for name, _ in names} for row in batch.to_pylist()]


def payloads(values: Sequence[bytes]) -> list[list[bytes]]:
    """Entries that hold these in the field `payload`."""
    return [[b"payload", value] for value in values]
