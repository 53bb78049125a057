"""The client against a real region: the fake of these tests and the engine keep the same contract."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StringType, StructField, StructType

from crdtstream.processes.ports import free_port
from crdtstream.spark import writer as writer_module
from crdtstream.spark.losses import DataLoss
from crdtstream.spark.offsets import origin_text
from crdtstream.spark.options import Options
from crdtstream.spark.reader import BatchReader, BulkStreamReader
from crdtstream.spark.regions import BulkError
from crdtstream.spark.sharded import client_of
from crdtstream.spark.writer import BatchWriter
from tests.running_region import config_of, running
from tests.runtime.speakers import certificate, needs_openssl
from tests.spark.support import FAST, rows_of, schema_of, values_of

FLAT = StructType([StructField("stream", StringType()), StructField("f", StringType())])
ALL = ReadAllAvailable()


class OneTask:
    """The context of a writer's task."""

    def partitionId(self) -> int:
        return 0


def write(options: dict[str, str], *values: str, stream: str = "s") -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"stream": [stream] * len(values), "f": list(values)})

    writer = BatchWriter(Options(options), FLAT, False)
    writer.commit([writer.write(batches())])


def stream_reader(options: dict[str, str], **given: str) -> BulkStreamReader:
    return BulkStreamReader(Options({**options, "startingOffsets": "earliest", **given}), schema_of())


def read(reader: Any, start: Any, end: Any) -> list[bytes]:
    return values_of(rows_of(reader, reader.partitions(start, end)))


def everything(options: dict[str, str], **given: str) -> list[bytes]:
    reader = BatchReader(Options({**options, **given}), schema_of())
    return values_of(rows_of(reader, reader.partitions()))


async def test_rows_go_in_and_come_out_of_a_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "context", OneTask)
    config = config_of(tmp_path, bulk_port=free_port())
    options = {"endpoints": f"127.0.0.1:{config.bulk_port}", **FAST}
    async with running(config) as region:
        wire = await region.connect()
        await asyncio.to_thread(write, options, *map(str, range(1000)))
        await asyncio.to_thread(write, {**options, "txnAppId": "job", "txnVersion": "1"}, "once", stream="t")
        await asyncio.to_thread(write, {**options, "txnAppId": "job", "txnVersion": "1"}, "once", stream="t")
        assert await wire.ask("XLEN", "s") == b":1000\r\n"
        assert await wire.ask("XLEN", "t") == b":1\r\n"
        await asyncio.to_thread(check_reads, options)
        await asyncio.to_thread(check_group, options)
        assert await wire.ask("XTRIM", "s", "MAXLEN", "10") == b":990\r\n"
        await asyncio.to_thread(check_loss, options)


def check_reads(options: dict[str, str]) -> None:
    numbers = [b"%d" % number for number in range(1000)]
    assert everything(options, streams="s", minPartitions="7") == numbers
    # The ledger of the sink is a stream too.
    assert sorted(everything(options, streamsPattern="*")) == sorted([*numbers, b"once"])
    reader = stream_reader(options, streamsPattern="*", maxOffsetsPerTrigger="301")
    offset: Any = reader.initialOffset()
    assert set(offset) == {"s", "t"}
    seen: list[bytes] = []
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(301)
    while (end := reader.latestOffset(offset, limit)) != offset:
        values = read(reader, offset, end)
        assert 0 < len(values) <= 301
        offset, seen = end, seen + values
    assert sorted(seen) == sorted([*numbers, b"once"])
    # A stream without a position counts as a whole.
    end = reader.latestOffset({}, ReadMaxRows(301))
    assert len(read(reader, {}, end)) == 301


def check_group(options: dict[str, str]) -> None:
    reader = stream_reader(options, streams="s", ackGroup="g")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.commit(end)
    (frontier,) = frontiers(options)
    assert (frontier.group, frontier.pending) == (b"g", 0)
    (acknowledged,) = frontier.acknowledged
    assert acknowledged.seq >= end["s"][origin_text(acknowledged.origin)]


def frontiers(options: dict[str, str]) -> list[Any]:
    return list(client_of(Options(options)).frontiers(["s"], ""))


def check_loss(options: dict[str, str]) -> None:
    reader = stream_reader(options, streams="s")
    end = reader.latestOffset({}, ALL)
    with pytest.raises(DataLoss, match=r"stream 's', origin 1\.[0-9a-f]+, seq 1 to \d+"):
        reader.partitions({}, end)
    lenient = stream_reader(options, streams="s", failOnDataLoss="false")
    assert len(read(lenient, {}, end)) == 10


async def test_a_password_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, bulk_port=free_port(), requirepass="hush")
    options = {"endpoints": f"127.0.0.1:{config.bulk_port}", "streams": "s", **FAST}
    monkeypatch.setenv("BULK_PASSWORD", "hush")
    async with running(config):
        assert await asyncio.to_thread(everything, {**options, "passwordEnv": "BULK_PASSWORD"}) == []
        with pytest.raises(BulkError, match="UNAUTHENTICATED: the bulk port has a password"):
            await asyncio.to_thread(everything, options)


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    for name in ("authority", "stranger"):
        certificate(tmp_path, name, None)
    for name, signer in (("east", "authority"), ("ann", "authority"), ("forged", "stranger")):
        certificate(tmp_path, name, signer, 1)
    return tmp_path


@needs_openssl
async def test_tls_and_a_user(tmp_path: Path, tls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutual: the port asks for a certificate, and it is renewed after the region did not let the old one in."""
    served = {"tls_certificate": "east.pem", "tls_key": "east.key", "tls_authority": "authority.pem"}
    files: dict[str, Any] = {name: str(tls / file) for name, file in served.items()}
    (tmp_path / "users.acl").write_text("user default off\nuser ann on >hüsh +@all ~*\n")
    config = config_of(tmp_path, bulk_port=free_port(), bulk_tls=True, aclfile=str(tmp_path / "users.acl"), **files)
    monkeypatch.setenv("BULK_PASSWORD", "hüsh")
    own = {"tlsCaFile": "authority.pem", "tlsCertFile": "own.pem", "tlsKeyFile": "own.key"}
    options = {"endpoints": f"127.0.0.1:{config.bulk_port}", "streams": "s", "tls": "true", **FAST}
    options |= {name: str(tls / file) for name, file in own.items()}
    named = {**options, "user": "ann", "passwordEnv": "BULK_PASSWORD"}
    install(tls, "forged")
    async with running(config):
        with pytest.raises(BulkError, match=r"no region answers.*UNAVAILABLE"):
            await asyncio.to_thread(everything, named)
        install(tls, "ann")
        await asyncio.to_thread(eventually_nothing, named)
        with pytest.raises(BulkError, match="UNAUTHENTICATED"):
            await asyncio.to_thread(everything, options)


def install(tls: Path, name: str) -> None:
    for suffix in ("pem", "key"):
        (tls / f"own.{suffix}").write_bytes((tls / f"{name}.{suffix}").read_bytes())


def eventually_nothing(options: dict[str, str]) -> None:
    """A region that is down is asked again after a second, by a probe."""
    for _ in range(30):
        try:
            assert everything(options) == []
            return
        except BulkError as error:
            assert "UNAVAILABLE" in str(error)
            time.sleep(0.2)
    raise AssertionError("the renewed certificate is not used")
