"""A Spark data source that generates rows without reading anything: the minimum cost of moving rows through Spark.

Its rows are like those that the benchmark writes and reads: the columns of `crdtstream`, and one field of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow
import pyarrow.compute
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

BATCH_ROWS = 10_000
SCHEMA = (
    "stream string, id string, origin string, seq bigint, timestamp timestamp,"
    " fields array<struct<field: binary, value: binary>>"
)
PAIR = pyarrow.struct([("field", pyarrow.binary()), ("value", pyarrow.binary())])
ARROW = pyarrow.schema(
    [
        ("stream", pyarrow.string()),
        ("id", pyarrow.string()),
        ("origin", pyarrow.string()),
        ("seq", pyarrow.int64()),
        ("timestamp", pyarrow.timestamp("us", "UTC")),
        ("fields", pyarrow.list_(PAIR)),
    ]
)
START_MS = 1_700_000_000_000


@dataclass
class Counted(WriterCommitMessage):  # type: ignore[misc]
    rows: int


class Counter(DataSourceArrowWriter):  # type: ignore[misc]
    """A sink that only counts: the minimum cost of moving rows from Spark into Python."""

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Counted:
        return Counted(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to do."""


class Generator(DataSource):  # type: ignore[misc]
    """Options: `rows`, `tasks`, and `streams`, over which the rows are distributed in turn."""

    @classmethod
    def name(cls) -> str:
        return "generator"

    def schema(self) -> str:
        return SCHEMA

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return Counter()

    def reader(self, schema: StructType) -> DataSourceReader:
        return Reader(int(self.options["rows"]), int(self.options["tasks"]), int(self.options["streams"]))


class Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, rows: int, tasks: int, streams: int) -> None:
        self._rows = rows
        self._tasks = tasks
        self._streams = streams

    def partitions(self) -> list[InputPartition]:
        return [
            InputPartition((task * self._rows // self._tasks, (task + 1) * self._rows // self._tasks))
            for task in range(self._tasks)
        ]

    def read(self, partition: Any) -> Iterator[pyarrow.RecordBatch]:
        """Yield the same batch repeatedly, so that Spark is measured and not the generation of rows."""
        low, high = partition.value
        batch = made(0, min(BATCH_ROWS, high - low), self._streams)
        for at in range(low, high, BATCH_ROWS):
            yield batch.slice(0, min(BATCH_ROWS, high - at))


def made(low: int, high: int, streams: int) -> pyarrow.RecordBatch:
    numbers = pyarrow.array(range(low, high), pyarrow.int64())
    count = len(numbers)
    text = numbers.cast(pyarrow.string())
    ids = pyarrow.compute.binary_join_element_wise(text, "1", "-")
    moments = pyarrow.compute.multiply(pyarrow.compute.add(numbers, START_MS), 1000)
    values = pyarrow.compute.utf8_lpad(text, 16, "0").cast(pyarrow.binary())
    pairs = pyarrow.StructArray.from_arrays(
        [pyarrow.array([b"field"] * count, pyarrow.binary()), values], fields=list(PAIR)
    )
    fields = pyarrow.ListArray.from_arrays(pyarrow.array(range(count + 1), pyarrow.int32()), pairs)
    names = [f"s{number % streams}" for number in range(low, high)]
    columns = [
        pyarrow.array(names),
        ids,
        pyarrow.array(["1.ab"] * count),
        numbers,
        moments.cast(ARROW.field(4).type),
        fields,
    ]
    return pyarrow.RecordBatch.from_arrays(columns, schema=ARROW)
