"""Spark's workers write the files of a table with pyarrow, to whatever store it knows, each of one stream and day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from crdtstream.spark.tables.files import NO_OPTIONS
from crdtstream.spark.tables.stores import files_at

WRITTEN: Final = "uri string, stream string, date date, rows bigint, size_bytes bigint"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file that is in no commit yet, with what all of its rows have in common."""

    uri: str
    stream: str
    date: date
    rows: int
    size_bytes: int


def schema_of(rows: DataFrame) -> pa.Schema:
    """The columns as files have them: times are UTC, and any column may be null."""
    return pa.schema([each.with_nullable(True) for each in to_arrow_schema(rows.schema, timezone="UTC")])


def written(rows: DataFrame, directory: str, storage: Mapping[str, str] = NO_OPTIONS) -> list[WrittenFile]:
    """Have the workers write rows as files into a directory. What a failed task has written is not among them."""
    gathered = rows.repartition("stream", "date")
    ordered = gathered.sortWithinPartitions("stream", "date", "timestamp", "origin", "seq")
    files = ordered.mapInArrow(FileWriter(directory, schema_of(rows), storage), WRITTEN)
    return [WrittenFile(**row) for row in files.toArrow().to_pylist()]


@dataclass(frozen=True)
class FileWriter:
    """What a worker does with rows that are sorted by stream and day."""

    directory: str
    schema: pa.Schema
    storage: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opened: FileInProgress | None = None
        for part in (part for batch in batches for part in parts_of(batch)):
            if opened is not None and not opened.fits(part):
                yield opened.close()
                opened = None
            if opened is None:
                opened = FileInProgress(self, part)
            opened.write(part)
        if opened is not None:
            yield opened.close()


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A sorted batch, cut wherever stream or day change."""
    changes = [changed(batch.column(name)) for name in ("stream", "date")]
    ends = [index + 1 for index in compute.indices_nonzero(compute.or_(*changes)).to_pylist()]
    for begin, end in zip([0, *ends], [*ends, batch.num_rows], strict=True):
        if end > begin:
            yield batch.slice(begin, end - begin)


def changed(column: Any) -> Any:
    """For each value but the first, whether it differs from the one before."""
    return compute.not_equal(column[1:], column[:-1])


class FileInProgress:
    """A file that a worker writes."""

    def __init__(self, made_by: FileWriter, first: pa.RecordBatch) -> None:
        self._uri = f"{made_by.directory}/{uuid4()}.parquet"
        self._schema = made_by.schema
        self._files, self._path = files_at(self._uri, made_by.storage)
        self._files.create_dir(self._path.rpartition("/")[0], recursive=True)
        self._writer = parquet.ParquetWriter(self._path, self._schema, filesystem=self._files)
        self._common = common_of(first)
        self._rows = 0

    def fits(self, part: pa.RecordBatch) -> bool:
        return common_of(part) == self._common

    def write(self, part: pa.RecordBatch) -> None:
        self._writer.write_table(pa.Table.from_batches([part]).cast(self._schema))
        self._rows += part.num_rows

    def close(self) -> pa.RecordBatch:
        """End the file; return the row that describes it."""
        self._writer.close()
        stream, day = self._common
        size = self._files.get_file_info(self._path).size
        row = {"uri": self._uri, "stream": stream, "date": day, "rows": self._rows, "size_bytes": size}
        return pa.RecordBatch.from_pylist([row])


def common_of(part: pa.RecordBatch) -> tuple[str, date]:
    return part.column("stream")[0].as_py(), part.column("date")[0].as_py()
