"""Replication between two regions, beside a Redis with a replica."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from benchmarks.bench import Bench, find_node
from benchmarks.rows.replication import throughput
from benchmarks.scale import SMALLEST
from benchmarks.servers import find_redis_server


def test_both_are_measured_until_the_receiver_has_all(tmp_path: Path) -> None:
    twice = dataclasses.replace(SMALLEST, repetitions=2)
    with Bench(twice, find_node(sys.executable), find_redis_server(tmp_path)) as bench:
        rate, wire = throughput(bench, "replication")
    assert rate.redis is not None and wire.redis is not None
    assert rate.ours.cpu_us is not None and rate.ours.cpu_us > 0
    # An entry has 16 random digits, 8 bytes if packed; Redis sends a whole XADD.
    assert 8 < wire.ours.value < 60 < wire.redis.value < 200


def test_a_replica_has_what_its_main_server_has(tmp_path: Path) -> None:
    with Bench(SMALLEST, find_node(sys.executable), find_redis_server(tmp_path)) as bench:
        main, replica = bench.redis(), bench.redis()
        main.ask("XADD", "before", "*", "f", "v")
        replica.follow(main)
        begun = main.replication_offset()
        main.ask("XADD", "after", "*", "f", "v")
        replica.await_offset(main)
        assert replica.ask("XLEN", "before") == replica.ask("XLEN", "after") == 1
        assert main.replication_offset() == replica.replication_offset() > begun
