"""What a commit to an archive added, and why one is refused: of a table, or of a directory of files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow.fs as filesystems

# The ledger of an archive of files.
PUBLISHED: Final = "_published.json"
PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
# What is in the directory of an archive of each kind.
MARKS: Final = {PARQUET: PUBLISHED, DELTA: "_delta_log", ICEBERG: "metadata"}


@dataclass(frozen=True)
class Published:
    """What a batch added: files, rows, bytes. All are zero if the archive already had it."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0


class ForeignQuery(Exception):
    """The directory was written by another query, or is an archive of another kind."""


def kind_of(files: Any, root: str) -> str:
    """The kind of the archive in a directory; empty if there is none."""
    for kind, name in MARKS.items():
        if files.get_file_info(f"{root}/{name}").type != filesystems.FileType.NotFound:
            return kind
    return ""


def refuse_others(files: Any, root: str, uri: str, kind: str) -> None:
    """Raise ForeignQuery if the directory is an archive of another kind."""
    found = kind_of(files, root)
    if found in ("", kind):
        return
    if found == PARQUET:
        raise ForeignQuery(f"{uri} is an archive of Parquet files: give another directory for a table")
    raise ForeignQuery(f"{uri} is a table: add --table {found}, or give another directory")


class UnreadableTable(Exception):
    """There is no table, or it has files that this package does not read; the text says what to do."""


class NoCatalog(UnreadableTable):
    """The catalogue that should have the table cannot be opened."""


class TableConflict(Exception):
    """Another writer has changed the table meanwhile."""


def conflict(uri: str) -> TableConflict:
    return TableConflict(
        f"another writer has changed {uri} meanwhile, so this one has published nothing more: let one archive job write"
        " to a table, then run it again; it goes on where the table ends"
    )


class ChangedType(Exception):
    """Rows have another type than a column of the table."""


def changed_type(uri: str, column: str, held: str, given: str) -> ChangedType:
    return ChangedType(
        f"column {column} of {uri} is {held}, and the rows have {given}: a table's columns keep their types. Give the"
        " column another name in the schema, or archive to another directory"
    )
