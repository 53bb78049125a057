"""The client of several shards over regions in memory: calls go to the shards of their streams, and shards move."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from crdtstream.bulk import bulk_pb2
from crdtstream.protocols.hash_slots import shard_of
from crdtstream.spark.options import Options
from crdtstream.spark.regions import BulkError
from crdtstream.spark.sharded import ShardedClient
from tests.spark.fake_regions import Regions, until
from tests.spark.support import FAST

# Streams of the shards 0 and 1.
STREAMS = ("b", "a")


class Cluster:
    """Two regions of two shards: a world of entries for each shard, since they replicate by themselves."""

    def __init__(self) -> None:
        self.shards = [Regions(), Regions()]
        self.place()

    def place(self) -> None:
        """Each shard says where those of its region are."""
        for number, world in enumerate(self.shards):
            for at, region in enumerate(world.regions):
                region.shard, region.places = number, [shard.regions[at].address for shard in self.shards]

    def client(self, **more: str) -> ShardedClient:
        return ShardedClient(Options({"endpoints": self.shards[0].endpoints, **FAST, **more}))

    def stop(self) -> None:
        for world in self.shards:
            world.stop()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    assert [shard_of(stream.encode(), 2) for stream in STREAMS] == [0, 1]
    made = Cluster()
    yield made
    made.stop()


def names(client: ShardedClient, *streams: str) -> set[bytes]:
    return {head.stream for answer in client.heads(streams) for head in answer}


def test_streams_are_looked_up_in_their_shards(cluster: Cluster) -> None:
    for world, stream in zip(cluster.shards, STREAMS, strict=True):
        world[1].add(stream, b"1", b"2")
        world.sync()
    client = cluster.client()
    assert names(client) == {b"a", b"b"}
    before = cluster.shards[0][1].count("Heads")
    assert names(client, "a") == {b"a"} and cluster.shards[0][1].count("Heads") == before
    origins = [world[1].origin for world in cluster.shards]
    assert client.ask_applied() == {origins[0]: 2} | {origins[1]: 2}
    intervals = [
        bulk_pb2.Interval(stream=stream.encode(), origin=origin, through=2)
        for stream, origin in zip(STREAMS, origins, strict=True)
    ]
    assert [reply.entries for reply in client.split(intervals[::-1], 1)] == [[1, 1], [1, 1]]
    assert [each.stream for each in client.by_shard(intervals[::-1])] == [b"b", b"a"]
    assert [(interval.stream, entries.count) for _, interval, entries in client.read(intervals)] == [
        (b"b", 2),
        (b"a", 2),
    ]


def test_a_shard_that_moves_is_found_where_the_others_say(cluster: Cluster) -> None:
    moved = cluster.shards[1]
    client = cluster.client()
    assert client.of(b"a").anywhere(lambda region: region.name)
    for region in moved.regions:
        region.stop()
        region.port += 1
        region.start()
    cluster.place()
    # The others are asked beside the calls, which fail until one has answered.
    until(lambda: reaches(client, moved[1].add("a", b"1")))


def reaches(client: ShardedClient, last: int) -> bool:
    try:
        return last in client.ask_applied().values()
    except BulkError:
        return False


def test_regions_with_other_numbers_of_shards_are_refused(cluster: Cluster) -> None:
    cluster.shards[0][2].places = []
    with pytest.raises(BulkError, match="the regions have different numbers of shards"):
        cluster.client().applied()


def test_a_position_is_unknown_where_the_shard_of_its_stream_has_not_heard_of_it(cluster: Cluster) -> None:
    cluster.shards[0][1].add("b", b"1")
    cluster.shards[0].sync()
    origin = cluster.shards[0][1].origin
    assert cluster.client().unknown({"b": {origin: 1}}) == []
    assert cluster.client().unknown({"a": {origin: 1}}) == [origin]


def test_a_batch_is_published_in_the_shards_that_lack_it(cluster: Cluster) -> None:
    """As it is repeated after the second shard has failed."""
    client = cluster.client()
    cluster.shards[1][1].fail("Publish", *[grpc.StatusCode.ABORTED])
    with pytest.raises(BulkError, match="ABORTED"):
        client.publish("app", 1, [[], []], False)
    assert [world[1].published for world in cluster.shards] == [{"app": 1}, {}]
    assert not client.publish("app", 1, [[], []], False)
    assert client.publish("app", 1, [[], []], False)
    client.forget("app", 1)
    assert [world[1].published for world in cluster.shards] == [{}, {}]
