"""Streams that were deleted before they were read, in a real region: the query fails, whatever deleted them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.settings.config import Limits
from crdtstream.spark.losses import DataLoss
from crdtstream.spark.options import Options
from crdtstream.spark.reader import BatchReader, BulkStreamReader
from crdtstream.spark.sharded import ShardedClient
from tests.bulk.columns import entries_of, message_of
from tests.running_region import until
from tests.runtime.bulk_ports import SMALL, Port, rows, serving
from tests.spark.support import FAST, rows_of, schema_of

ALL = ReadAllAvailable()
Offset = dict[str, Any]


class Query:
    """A streaming query that calls its reader as Spark does, beside the loop of the region."""

    def __init__(self, port: Port, **options: str) -> None:
        address = port.region.loop._addresses["bulk"]
        self.options = Options({"endpoints": address, **FAST, **options})
        self.reader = BulkStreamReader(self.options, schema_of())
        self.offset: Offset = {}

    async def begin(self) -> None:
        self.offset = await asyncio.to_thread(self.reader.initialOffset)

    async def step(self) -> int:
        """One micro-batch; returns how many rows it has."""
        return await asyncio.to_thread(self._step)

    def _step(self) -> int:
        end = json.loads(json.dumps(self.reader.latestOffset(self.offset, ALL)))
        read = rows_of(self.reader, self.reader.partitions(self.offset, end))
        self.offset = end
        return len(read)

    def restarted(self, port: Port) -> Query:
        later = Query(port, **{name: self.options.given[name] for name in self.options.given if name != "endpoints"})
        later.offset = self.offset
        return later


@asynccontextmanager
async def reading(directory: Path, limits: Limits = SMALL, **options: str) -> AsyncIterator[tuple[Port, Query]]:
    async with serving(directory, limits) as port:
        await port.write(message_of(rows(30)))
        query = Query(port, **{"streams": "s", "startingOffsets": "earliest", **options})
        await query.begin()
        assert await query.step() == 30
        yield port, query


async def ask(port: Port, *words: str) -> bytes:
    return await (await port.region.connect()).ask(*words)


async def collected(port: Port, name: bytes = b"s") -> None:
    """The region has forgotten the tombstone."""
    keyspace = port.region.loop.node.replica.keyspace
    await until(lambda: (0, name) in keyspace.collection.deleted, "the stream is collected")


REMOVALS: dict[str, list[tuple[str, ...]]] = {
    "DEL": [("DEL", "s")],
    "UNLINK": [("UNLINK", "s")],
    "PEXPIRE": [("PEXPIRE", "s", "0")],
    "FLUSHALL": [("FLUSHALL",)],
    "RENAME": [("RENAME", "s", "other")],
    "RENAME over it": [("XADD", "other", "*", "f", "v"), ("RENAME", "other", "s")],
    "XTRIM and DEL": [("XTRIM", "s", "MAXLEN", "0"), ("DEL", "s")],
}


@pytest.mark.parametrize("commands", REMOVALS.values(), ids=REMOVALS)
async def test_unread_entries_that_are_gone_with_their_stream(tmp_path: Path, commands: list[tuple[str, ...]]) -> None:
    async with reading(tmp_path) as (port, query):
        await port.write(message_of(rows(70)))
        for command in commands:
            assert not (await ask(port, *command)).startswith(b"-")
        with pytest.raises(DataLoss, match=r"stream 's', origin .*, seq"):
            await query.step()
        await port.write(message_of(rows(5)))
        with pytest.raises(DataLoss):
            await query.step()
        with pytest.raises(DataLoss):
            await query.restarted(port).step()


async def test_it_is_known_after_collection_and_a_restart(tmp_path: Path) -> None:
    async with reading(tmp_path) as (port, query):
        await port.write(message_of(rows(70)))
        await ask(port, "DEL", "s")
        await collected(port)
        await ask(port, "SAVE")
        await port.write(message_of(rows(1), [b"other"]))
    async with serving(tmp_path) as port:
        with pytest.raises(DataLoss):
            await query.restarted(port).step()


async def test_what_was_read_before_its_deletion_is_no_loss(tmp_path: Path) -> None:
    async with reading(tmp_path) as (port, query):
        await ask(port, "DEL", "s")
        assert await query.step() == 0
        await collected(port)
        await port.write(message_of(rows(5)))
        assert await query.restarted(port).step() == 5
        assert await query.step() == 5


async def test_without_failure_the_query_goes_on_behind_the_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with reading(tmp_path, failOnDataLoss="false") as (port, query):
        await port.write(message_of(rows(70)))
        await ask(port, "DEL", "s")
        await port.write(message_of(rows(5)))
        assert await query.step() == 5
        assert "trimmed, or deleted with their stream, before they were read: stream 's'" in caplog.text


async def test_a_region_that_has_forgotten_the_deletion_says_so(tmp_path: Path) -> None:
    limits = Limits(stop_checkpoint_ms_max=0, deleted_streams_max=0)
    async with reading(tmp_path, limits) as (port, query):
        await port.write(message_of(rows(70)))
        await ask(port, "DEL", "s")
        await until(lambda: b"s" not in port.region.loop.node.replica.keyspace.databases[0], "the stream is forgotten")
        await port.write(message_of(rows(5)))
        with pytest.raises(DataLoss, match="perhaps: it was deleted and written again"):
            await query.step()


async def test_a_running_query_that_had_read_all_needs_no_memory_of_regions(tmp_path: Path) -> None:
    limits = Limits(stop_checkpoint_ms_max=0, deleted_streams_max=0)
    async with reading(tmp_path, limits) as (port, query):
        await ask(port, "XADD", "other", "*", "f", "v")
        assert await query.step() == 0
        await ask(port, "DEL", "s", "other")
        await until(lambda: not port.region.loop.node.replica.keyspace.collection.waiting, "both are forgotten")
        await port.write(message_of(rows(5)))
        assert await query.step() == 5


async def test_a_pattern_notices_a_stream_that_came_and_went(tmp_path: Path) -> None:
    """One that had gone before the query began is none of its streams."""
    async with serving(tmp_path) as port:
        await port.write(message_of(rows(3), [b"early"]))
        await ask(port, "DEL", "early")
        query = Query(port, streamsPattern="*")
        await query.begin()
        assert await query.step() == 0 and query.offset == {}
        await port.write(message_of(rows(3), [b"late"]))
        await ask(port, "DEL", "late")
        with pytest.raises(DataLoss, match="stream 'late'"):
            await query.step()


async def test_a_cluster_that_lost_its_disks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with reading(tmp_path / "one") as (_, query):
        pass
    async with serving(tmp_path / "two") as port:
        await port.write(message_of(rows(5)))
        with pytest.raises(DataLoss, match=r"names origins that no region knows: .* in stream 's'"):
            await query.restarted(port).step()
        lenient = Query(port, streams="s", failOnDataLoss="false")
        lenient.offset = query.offset
        assert await lenient.step() == 5
        assert "names origins that no region knows" in caplog.text


async def test_a_batch_from_a_position_of_a_deleted_stream(tmp_path: Path) -> None:
    async with reading(tmp_path) as (port, query):
        await port.write(message_of(rows(70)))
        await ask(port, "DEL", "s")
        given = {**query.options.given, "startingoffsets": json.dumps(query.offset)}
        with pytest.raises(DataLoss):
            await asyncio.to_thread(BatchReader(Options(given), schema_of()).partitions)
        earliest = BatchReader(Options({**given, "startingoffsets": "earliest"}), schema_of())
        assert await asyncio.to_thread(earliest.partitions) == []


async def test_what_is_deleted_between_plan_and_read(tmp_path: Path) -> None:
    async with reading(tmp_path) as (port, query):
        await port.write(message_of(rows(70)))
        end = await asyncio.to_thread(query.reader.latestOffset, query.offset, ALL)
        tasks = await asyncio.to_thread(query.reader.partitions, query.offset, end)
        await ask(port, "DEL", "s")
        with pytest.raises(DataLoss):
            await asyncio.to_thread(rows_of, query.reader, tasks)


async def test_a_read_says_what_was_removed_while_it_ran(tmp_path: Path) -> None:
    """More than a connection takes unread, and the client is slow: the rest is trimmed after the first message."""
    async with serving(tmp_path) as port:
        for _ in range(10):
            written = await port.write(message_of(rows(3_000)))
        client = ShardedClient(Options({"endpoints": port.region.loop._addresses["bulk"]}))
        interval = bulk.Interval(stream=b"s", origin=written.origin, after=0, through=written.last_seq)
        removed: list[int] = []
        entries: list[Any] = []

        def read(between: Callable[[], None]) -> None:
            for _, _, message in client.read([interval]):
                removed.append(message.removed)
                entries.extend(entries_of(message) if message.count else [])
                if len(removed) == 1:
                    between()

        loop = asyncio.get_running_loop()

        def trim() -> None:
            asyncio.run_coroutine_threadsafe(ask(port, "XTRIM", "s", "MAXLEN", "1"), loop).result()

        await asyncio.to_thread(read, trim)
        assert max(removed) == written.last_seq - 1
        assert entries[-1][0] == written.last_seq and len(entries) < 30_000


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
async def test_a_commit_to_a_group_of_a_deleted_stream(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, again: bool
) -> None:
    async with reading(tmp_path, ackGroup="g") as (port, query):
        await asyncio.to_thread(query.reader.commit, query.offset)
        last = (await port.write(message_of(rows(70)))).last_seq
        await ask(port, "DEL", "s")
        if again:
            await port.write(message_of(rows(5)))
        with pytest.raises(DataLoss, match=rf"stream 's', origin .*, seq \d+ to {last}\."):
            await asyncio.to_thread(query.reader.commit, query.offset)
        lenient = Query(port, streams="s", ackGroup="g", failOnDataLoss="false")
        await asyncio.to_thread(lenient.reader.commit, query.offset)
        assert f"to {last}" in caplog.text
