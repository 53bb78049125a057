"""A table by its format, or by what is at its place. A format's packages are imported only where it is used."""

from __future__ import annotations

from collections.abc import Mapping

from crdtstream.spark.tables.commits import ICEBERG, PARQUET, UnreadableTable, kind_of
from crdtstream.spark.tables.entry_table import EntryTable
from crdtstream.spark.tables.stores import files_at


def table_of(kind: str, uri: str, storage: Mapping[str, str] | None = None, catalog: str = "") -> EntryTable:
    """The table of this format; a catalogue is Iceberg's alone."""
    if kind == ICEBERG:
        from crdtstream.spark.tables.iceberg import IcebergArchive

        return IcebergArchive(uri, storage, catalog)
    from crdtstream.spark.tables.delta import DeltaArchive

    return DeltaArchive(uri, storage)


def table_at(uri: str, storage: Mapping[str, str] | None = None, catalog: str = "") -> EntryTable:
    """The table at this place, whatever its format. Raises UnreadableTable if it is an archive of files."""
    kind = ICEBERG if catalog else kind_at(uri, storage)
    if kind == PARQUET:
        raise UnreadableTable(
            f"{uri} is an archive of Parquet files, which have neither versions nor a vector: name a table that archive"
            " --table has written. replay and report read files, too"
        )
    return table_of(kind, uri, storage, catalog)


def archive_at(uri: str, storage: Mapping[str, str] | None = None, catalog: str = "") -> EntryTable | str:
    """The table at this place; where there is none, the place itself, which may hold an archive of files."""
    if catalog or kind_at(uri, storage) not in ("", PARQUET):
        return table_at(uri, storage, catalog)
    return uri


def kind_at(uri: str, storage: Mapping[str, str] | None = None) -> str:
    """The kind of the archive at a path or URI; empty if there is none."""
    return kind_of(*files_at(uri.rstrip("/"), storage or {}))
