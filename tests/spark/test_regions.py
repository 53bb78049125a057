"""Where the shards of a region are, as its shards say and as they are followed."""

from __future__ import annotations

import pytest

from crdtstream.bulk import bulk_pb2
from crdtstream.spark.access import Access
from crdtstream.spark.options import Options
from crdtstream.spark.regions import Region, ShardPlaces

PLACES = [":7201", ":7202", "b.example.net:7203"]


def test_a_shard_is_beside_shard_0_until_one_says_where() -> None:
    places = ShardPlaces("a.example.net:7201")
    assert [places.address_of(shard) for shard in (0, 2)] == ["a.example.net:7201", "a.example.net:7203"]
    places.learn(PLACES, "10.0.0.1:7202")
    assert [places.address_of(shard) for shard in range(3)] == ["10.0.0.1:7201", "10.0.0.1:7202", "b.example.net:7203"]


def test_others_are_asked_in_turn_where_a_shard_is() -> None:
    places = ShardPlaces("[::1]:7201")
    assert places.other("[::1]:7202") == "[::1]:7201" and places.other("[::1]:7201") == "[::1]:7201"
    places.learn(PLACES, "[::1]:7201")
    assert {places.other("[::1]:7202") for _ in range(2)} == {"[::1]:7201", "b.example.net:7203"}


def described(**more: object) -> bulk_pb2.Description:
    return bulk_pb2.Description(region=1, name="east", **more)  # type: ignore[arg-type]


@pytest.fixture
def region() -> Region:
    return Region(Access(Options({})), ShardPlaces("a:7201"), 1)


def test_a_shard_that_has_moved_is_followed(region: Region) -> None:
    region.learn(described(shard=1, shards=PLACES))
    assert (region.address, region.shards, region.reason, region.is_moved()) == ("a:7202", 3, "", False)
    region.learn(described(shard=1, shards=[":7201", "b:7302", ":7203"]))
    channel = region.channel
    assert region.is_moved()
    region.renew()
    assert region.address == "b:7302" and region.channel is not channel and not region.is_moved()
    channel = region.channel
    region.renew()
    assert region.channel is channel


def test_another_shard_at_an_address_is_not_taken_for_the_one_that_was_there(region: Region) -> None:
    row = bulk_pb2.VectorRow(origin=1, seq=7)
    region.learn(described(shard=0, shards=PLACES, applied=[row]))
    assert region.applied == {} and region.reason == "it is shard 0, not 1: name the bulk port of shard 0"
    region.learn(described(shard=1, shards=PLACES, applied=[row]))
    assert region.applied == {1: 7} and not region.reason
