"""The bulk port of a shard takes and gives only streams that this shard serves, in database 0."""

from __future__ import annotations

from pathlib import Path

import grpc.aio

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.connections.shards import ShardAddress, map_of
from crdtstream.runtime.bulk.calls import bulk_places
from tests.bulk.columns import message_of
from tests.running_region import DEADLINE_S
from tests.runtime.bulk_ports import Port, refused, rows, serving

# `b` is a key of the first shard, `a` of the second.
OWN, FOREIGN = b"b", b"a"
ELSEWHERE = "shard 1 of this region serves the stream b'a': ask its bulk port, which is the region's first one plus 1"
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION


def become_a_shard(port: Port, number: int = 0) -> None:
    addresses = [ShardAddress("127.0.0.1", 7000, 0), ShardAddress("127.0.0.1", 7001, 0)]
    port.region.loop.node.follow_shards(map_of("c", 1, number, addresses, 1))


def rows_for(name: bytes, database: int = 0) -> bulk.Rows:
    message = message_of(rows(3))
    del message.streams[:]
    message.streams.append(name)
    message.database = database
    return message


def test_the_bulk_port_of_each_shard_is_beside_that_of_the_first_on_its_machine() -> None:
    addresses = [ShardAddress(host, 7000, 0) for host in ("a", "a", "b", "::1")]
    assert bulk_places(map_of("c", 1, 1, addresses, 1), 7202) == [":7201", ":7202", "b:7203", "[::1]:7204"]


async def test_a_shard_says_which_it_is_and_where_the_others_are(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        alone = await port.stub.Describe(bulk.DescribeRequest(), timeout=DEADLINE_S)
        assert (alone.shard, list(alone.shards)) == (0, [])
        become_a_shard(port, 1)
        found = await port.stub.Describe(bulk.DescribeRequest(), timeout=DEADLINE_S)
        assert found.shard == 1 and len(found.shards) == 2


async def test_own_streams_are_written_and_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        become_a_shard(port)
        assert (await port.write(rows_for(OWN))).added == 3
        assert len(await port.read_all(OWN)) == 3
        staged = [bulk.StagedRows(application="app", batch=1, rows=rows_for(OWN))]
        stage = (await port.stub.Stage(iter(staged), timeout=DEADLINE_S)).stage
        assert (await port.publish([stage])).added == 3
        assert len(await port.read_all(OWN)) == 6


async def test_streams_of_another_shard_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        become_a_shard(port)
        await refused(port.write(rows_for(FOREIGN)), PRECONDITION, ELSEWHERE)
        await refused(port.heads(OWN, FOREIGN), PRECONDITION, ELSEWHERE)
        await refused(port.read(bulk.Interval(stream=FOREIGN, origin=1, through=1)), PRECONDITION, ELSEWHERE)
        staged = [bulk.StagedRows(application="app", batch=1, rows=rows_for(FOREIGN))]
        await refused(port.stub.Stage(iter(staged), timeout=DEADLINE_S), PRECONDITION, ELSEWHERE)
        split = bulk.SplitRequest(interval=bulk.Interval(stream=FOREIGN, origin=1, through=1), entries=1)
        await refused(port.stub.Split(split, timeout=DEADLINE_S), PRECONDITION, ELSEWHERE)
        positions = [bulk.StreamPosition(stream=FOREIGN)]
        advance = bulk.AdvanceRequest(group=b"g", positions=positions, create=True)
        await refused(port.stub.Advance(advance, timeout=DEADLINE_S), PRECONDITION, ELSEWHERE)
        assert not port.region.loop.node.replica.keyspace.keys(0)


async def test_there_is_only_database_0(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        assert (await port.write(rows_for(OWN, 1))).added == 3
        become_a_shard(port)
        text = "database 1 is out of range: a region of several shards has only 0"
        await refused(port.write(rows_for(OWN, 1)), grpc.StatusCode.INVALID_ARGUMENT, text)
        await refused(port.heads(pattern=b"*", database=1), grpc.StatusCode.INVALID_ARGUMENT, text)
