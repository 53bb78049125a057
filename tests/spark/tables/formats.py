"""What tests of tables share: one of each format, read by what its format brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from crdtstream.spark.offsets import Positions
from crdtstream.spark.tables.delta import DeltaArchive
from crdtstream.spark.tables.entry_table import EntryTable
from crdtstream.spark.tables.iceberg import IcebergArchive

Made = type[DeltaArchive] | type[IcebergArchive]
FORMATS: tuple[Made, ...] = (DeltaArchive, IcebergArchive)


def version_of(table: EntryTable) -> Any:
    read = table.table()
    assert read is not None
    return read


def rows_of(table: EntryTable, columns: Sequence[str] = ("*",)) -> Any:
    """The table as an Arrow table."""
    if isinstance(table, IcebergArchive):
        return version_of(table).scan(selected_fields=tuple(columns)).to_arrow()
    return version_of(table).to_pyarrow_table(columns=None if "*" in columns else list(columns))


def found(table: EntryTable) -> list[tuple[str, str, int]]:
    """What any reader of the table finds."""
    rows = rows_of(table)
    return sorted(zip(*(rows[name].to_pylist() for name in ("stream", "origin", "seq")), strict=True))


def vector_of(table: EntryTable) -> Positions:
    held = table.through(version_of(table))
    return {name: {origin: seq for origin, seq in row.items() if seq} for name, row in held.items()}
