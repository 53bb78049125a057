"""The map of a region's shards: ranges, who serves what, and the IDs that cluster clients see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.connections.shards import ShardAddress, ShardMap, map_of, node_id_of
from crdtstream.protocols.hash_slots import HASH_SLOTS, hash_slot_of, slot_ranges

SHARDS_MAX = 1000


def addresses(count: int) -> list[ShardAddress]:
    return [ShardAddress("127.0.0.1", 7000 + number, 0) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "ranges"),
    [
        (1, [(0, 16383)]),
        (2, [(0, 8191), (8192, 16383)]),
        (3, [(0, 5460), (5461, 10922), (10923, 16383)]),
        (6, [(0, 2730), (2731, 5460), (5461, 8191), (8192, 10922), (10923, 13652), (13653, 16383)]),
    ],
)
def test_ranges_are_those_of_redis_cli(count: int, ranges: list[tuple[int, int]]) -> None:
    assert slot_ranges(count) == ranges


@given(st.integers(1, SHARDS_MAX))
def test_ranges_are_equal_and_cover_everything(count: int) -> None:
    ranges = slot_ranges(count)
    sizes = [high - low + 1 for low, high in ranges]
    assert sum(sizes) == HASH_SLOTS and max(sizes) - min(sizes) <= 1
    map_of("c", 1, 0, addresses(count), 1).check()


def test_one_that_is_away_serves_nothing() -> None:
    shard_map = map_of("c", 1, 1, addresses(2), 1, away=True)
    shard_map.check()
    assert not any(map(shard_map.owns, range(HASH_SLOTS))) and not shard_map.serves(b"a")
    assert shard_map.shard_of(HASH_SLOTS - 1).number == 1 and shard_map.own_shard().number == 1


@given(st.integers(1, 20), st.binary(max_size=8), st.data())
def test_exactly_one_shard_serves_a_key(count: int, key: bytes, data: st.DataObject) -> None:
    own = data.draw(st.integers(0, count - 1))
    shard_map = map_of("c", 1, own, addresses(count), 1)
    shard = shard_map.shard_of(hash_slot_of(key))
    assert shard.low <= hash_slot_of(key) <= shard.high
    assert shard_map.serves(key) == (shard == shard_map.own_shard()) == (shard.number == own)


def test_node_ids_tell_clusters_regions_and_shards_apart() -> None:
    names = [("c", 1, 0), ("c", 1, 1), ("c", 2, 0), ("d", 1, 0), ("c1", 1, 0), ("c", 11, 0)]
    ids = {node_id_of(*name) for name in names}
    assert len(ids) == len(names)
    assert all(len(one) == 40 and set(one) <= set("0123456789abcdef") for one in ids)
    # Clients know a shard by its ID for as long as the cluster lives.
    assert node_id_of("c", 1, 0) == "db9234d1ea362f09682c19f4571f22bb4d42b009"


def test_a_map_with_a_gap_is_refused() -> None:
    shards = map_of("c", 1, 0, addresses(2), 1).shards
    with pytest.raises(AssertionError, match="belong to no shard"):
        ShardMap(1, 0, shards[:1]).check()
    with pytest.raises(AssertionError, match="shard 1 has"):
        ShardMap(1, 0, (shards[0], shards[1]._replace(low=9000))).check()
