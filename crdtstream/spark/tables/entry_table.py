"""What jobs need of a table, whatever its format: they know neither Delta nor Iceberg.

A job reads a **version** of the table, has Spark's workers write files, and commits them to that version together with
a vector. Only the format knows what a version is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final
from uuid import uuid4

import pyarrow as pa

from crdtstream.spark.offsets import Positions
from crdtstream.spark.tables.commits import Published, UnreadableTable, refuse_others
from crdtstream.spark.tables.files import TableFile
from crdtstream.spark.tables.stores import files_at
from crdtstream.spark.tables.writing import WrittenFile

PARTITIONED_BY: Final = ["stream", "date"]
DATA: Final = "data"
# What a commit carries: the vector up to which the table holds everything.
THROUGH: Final = "crdtstream.through"


class EntryTable(ABC):
    """One table of streams at a path or URI; `storage` are options of its object store."""

    kind: ClassVar[str]

    def __init__(self, uri: str, storage: Mapping[str, str] | None = None) -> None:
        self.uri = uri.rstrip("/")
        self.storage = dict(storage or {})
        self._files, self._root = files_at(self.uri, self.storage)

    def refuse_others(self) -> None:
        """Raise ForeignQuery if the directory is an archive of another kind."""
        refuse_others(self._files, self._root, self.uri, self.kind)

    def new_attempt(self) -> str:
        """The URI of a directory for the files of one attempt."""
        return f"{self.uri}/{DATA}/{uuid4()}"

    @abstractmethod
    def table(self) -> Any | None:
        """The latest version; None if there is no table yet."""

    def latest(self) -> Any:
        """The latest version. Raises UnreadableTable if there is no table."""
        table = self.table()
        if table is None:
            raise UnreadableTable(
                f"there is no table at {self.uri}: name the directory that archive --table has written, and for an"
                " Iceberg table in a catalogue the same --catalog"
            )
        return table

    @abstractmethod
    def as_of(self, moment: str) -> Any:
        """The version with this number, or the latest one at this ISO time. Raises UnreadableTable."""

    @abstractmethod
    def version_of(self, table: Any) -> int:
        """The number of this version."""

    @abstractmethod
    def opened(self, schema: pa.Schema) -> Any:
        """The latest version, made or extended so that rows of this schema fit. Raises TableConflict, or
        ChangedType.
        """

    @abstractmethod
    def columns(self, table: Any) -> pa.Schema:
        """The columns of this version."""

    @abstractmethod
    def through(self, table: Any) -> Positions:
        """The vector up to which this version holds everything."""

    @abstractmethod
    def files(self, table: Any) -> list[TableFile]:
        """The files of this version. Raises UnreadableTable."""

    @abstractmethod
    def publish(self, table: Any, written: Sequence[WrittenFile], through: Positions) -> Published:
        """Commit files to this version, which then holds up to that vector. Raises TableConflict."""

    @abstractmethod
    def delete(self, table: Any, places: pa.Table) -> int:
        """Delete the rows at these places (columns `stream`, `origin`, `seq`); return how many. Raises
        TableConflict.
        """

    @abstractmethod
    def compact(self) -> int:
        """Merge small files of a partition; return how many are gone. Raises TableConflict."""


def moment_of(text: str) -> datetime:
    """An ISO time, in UTC unless it says otherwise."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UnreadableTable(
            f"--as-of {text} is neither the number of a version, nor an ISO time, nor latest: write it as"
            " 2026-11-27T06:00, in UTC, or as the table's history has it"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def no_version(uri: str, moment: str, error: object) -> UnreadableTable:
    return UnreadableTable(f"{uri} has no version of {moment}: name one of the table's history ({error})")


def published(written: Sequence[WrittenFile]) -> Published:
    return Published(len(written), sum(file.rows for file in written), sum(file.size_bytes for file in written))
