"""The bulk port of a region in this event loop, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.bulk.bulk_pb2_grpc import BulkStub
from crdtstream.processes.ports import free_port
from crdtstream.settings.config import Limits
from tests.bulk.columns import Fields, entries_of, message_of
from tests.running_region import DEADLINE_S, Running, config_of, running, until

if TYPE_CHECKING:
    from crdtstream.bulk.bulk_pb2_grpc import BulkAsyncStub

SMALL = Limits(stop_checkpoint_ms_max=0, bulk_message_bytes=1 << 10, auth_failure_delay_ms=0)


class Port:
    """A region and a client of its bulk port."""

    def __init__(self, region: Running, stub: BulkAsyncStub) -> None:
        self.region = region
        self.stub = stub

    async def write(self, *messages: bulk.Rows, **settings: Any) -> bulk.Written:
        return await self.stub.Write(iter(messages), timeout=DEADLINE_S, **settings)

    async def stage(self, partition: int, part: list[Fields], batch: int = 1, message_rows: int = 1_000) -> bulk.Staged:
        pieces = [part[low : low + message_rows] for low in range(0, len(part), message_rows)] or [[]]
        messages = [bulk.StagedRows(rows=message_of(piece)) for piece in pieces]
        messages[0].application, messages[0].batch, messages[0].partition = "app", batch, partition
        return await self.stub.Stage(iter(messages), timeout=DEADLINE_S)

    async def publish(self, stages: list[str], batch: int = 1) -> bulk.Published:
        request = bulk.PublishRequest(application="app", batch=batch, stages=stages)
        return await self.stub.Publish(request, timeout=DEADLINE_S)

    async def heads(self, *names: bytes, **settings: Any) -> dict[bytes, list[bulk.OriginHead]]:
        request = bulk.HeadsRequest(streams=names, **settings)
        return {one.stream: list(one.origins) async for one in self.stub.Heads(request, timeout=DEADLINE_S)}

    async def read(self, *intervals: bulk.Interval) -> list[bulk.Entries]:
        call = self.stub.Read(bulk.ReadRequest(intervals=intervals), timeout=DEADLINE_S)
        return [message async for message in call]

    async def read_all(self, name: bytes) -> list[tuple[int, tuple[int, int], Fields]]:
        whole = [
            bulk.Interval(stream=name, origin=head.origin, after=0, through=head.head)
            for head in (await self.heads(name))[name]
        ]
        return [entry for message in await self.read(*whole) for entry in entries_of(message)]


@asynccontextmanager
async def serving(directory: Path, limits: Limits = SMALL, **config: Any) -> AsyncIterator[Port]:
    config = {"bulk_port": free_port(), **config}
    async with running(config_of(directory, limits, **config)) as region:
        await until(lambda: "bulk" in region.loop._addresses, "the bulk port is open")
        async with grpc.aio.insecure_channel(region.loop._addresses["bulk"]) as channel:
            yield Port(region, BulkStub(channel))


async def refused(call: Coroutine[Any, Any, Any] | Any, code: grpc.StatusCode, text: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call
    details = refusal.value.details() or ""
    assert (refusal.value.code(), text in details) == (code, True), refusal.value


def rows(count: int, size: int = 8) -> list[Fields]:
    return [[b"f", b"%0*d" % (size, at)] for at in range(count)]
