"""A region killed in the middle of a publish: the batch is staged and published again, and each row is there once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.bulk.bulk_pb2_grpc import BulkStub
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import DEADLINE_S
from tests.bulk.columns import entries_of, message_of

# Enough that a compiled region is still publishing when the kill comes.
ROWS = 100_000
MESSAGE_ROWS = 4_000
LEDGER = "crdtstream:published:app"


@pytest.fixture
def region(tmp_path: Path) -> Iterator[RegionProcess]:
    with regions_in(tmp_path) as regions:
        yield regions.make(1, bulk=True)[0]


class Client:
    """Of a region that has just started."""

    def __init__(self, region: RegionProcess, fsync: str) -> None:
        region.start(fsync=fsync, incarnation=0)
        region.await_serving()
        self.channel = grpc.insecure_channel(region.bulk_address)
        grpc.channel_ready_future(self.channel).result(DEADLINE_S)
        self.stub = BulkStub(self.channel)

    def stage(self, partition: int) -> str:
        def messages() -> Iterator[bulk.StagedRows]:
            for low in range(0, ROWS, MESSAGE_ROWS):
                rows = [[b"f", b"%d.%d" % (partition, at)] for at in range(low, low + MESSAGE_ROWS)]
                yield bulk.StagedRows(application="app", batch=1, partition=partition, rows=message_of(rows))

        return self.stub.Stage(messages(), timeout=DEADLINE_S).stage

    def publish_of(self, stages: list[str]) -> bulk.PublishRequest:
        return bulk.PublishRequest(application="app", batch=1, stages=stages)

    def values(self) -> list[bytes]:
        [head] = self.stub.Heads(bulk.HeadsRequest(streams=[b"s"]), timeout=DEADLINE_S)
        intervals = [bulk.Interval(stream=b"s", origin=one.origin, through=one.head) for one in head.origins]
        read = self.stub.Read(bulk.ReadRequest(intervals=intervals), timeout=DEADLINE_S)
        entries = [entry for message in read for entry in entries_of(message)]
        return [entry[2][1] for entry in sorted(entries, key=lambda entry: entry[1])]


def rows_published(ask: Callable[..., Any]) -> int:
    """By the ledger."""
    entries = ask("XRANGE", LEDGER, "-", "+")
    assert len(entries) <= 1
    rows = entries[0][1][5] if entries else b""
    return sum(int(row.split(b":")[1]) for row in rows.split(b",") if row)


def await_published(region: RegionProcess, before: int) -> None:
    """Return at once when more rows are there: a compiled region soon has all of them."""
    end_s = time.monotonic() + DEADLINE_S
    with region.client() as client:
        while rows_published(client.execute_command) <= before:
            assert time.monotonic() < end_s, "no rows are published"


@pytest.mark.parametrize("fsync", ["everysec", "always"])
def test_a_batch_whose_region_was_killed_is_there_once(region: RegionProcess, fsync: str) -> None:
    client = Client(region, fsync)
    before = 0
    # Killed again and again, each time a little further on. What the kills leave may be published before the next one
    # comes, where the test has to wait for a busy machine; of the whole batch there is too much for that.
    for _ in range(3):
        call = client.stub.Publish.future(client.publish_of([client.stage(0), client.stage(1)]))
        await_published(region, before)
        region.kill()
        call.exception()
        client.channel.close()
        client = Client(region, fsync)
        found = client.values()
        assert len(found) == rows_published(region.ask), "rows and ledger differ"
        assert before < len(found)
        assert before or len(found) < 2 * ROWS, "no kill came while rows were published"
        before = len(found)
        if before == 2 * ROWS:
            break
    published = client.stub.Publish(client.publish_of([client.stage(0), client.stage(1)]), timeout=DEADLINE_S)
    assert published.added == 2 * ROWS - before
    wanted = [b"%d.%d" % (partition, at) for partition in range(2) for at in range(ROWS)]
    assert client.values() == wanted
    region.kill()
    client.channel.close()
    client = Client(region, fsync)
    again = client.publish_of([client.stage(0), client.stage(1)])
    assert client.stub.Publish(again, timeout=DEADLINE_S).repeated
    assert client.values() == wanted
    client.channel.close()
