"""Tables in an object store: files, commits and what is read of them, in a server of S3 on loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("moto.server")

import pyarrow.fs as filesystems

from crdtstream.processes.ports import free_port
from crdtstream.processes.waiting import until
from crdtstream.spark.jobs.report import report
from crdtstream.spark.jobs.table_archive import checkpoint_of
from crdtstream.spark.jobs.table_audit import TableAudited, audit_table
from crdtstream.spark.offsets import parse_origin
from crdtstream.spark.tables.commits import TableConflict
from crdtstream.spark.tables.entry_table import EntryTable
from crdtstream.spark.tables.files import batches_of
from crdtstream.spark.tables.opening import table_at, table_of
from crdtstream.spark.tables.stores import files_at
from crdtstream.spark.tables.writing import FileWriter, WrittenFile
from tests.spark.fake_regions import Regions
from tests.spark.jobs.streams import archive_to, filled, source
from tests.spark.tables.files import ORIGIN, SCHEMA, batch_of, places_of
from tests.spark.tables.formats import FORMATS, Made, vector_of, version_of

URI = "s3://lake/orders"


@pytest.fixture
def storage() -> Iterator[dict[str, str]]:
    """The options of a store with an empty bucket."""
    port = free_port()
    # A process of its own: a call of deltalake keeps the threads of this one waiting.
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    options = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "user",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    store = filesystems.S3FileSystem(
        endpoint_override=options["AWS_ENDPOINT_URL"],
        access_key="user",
        secret_key="secret",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    try:
        until(lambda: is_open(port), "the server of S3 listens", 60)
        store.create_dir("lake")
        yield options
    finally:
        server.kill()
        server.wait()


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, storage: dict[str, str], tmp_path: Path) -> EntryTable:
    made: Made = request.param
    if made.kind == "iceberg":
        storage["uri"] = f"sqlite:///{tmp_path}/lake.db"
    return table_of(made.kind, URI, storage, "lake" if made.kind == "iceberg" else "")


def publish(table: EntryTable, version: object, *seqs: int) -> None:
    files = FileWriter(table.new_attempt(), SCHEMA, table.storage)(iter([batch_of("a", *seqs)]))
    written = [WrittenFile(**row) for each in files for row in each.to_pylist()]
    table.publish(version, written, {"a": {parse_origin(ORIGIN): max(seqs)}})


def seqs_of(table: EntryTable) -> list[int]:
    files = table.files(version_of(table))
    parts = [part for file in files for part in batches_of(file, ["seq"], table.storage)]
    return sorted(row["seq"] for part in parts for row in part.to_pylist())


def test_a_table_is_written_read_merged_and_deleted_from(table: EntryTable) -> None:
    assert table.table() is None
    for seq in (1, 2, 3):
        publish(table, table.opened(SCHEMA), seq)
    assert (seqs_of(table), vector_of(table)) == ([1, 2, 3], {"a": {parse_origin(ORIGIN): 3}})
    assert table.compact() == 3 and len(table.files(version_of(table))) == 1
    assert table.delete(version_of(table), places_of("a", 2)) == 1
    assert (seqs_of(table), vector_of(table)) == ([1, 3], {"a": {parse_origin(ORIGIN): 3}})
    found = table_at(URI, table.storage, "lake" if table.kind == "iceberg" else "")
    assert found.kind == table.kind and seqs_of(found) == [1, 3]


def test_of_two_writers_one_wins(table: EntryTable) -> None:
    version = table.opened(SCHEMA)
    publish(table, table.opened(SCHEMA), 1)
    with pytest.raises(TableConflict):
        publish(table, version, 1)
    assert seqs_of(table) == [1]


@pytest.mark.timeout(400)
def test_jobs_write_to_a_store_and_read_it(spark: Any, regions: Regions, table: EntryTable) -> None:
    filled(regions)
    for rows in (20, 4):
        # A run has a checkpoint of its own, so the second one begins where the table ends.
        assert archive_to(table, spark, regions).rows == rows
        filled(regions, 1)
    assert audit_table(spark, source(regions), table) == TableAudited(24, 0, [])
    assert sum(row.entries for row in report(spark, table)) == 24


def test_without_options_a_place_is_found_as_pyarrow_finds_it(tmp_path: Path) -> None:
    files, path = files_at(str(tmp_path), {"AWS_REGION": "us-east-1"})
    assert (files.type_name, path) == ("local", str(tmp_path))


def test_a_run_that_writes_to_a_store_has_a_checkpoint_of_its_own() -> None:
    assert checkpoint_of("/archive") == checkpoint_of("/archive") == "/archive/_checkpoint"
    assert checkpoint_of("file:///archive") == "file:///archive/_checkpoint"
    first, second = checkpoint_of(URI), checkpoint_of(URI)
    assert first != second and Path(first.removeprefix("file://")).is_dir()
