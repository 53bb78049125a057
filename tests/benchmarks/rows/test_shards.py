"""The rows of a region of several shards: every shard gets its part of the load, and the same streams as in Redis."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.bench import Bench, find_node
from benchmarks.rows.shards import adds_of, sharded
from benchmarks.scale import SMALLEST
from benchmarks.slot_servers import SlotServers, keys_in
from crdtstream.protocols.hash_slots import hash_slot_of, slot_ranges


def test_keys_lie_in_the_shard_that_was_asked_for() -> None:
    for number, (low, high) in enumerate(slot_ranges(4)):
        keys = keys_in(number, 4, 3, "stream")
        assert len(set(keys)) == 3
        assert all(low <= hash_slot_of(key.encode()) <= high for key in keys)


def test_the_same_load_is_divided_among_the_shards() -> None:
    for count in (1, 2, 4):
        servers = SlotServers(tuple(range(7001, 7001 + count)), ())
        loads = adds_of(servers, 96_000, "stream")
        assert sum(load.total for load in loads) == 96_000
        assert [load.ports[0] for load in loads] == list(servers.ports)


def test_two_shards_are_measured_beside_two_redis_servers(redis_server: Path) -> None:
    with Bench(SMALLEST, find_node(sys.executable), redis_server) as bench:
        results = sharded(bench, "shards-2", 2)
    assert [result.name for result in results] == ["shards-2", "shards-2-consumers"]
    for result in results:
        assert result.redis is not None and result.redis.value > 0 and result.ours.value > 0
        assert result.ours.cpu_us is not None and result.ours.cpu_us > 0
