"""A table by its format, or by what is at its place. A format's packages are imported only where it is used."""

from __future__ import annotations

from collections.abc import Mapping

from crdtstream.spark.tables.commits import ICEBERG, kind_of
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
    """The table at this place, whatever its format."""
    kind = ICEBERG if catalog else kind_of(*files_at(uri.rstrip("/"), storage or {}))
    return table_of(kind, uri, storage, catalog)
