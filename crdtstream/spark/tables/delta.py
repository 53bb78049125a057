"""An archive that is a Delta table: Spark's workers write its files, and `deltalake` commits them without a JVM.

    URI/data/ATTEMPT/....parquet    what an attempt at a batch has written
    URI/_delta_log/                 which of the files count
    URI/_checkpoint/                of the query

The table holds up to a **vector**, a seq for each origin of each stream, all entries of the merged streams but for
those that were removed before they were read. Each commit carries the vector. It is made for the version that was read:
if another writer was faster, it fails. The files of an attempt that was killed are in no commit; VACUUM removes them.

A table whose log has been cleaned up after commits of other tools says no vector: then the highest seqs in it are it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from crdtstream.spark.offsets import Positions, from_json, offset_of
from crdtstream.spark.tables.commits import DELTA, Published, UnreadableTable, changed_type, conflict
from crdtstream.spark.tables.entry_table import PARTITIONED_BY, THROUGH, EntryTable, moment_of, no_version, published
from crdtstream.spark.tables.files import TableFile, highest
from crdtstream.spark.tables.writing import WrittenFile

COMMITS_LOOKED_AT: Final = 1_000


class DeltaArchive(EntryTable):
    """The table at a path or URI; `storage` are options of its object store, as deltalake has them."""

    kind = DELTA

    def table(self) -> DeltaTable | None:
        if not DeltaTable.is_deltatable(self.uri, self.storage):
            return None
        return DeltaTable(self.uri, storage_options=self.storage)

    def as_of(self, moment: str) -> DeltaTable:
        wanted = int(moment) if moment.isdecimal() else moment_of(moment)
        try:
            table = DeltaTable(self.uri, storage_options=self.storage)
            table.load_as_version(wanted)
        except DeltaError as error:
            raise no_version(self.uri, moment, error) from error
        # Of a time before the first version deltalake loads the first.
        if isinstance(wanted, datetime) and table.history(1)[0]["timestamp"] > wanted.timestamp() * 1000:
            raise no_version(self.uri, moment, "it is younger")
        return table

    def version_of(self, table: DeltaTable) -> int:
        return int(table.version())

    def columns(self, table: DeltaTable) -> pa.Schema:
        return pa.schema(table.schema().to_arrow())

    def opened(self, schema: pa.Schema) -> DeltaTable:
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
            storage_options=self.storage,
            commit_properties=carrying({}),
        )

    def through(self, table: DeltaTable) -> Positions:
        return through(table)

    def files(self, table: DeltaTable) -> list[TableFile]:
        return files_in(table)

    def publish(self, table: DeltaTable, written: Sequence[WrittenFile], through: Positions) -> Published:
        actions = [self._action(file) for file in written]
        try:
            table.create_write_transaction(
                [*actions], "append", table.schema(), PARTITIONED_BY, commit_properties=carrying(through)
            )
        except CommitFailedError as error:
            raise conflict(self.uri) from error
        return published(written)

    def _action(self, file: WrittenFile) -> AddAction:
        """What the log says of a file."""
        path = file.uri.removeprefix(f"{self.uri}/")
        values = {"stream": file.stream, "date": str(file.date)}
        stats = json.dumps({"numRecords": file.rows})
        return AddAction(path, file.size_bytes, values, int(time.time() * 1000), True, stats)

    def delete(self, table: DeltaTable, places: pa.Table) -> int:
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
        # The commit says no vector: it is made also if another writer was faster, and must not take that one's back.
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
    return CommitProperties({THROUGH: json.dumps(offset_of(positions))}, max_commit_retries=0)


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
    return highest(files_in(table))


def files_in(table: DeltaTable) -> list[TableFile]:
    """The files of this version. Raises UnreadableTable."""
    if pa.table(table.deletion_vectors()).num_rows:
        raise UnreadableTable(
            f"{table.table_uri} has deletion vectors, which are not read here: purge them with REORG TABLE"
        )
    root = table.table_uri.rstrip("/")
    # Delta knows no empty text among the values that tables are partitioned by.
    return [
        TableFile(f"{root}/{action['path']}", action["partition.stream"] or "", action["num_records"] or 0)
        for action in pa.table(table.get_add_actions(flatten=True)).to_pylist()
    ]
