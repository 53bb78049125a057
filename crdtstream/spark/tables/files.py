"""The files of a table, read by Spark's workers with pyarrow: no JVM needs to know the table's format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as parquet

from crdtstream.spark.offsets import Positions, parse_origin
from crdtstream.spark.tables.stores import files_at

STREAM = "stream"
NO_OPTIONS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a version of a table, and the stream of all its rows."""

    uri: str
    stream: str
    rows: int


def batches_of(file: TableFile, columns: Sequence[str], storage: Mapping[str, str] = NO_OPTIONS) -> Iterator[Any]:
    """Record batches with these columns; one that the file lacks, because it came later, is null throughout."""
    files, path = files_at(file.uri, storage)
    opened = parquet.ParquetFile(path, filesystem=files)
    present = [name for name in columns if name in opened.schema_arrow.names and name != STREAM]
    for part in opened.iter_batches(columns=present):
        yield pa.RecordBatch.from_arrays([column_of(file, part, name) for name in columns], list(columns))


def schema_in(file: TableFile, storage: Mapping[str, str] = NO_OPTIONS) -> Any:
    files, path = files_at(file.uri, storage)
    return parquet.read_schema(path, filesystem=files)


def column_of(file: TableFile, part: Any, name: str) -> Any:
    if name == STREAM:  # A file that was merged has no column for what it is partitioned by.
        return pa.repeat(pa.scalar(file.stream, pa.string()), part.num_rows)
    return part.column(name) if name in part.schema.names else pa.nulls(part.num_rows)


def highest(files: Sequence[TableFile], storage: Mapping[str, str] = NO_OPTIONS) -> Positions:
    """The highest seqs in files."""
    found: Positions = {}
    for part in (part for file in files for part in batches_of(file, (STREAM, "origin", "seq"), storage)):
        groups = pa.Table.from_batches([part]).group_by([STREAM, "origin"]).aggregate([("seq", "max")])
        for row in groups.to_pylist():
            position = found.setdefault(row[STREAM], {})
            origin = parse_origin(row["origin"])
            position[origin] = max(row["seq_max"], position.get(origin, 0))
    return found
