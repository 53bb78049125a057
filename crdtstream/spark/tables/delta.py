"""An archive that is a Delta table: Spark's executors write its files, and `deltalake` commits them without a JVM.

    URI/data/ATTEMPT/part=.../part-....parquet      what an attempt at a batch has written
    URI/_delta_log/                                 which of the files count
    URI/_checkpoint/                                of the query

The table holds up to a **vector**, a seq for each origin of each stream, all entries of the merged streams but for
those that were removed before they were read. Each commit carries the vector. It is made for the version that was read:
if another writer was faster, it fails. The files of an attempt that was killed are in no commit; VACUUM removes them.

A table whose log has been cleaned up after commits of other tools says no vector: then the highest seqs in it are it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as filesystems
import pyarrow.parquet as parquet
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from crdtstream.spark.ack import files_of
from crdtstream.spark.offsets import Positions, from_json, parse_origin, to_json
from crdtstream.spark.tables.commits import PUBLISHED, ForeignQuery, Published, UnreadableTable, changed_type, conflict
from crdtstream.spark.tables.files import TableFile

PARTITIONED_BY: Final = ["stream", "date"]
DATA: Final = "data"
THROUGH: Final = "crdtstream.through"
COMMITS_LOOKED_AT: Final = 1_000


class DeltaArchive:
    """The table at a path or URI; `storage` are options of its object store, as deltalake has them."""

    def __init__(self, uri: str, storage: Mapping[str, str] | None = None) -> None:
        self.uri = uri.rstrip("/")
        self._storage = dict(storage or {})
        self._files, self._root = files_of(self.uri)

    def table(self) -> DeltaTable | None:
        """The table as it is now; None if there is none yet."""
        if not DeltaTable.is_deltatable(self.uri, self._storage):
            return None
        return DeltaTable(self.uri, storage_options=self._storage)

    def opened(self, schema: pa.Schema) -> DeltaTable:
        """The table as it is now, made or extended so that rows of this schema fit. Raises TableConflict, or
        ChangedType.
        """
        table = self.table()
        if table is not None:
            refuse_changed(self.uri, table, schema)
        try:
            if table is None:
                self._create(schema)
            else:
                added = [each for each in schema if each.name not in names_of(table)]
                if not added:
                    return table
                table.alter.add_columns(Schema.from_arrow(pa.schema(added)).fields)
        except CommitFailedError as error:
            raise conflict(self.uri) from error
        opened = self.table()
        assert opened is not None, f"{self.uri} is a table now"
        return opened

    def _create(self, schema: pa.Schema) -> None:
        self._files.create_dir(self._root, recursive=True)
        DeltaTable.create(
            self.uri,
            schema,
            mode="ignore",
            partition_by=PARTITIONED_BY,
            storage_options=self._storage,
            commit_properties=carrying({}),
        )

    def refuse_files(self) -> None:
        """Raise ForeignQuery if the directory is an archive of files."""
        if self._files.get_file_info(f"{self._root}/{PUBLISHED}").type != filesystems.FileType.NotFound:
            raise ForeignQuery(f"{self.uri} is an archive of Parquet files: give another directory for a table")

    def new_attempt(self) -> str:
        """The URI of a directory for the files of one attempt."""
        return f"{self.uri}/{DATA}/{uuid4()}"

    def publish(self, table: DeltaTable, attempt: str, through: Positions) -> Published:
        """Commit the files of an attempt to this version of the table, which then holds up to that vector. Raises
        TableConflict.
        """
        actions = [self._action(info) for info in self._written(attempt)]
        try:
            table.create_write_transaction(
                [*actions], "append", table.schema(), PARTITIONED_BY, commit_properties=carrying(through)
            )
        except CommitFailedError as error:
            raise conflict(self.uri) from error
        rows = sum(json.loads(action.stats)["numRecords"] for action in actions)
        return Published(len(actions), rows, sum(action.size for action in actions))

    def _written(self, attempt: str) -> list[filesystems.FileInfo]:
        folder = str(PurePosixPath(self._root) / PurePosixPath(attempt).relative_to(self.uri))
        selector = filesystems.FileSelector(folder, allow_not_found=True, recursive=True)
        return [info for info in self._files.get_file_info(selector) if info.path.endswith(".parquet")]

    def _action(self, info: filesystems.FileInfo) -> AddAction:
        """What the log says of a file; the columns by which it is partitioned are in it, each with one value."""
        file = parquet.ParquetFile(info.path, filesystem=self._files)
        first = next(file.iter_batches(1, columns=PARTITIONED_BY)).to_pylist()[0]
        path = str(PurePosixPath(info.path).relative_to(self._root))
        values = {name: None if first[name] is None else str(first[name]) for name in PARTITIONED_BY}
        stats = json.dumps({"numRecords": file.metadata.num_rows})
        return AddAction(path, info.size, values, int(time.time() * 1000), True, stats)

    def delete(self, table: DeltaTable, places: pa.Table) -> int:
        """Delete the rows at these places (columns `stream`, `origin`, `seq`); return how many. Raises
        TableConflict.
        """
        same = " AND ".join(f"held.{name} = gone.{name}" for name in ("stream", "origin", "seq"))
        try:
            merge = table.merge(
                places, same, source_alias="gone", target_alias="held", commit_properties=carrying(through(table))
            )
            done = merge.when_matched_delete().execute()
        except CommitFailedError as error:
            raise conflict(self.uri) from error
        return int(done["num_target_rows_deleted"])

    def compact(self) -> int:
        """Merge small files of a partition; return how many are gone. Raises TableConflict.

        The commit says no vector: it is made also if another writer was faster, and must not take that one's back.
        """
        table = self.table()
        if table is None:
            return 0
        try:
            done = table.optimize.compact()
        except CommitFailedError as error:
            raise conflict(self.uri) from error
        return int(done["numFilesRemoved"])


def carrying(positions: Positions) -> CommitProperties:
    """A commit with this vector, which fails if the version that it was made for is not the latest."""
    return CommitProperties({THROUGH: json.dumps(to_json(positions))}, max_commit_retries=0)


def refuse_changed(uri: str, table: DeltaTable, schema: pa.Schema) -> None:
    """Files with another type of a column could be committed, and then not read."""
    held = {each.name: each.type for each in table.schema().fields}
    for each in Schema.from_arrow(schema).fields:
        if held.get(each.name, each.type) != each.type:
            raise changed_type(uri, each.name, plain_type(held[each.name]), plain_type(each.type))


def plain_type(kind: Any) -> str:
    return str(getattr(kind, "type", kind))


def names_of(table: DeltaTable) -> set[str]:
    return {each.name for each in table.schema().fields}


def through(table: DeltaTable) -> Positions:
    """The vector up to which this version of the table holds everything."""
    latest = table.version()
    for commit in table.history(COMMITS_LOOKED_AT):
        if commit["version"] > latest:
            continue
        if THROUGH in commit:
            return from_json(json.loads(commit[THROUGH]))
        if commit["operation"] == "RESTORE":
            restored = str(commit["operationParameters"].get("version", ""))
            if not restored.isdecimal():
                break
            latest = int(restored)
    return highest(table)


def highest(table: DeltaTable) -> Positions:
    """The highest seqs in the table."""
    found: Positions = {}
    rows: Any = table.to_pyarrow_dataset().scanner(columns=["stream", "origin", "seq"])
    for batch in rows.to_batches():
        groups = pa.Table.from_batches([batch]).group_by(["stream", "origin"]).aggregate([("seq", "max")])
        for row in groups.to_pylist():
            position = found.setdefault(row["stream"], {})
            origin = parse_origin(row["origin"])
            position[origin] = max(row["seq_max"], position.get(origin, 0))
    return found


def files_in(table: DeltaTable) -> list[TableFile]:
    """The files of this version. Raises UnreadableTable."""
    if pa.table(table.deletion_vectors()).num_rows:
        raise UnreadableTable(
            f"{table.table_uri} has deletion vectors, which are not read here: purge them with REORG TABLE"
        )
    root = table.table_uri.rstrip("/")
    # Delta knows no empty text among the values that tables are partitioned by.
    return [
        TableFile(f"{root}/{unquote(action['path'])}", action["partition.stream"] or "", action["num_records"] or 0)
        for action in pa.table(table.get_add_actions(flatten=True)).to_pylist()
    ]
