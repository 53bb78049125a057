"""An archive that is an Iceberg table: Spark's workers write its files, and `pyiceberg` commits them without a JVM.

    URI/data/ATTEMPT/....parquet    what an attempt at a batch has written
    URI/metadata/                   which of the files count
    URI/catalog.db                  which metadata is the latest, unless another catalogue is named
    URI/_checkpoint/                of the query

The vector up to which the table holds everything is a property of its snapshots. A commit is made for the snapshot that
was read. pyiceberg would repeat one that another writer has overtaken on top of that writer's, with the same rows twice
and the lower vector: here it does not.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as parquet
from pyarrow.fs import FileType
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError, ValidationException
from pyiceberg.expressions import And, BooleanExpression, EqualTo, In, Or, Reference
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.typedef import Record
from pyiceberg.utils.datetime import date_to_days

from crdtstream.spark.offsets import Positions, from_json, offset_of
from crdtstream.spark.tables.commits import ICEBERG, NoCatalog, Published, UnreadableTable, changed_type, conflict
from crdtstream.spark.tables.entry_table import PARTITIONED_BY, THROUGH, EntryTable, moment_of, no_version, published
from crdtstream.spark.tables.files import TableFile, batches_of, highest, schema_in
from crdtstream.spark.tables.stores import for_pyiceberg
from crdtstream.spark.tables.writing import FileWriter, WrittenFile

NAMESPACE: Final = "crdtstream"
CATALOG: Final = "catalog.db"
SMALL_BYTES: Final = 32 << 20
# A job commits every few seconds: one manifest for each commit, and all that came before, would be read by each query.
PROPERTIES: Final = {
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
}


class IcebergArchive(EntryTable):
    """The table `crdtstream.NAME` at a path or URI that ends with NAME; `catalog` is the name that pyiceberg's settings
    give to a catalogue, instead of the file in the directory.
    """

    kind = ICEBERG

    def __init__(self, uri: str, storage: Mapping[str, str] | None = None, catalog: str = "") -> None:
        super().__init__(uri if "://" in uri else f"file://{os.path.abspath(uri)}", storage)
        if not catalog and not self.uri.startswith("file://"):
            raise UnreadableTable(
                f"{self.uri} is on an object store, and a catalogue in a file is not: name one of pyiceberg's settings"
                " with --catalog"
            )
        self._catalog_name = catalog
        self.identifier = (NAMESPACE, self.uri.rpartition("/")[2])

    @cached_property
    def _catalog(self) -> Catalog:
        if self._catalog_name:
            return self._named(self._catalog_name)
        return load_catalog(
            NAMESPACE, type="sql", uri=f"sqlite:///{self._root}/{CATALOG}", **for_pyiceberg(self.storage)
        )

    def _named(self, name: str) -> Catalog:
        try:
            return load_catalog(name, **for_pyiceberg(self.storage))
        except ValueError as error:
            raise NoCatalog(f"pyiceberg cannot open the catalogue {name}: {error}") from error

    def table(self) -> Table | None:
        # Opening a file that is not there would make it.
        if not self._catalog_name and self._files.get_file_info(f"{self._root}/{CATALOG}").type == FileType.NotFound:
            return None
        try:
            table = self._catalog.load_table(self.identifier)
        except NoSuchTableError:
            return None
        # Of this object alone: a commit that another writer has overtaken fails.
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        return table

    def as_of(self, moment: str) -> Table:
        table = self.table()
        if table is None:
            raise no_version(self.uri, moment, "there is no table")
        snapshot = (
            table.snapshot_by_id(int(moment))
            if moment.isdecimal()
            else table.snapshot_as_of_timestamp(int(moment_of(moment).timestamp() * 1000))
        )
        if snapshot is None:
            raise no_version(self.uri, moment, "no snapshot")
        table.metadata = table.metadata.model_copy(update={"current_snapshot_id": snapshot.snapshot_id})
        return table

    def version_of(self, table: Table) -> int:
        snapshot = table.current_snapshot()
        return 0 if snapshot is None else snapshot.snapshot_id

    def columns(self, table: Table) -> pa.Schema:
        return schema_to_pyarrow(table.schema(), include_field_ids=False)

    def opened(self, schema: pa.Schema) -> Table:
        with self._conflicts():
            table = self.table()
            if table is None:
                self._create(schema)
            else:
                refuse_changed(self.uri, table, schema)
                held = {field.name for field in table.schema().fields}
                added = [each for each in schema if each.name not in held]
                if not added:
                    return table
                with table.update_schema() as update:
                    update.union_by_name(pa.schema(added))
        opened = self.table()
        assert opened is not None, f"{self.uri} is a table now"
        return opened

    def _create(self, schema: pa.Schema) -> None:
        self._files.create_dir(self._root, recursive=True)
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        made = self._catalog.create_table_transaction(self.identifier, schema, location=self.uri, properties=PROPERTIES)
        with made:
            with made.update_spec() as partitions:
                for name in PARTITIONED_BY:
                    partitions.add_identity(name)
            # Files have no field IDs: this finds their columns by name.
            names = made.table_metadata.schema().name_mapping.model_dump_json()
            made.set_properties({TableProperties.DEFAULT_NAME_MAPPING: names})

    def through(self, table: Table) -> Positions:
        for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
            summary = snapshot.summary
            if summary is not None and THROUGH in summary.additional_properties:
                return from_json(json.loads(summary.additional_properties[THROUGH]))
        return highest(self.files(table), self.storage)

    def files(self, table: Table) -> list[TableFile]:
        tasks = list(table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise UnreadableTable(
                f"{self.uri} has files of deletes, which are not read here: rewrite its data files with Spark or Trino"
            )
        # The name of a stream is the first of the values that the table is partitioned by.
        return [TableFile(task.file.file_path, task.file.partition[0], task.file.record_count) for task in tasks]

    def publish(self, table: Table, written: Sequence[WrittenFile], through: Positions) -> Published:
        vector = carrying(through)
        with self._conflicts(), table.transaction() as made, made.update_snapshot(vector).merge_append() as added:
            for file in written:
                added.append_data_file(described(table, file))
        return published(written)

    def delete(self, table: Table, places: pa.Table) -> int:
        before = rows_in(table)
        with self._conflicts():
            table.delete(one_of(places), snapshot_properties=carrying(self.through(table)))
        return before - rows_in(table)

    def compact(self) -> int:
        # pyiceberg merges no files itself. The commit says no vector: what the table holds stays the same.
        table = self.table()
        groups = [] if table is None else small_files(table)
        if table is None or not groups:
            return 0
        with self._conflicts(), table.transaction() as made, made.update_snapshot().overwrite() as change:
            for group in groups:
                for gone in group:
                    change.delete_data_file(gone)
                for file in self._merged(group):
                    change.append_data_file(described(table, file))
        return sum(len(group) for group in groups)

    def _merged(self, group: Sequence[DataFile]) -> Iterator[WrittenFile]:
        """Write one file with the rows of all these, which have stream and day in common."""
        files = [TableFile(each.file_path, each.partition[0], each.record_count) for each in group]
        schema = pa.unify_schemas([schema_in(file, self.storage) for file in files], promote_options="permissive")
        parts = (part for file in files for part in batches_of(file, schema.names, self.storage))
        for row in FileWriter(self.new_attempt(), schema, self.storage)(parts):
            yield from (WrittenFile(**each) for each in row.to_pylist())

    @contextmanager
    def _conflicts(self) -> Iterator[None]:
        try:
            yield
        except (CommitFailedException, TableAlreadyExistsError, ValidationException) as error:
            raise conflict(self.uri) from error


def carrying(positions: Positions) -> dict[str, str]:
    """The properties of a snapshot with this vector."""
    return {THROUGH: json.dumps(offset_of(positions))}


def refuse_changed(uri: str, table: Table, schema: pa.Schema) -> None:
    """pyiceberg would refuse some other types of a column by errors of its own, and change the table for others."""
    held = {each.name: plain_type(each.type) for each in schema_to_pyarrow(table.schema(), include_field_ids=False)}
    for each in schema:
        given = plain_type(each.type)
        if held.get(each.name, given) != given:
            raise changed_type(uri, each.name, held[each.name], given)


def plain_type(kind: pa.DataType) -> str:
    """The type as text. Iceberg knows no integers of less than 32 bits, and pyiceberg reads texts as large ones."""
    return re.sub(r"\bint(8|16)\b", "int32", str(kind)).replace("large_", "")


def small_files(table: Table) -> list[list[DataFile]]:
    """Small files that have a partition in common; not those that deletes refer to."""
    groups: dict[tuple[str, int], list[DataFile]] = defaultdict(list)
    for task in table.scan().plan_files():
        if not task.delete_files and task.file.file_size_in_bytes < SMALL_BYTES:
            groups[task.file.partition[0], task.file.partition[1]].append(task.file)
    return [group for group in groups.values() if len(group) > 1]


def described(table: Table, file: WrittenFile) -> DataFile:
    """What a manifest says of a file."""
    with table.io.new_input(file.uri).open() as opened:
        footer = parquet.read_metadata(opened)
    schema = table.schema()
    statistics = data_file_statistics_from_parquet_metadata(
        footer, compute_statistics_plan(schema, table.properties), parquet_path_to_id_mapping(schema)
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.uri,
        file_format=FileFormat.PARQUET,
        # `add_files` of pyiceberg reads this from statistics, which lack names of more than 4 KiB.
        partition=Record(file.stream, date_to_days(file.date)),
        file_size_in_bytes=file.size_bytes,
        spec_id=table.spec().spec_id,
        **statistics.to_serialized_dict(),
    )


def rows_in(table: Table) -> int:
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    return int(snapshot.summary.additional_properties["total-records"])


def one_of(places: pa.Table) -> BooleanExpression:
    """True of the rows at these places."""
    origins: Any = places.group_by(["stream", "origin"]).aggregate([("seq", "list")])
    same = [
        And(equal("stream", row["stream"]), equal("origin", row["origin"]), among("seq", row["seq_list"]))
        for row in origins.to_pylist()
    ]
    return same[0] if len(same) == 1 else Or(*same)


def equal(name: str, value: Any) -> BooleanExpression:
    return EqualTo(term=Reference(name), value=value)


def among(name: str, values: Sequence[Any]) -> BooleanExpression:
    return In(term=Reference(name), values=set(values))
