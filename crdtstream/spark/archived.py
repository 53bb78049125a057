"""The option `archive`: a table and the live tail as one DataFrame.

A table holds everything up to its vector (tables/entry_table.py). So what lies up to it is read from the table's files,
and what lies beyond it from a region: nothing is missing, and nothing comes twice. The version of the table is the one
that a batch finds when it is planned, and a streaming query when it begins; its first micro-batch has all of the table.

What was removed from the streams after it was archived is still in a table that keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from crdtstream.protocols.glob import matches, tokens_of
from crdtstream.spark.columns import as_type, signed
from crdtstream.spark.heads import LEDGERS, Head, Heads
from crdtstream.spark.offsets import Positions, origin_text, shown, stream_bytes
from crdtstream.spark.options import OptionError, Options
from crdtstream.spark.plan import count_of
from crdtstream.spark.tables.commits import NoCatalog, UnreadableTable
from crdtstream.spark.tables.entry_table import EntryTable
from crdtstream.spark.tables.files import NO_OPTIONS, TableFile, batches_of
from crdtstream.spark.tables.opening import table_at

ID: Final = r"(?P<ms>[0-9]+)-(?P<seq>[0-9]+)"
# What the source may be asked for, and is worked out from other columns of a table.
DERIVED: Final = ("region", "id_ms", "id_seq", "region_read")
# Seqs of each origin: above the first, up to the second.
Bounds = dict[str, tuple[int, int]]


class ArchiveTask(InputPartition):
    """Files that one task reads, and what counts of them by stream and origin; pickled."""

    def __init__(
        self, files: Sequence[TableFile], bounds: Mapping[str, Bounds], storage: Mapping[str, str] = NO_OPTIONS
    ) -> None:
        super().__init__(None)
        self.files = list(files)
        self.storage = dict(storage)
        self.bounds = {file.stream: bounds[file.stream] for file in files}

    def batches(self, schema: Any) -> Iterator[Any]:
        """Record batches of this schema, in the task."""
        names = list(dict.fromkeys(["origin", "seq", "id", *[each for each in schema.names if each not in DERIVED]]))
        for file in self.files:
            for batch in batches_of(file, names, self.storage):
                kept = batch.filter(within(batch, self.bounds[file.stream]))
                if kept.num_rows:
                    arrays = [as_type(column_of(kept, field.name), field) for field in schema]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class PinnedTable:
    """One version of a table, as far as it has the streams that are read."""

    def __init__(self, options: Options, schema: Any) -> None:
        uri = options["archive"]
        archive, table = opened(options)
        require_columns(uri, archive.columns(table), schema)
        self.vector = chosen(archive.through(table), options)
        streams = {shown(stream) for stream in self.vector}
        self.files = [file for file in archive.files(table) if file.stream in streams]
        self.storage = archive.storage

    def __getstate__(self) -> dict[str, Any]:
        """Executors get their part in tasks."""
        return {"vector": {}, "files": [], "storage": {}}

    def join(self, heads: Heads) -> Heads:
        """The heads as if nothing had been trimmed, and everything in the table were in a region."""
        joined = {
            stream: {origin: Head(head=head.head, at=head.at, length=head.length) for origin, head in row.items()}
            for stream, row in heads.items()
        }
        for stream, position in self.vector.items():
            row = joined.setdefault(stream, {})
            for origin, seq in position.items():
                head = row.setdefault(origin, Head())
                head.head = max(head.head, seq)
        return joined

    def outside(self, positions: Positions) -> Positions:
        """The rows of positions that the table does not reach."""
        return {
            stream: {origin: seq for origin, seq in row.items() if seq > self.vector.get(stream, {}).get(origin, 0)}
            for stream, row in positions.items()
        }

    def has_more(self, start: Positions) -> bool:
        return any(
            start.get(stream, {}).get(origin, 0) < seq
            for stream, position in self.vector.items()
            for origin, seq in position.items()
        )

    def tasks(self, start: Positions, end: Positions, least: int, most: int) -> list[ArchiveTask]:
        """Read what lies between these positions, as far as the table has it."""
        bounds = self._bounds(start, end)
        files = [file for file in self.files if bounds.get(file.stream)]
        count = count_of(sum(file.rows for file in files), least, most)
        shares = [files[index::count] for index in range(min(count, len(files)))]
        return [ArchiveTask(share, bounds, self.storage) for share in shares]

    def _bounds(self, start: Positions, end: Positions) -> dict[str, Bounds]:
        found: dict[str, Bounds] = {}
        for stream, position in self.vector.items():
            for origin, seq in position.items():
                low, high = start.get(stream, {}).get(origin, 0), min(seq, end.get(stream, {}).get(origin, 0))
                if low < high:
                    found.setdefault(shown(stream), {})[origin_text(origin)] = (low, high)
        return found


def opened(options: Options) -> tuple[EntryTable, Any]:
    """The table and its latest version."""
    uri = options["archive"]
    try:
        archive = table_at(uri, options["archiveStoreOptions"], options["archiveCatalog"] or "")
        return archive, archive.latest()
    except NoCatalog as error:
        raise OptionError(f"archiveCatalog: {error}") from None
    except UnreadableTable:
        raise OptionError(
            f"archive: there is no table at {uri} that can be read: name the directory or address that archive --table"
            " has written, and the catalogue of an Iceberg table with archiveCatalog, or leave the option archive out"
        ) from None


def chosen(vector: Positions, options: Options) -> Positions:
    """The rows of the streams that are read."""
    named, pattern = options["streams"], options["streamsPattern"]
    if named:
        return {stream: position for stream, position in vector.items() if stream in named}
    tokens = tokens_of(stream_bytes(pattern))
    return {
        stream: position
        for stream, position in vector.items()
        if matches(tokens, stream_bytes(stream)) and not stream.startswith(LEDGERS)
    }


def require_columns(uri: str, held: Any, wanted: Any) -> None:
    """Raise OptionError if the table lacks a column, or has it with another type."""
    for field in wanted:
        if field.name in DERIVED:
            continue
        if field.name not in held.names:
            raise OptionError(
                f"archive: the table at {uri} has no column {field.name}: archive with the same options, or leave the"
                " column out of the schema"
            )
        if pa.types.is_nested(field.type) != pa.types.is_nested(held.field(field.name).type):
            raise OptionError(
                f"archive: column {field.name} of the table at {uri} is {held.field(field.name).type}, and the options"
                f" ask for {field.type}: choose the form that the table was archived with (fieldsAs)"
            )


def within(batch: Any, bounds: Bounds) -> Any:
    """Which rows lie within the bounds of their origin."""
    origins, seqs = batch.column("origin"), batch.column("seq")
    wanted = pa.array(np.zeros(batch.num_rows, bool))
    for origin, (low, high) in bounds.items():
        there = pc.and_(pc.greater(seqs, low), pc.less_equal(seqs, high))
        wanted = pc.or_(wanted, pc.and_(pc.equal(origins, origin), there))
    return wanted


def column_of(batch: Any, name: str) -> Any:
    if name == "region":
        return pc.struct_field(pc.extract_regex(batch.column("origin"), "(?P<region>[0-9]+)"), "region").cast(
            pa.int32()
        )
    if name in ("id_ms", "id_seq"):
        part = pc.struct_field(pc.extract_regex(batch.column("id"), ID), name.removeprefix("id_"))
        return signed(part.cast(pa.uint64()).to_numpy(zero_copy_only=False))
    return pa.nulls(batch.num_rows) if name == "region_read" else batch.column(name)
