"""Rows and files of tables without Spark: what its workers run, run here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from crdtstream.spark.tables.entry_table import EntryTable
from crdtstream.spark.tables.writing import FileWriter, WrittenFile

PAIR = pa.struct([("field", pa.binary()), ("value", pa.binary())])
SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("id", pa.string()),
        ("origin", pa.string()),
        ("seq", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("fields", pa.list_(pa.field("element", PAIR))),
        ("date", pa.date32()),
    ]
)
ORIGIN = "1.ab"
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def batch_of(stream: str, *seqs: int, at: datetime = NOON) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {
            "stream": stream,
            "id": f"{seq}-1",
            "origin": ORIGIN,
            "seq": seq,
            "timestamp": at,
            "fields": [{"field": b"f", "value": b"\xff"}],
            "date": at.date(),
        }
        for seq in seqs
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def written_by(table: EntryTable, *batches: pa.RecordBatch) -> list[WrittenFile]:
    files = FileWriter(table.new_attempt(), SCHEMA)(iter(batches))
    return [WrittenFile(**row) for each in files for row in each.to_pylist()]


def places_of(stream: str, *seqs: int) -> pa.Table:
    return pa.table({"stream": [stream] * len(seqs), "origin": [ORIGIN] * len(seqs), "seq": list(seqs)})
