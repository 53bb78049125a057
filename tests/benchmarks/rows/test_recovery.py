"""Starts after a kill, of both servers."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.bench import Bench, find_node
from benchmarks.rows.recovery import recover, starts
from benchmarks.scale import SMALLEST
from benchmarks.servers import BenchmarkError, find_redis_server


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    twice = dataclasses.replace(SMALLEST, repetitions=2)
    with Bench(twice, find_node(sys.executable), find_redis_server(tmp_path)) as made:
        yield made


@pytest.mark.parametrize("saved", [False, True])
def test_both_servers_come_back_with_what_they_had(bench: Bench, saved: bool) -> None:
    (result,) = recover(bench, "start", saved)
    assert result.redis is not None
    assert result.ours.value > 0 and result.redis.value > 0
    assert result.reached is not None


def test_a_loss_is_an_error(bench: Bench) -> None:
    redis, empty = bench.redis(), bench.redis()
    redis.ask("XADD", "stream", "*", "f", "v")

    def lose() -> None:
        redis.port = empty.port

    with pytest.raises(BenchmarkError, match="0 of 1 entries came back"):
        starts(bench, redis, lose)
