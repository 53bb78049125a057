"""The names of the rows, and the smallest one from end to end beside a real redis-server."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.bench import Bench, find_node
from benchmarks.instructions import Callgrind
from benchmarks.report.machine import describe
from benchmarks.rows.catalog import ROWS, matching
from benchmarks.scale import COUNTED, SMALLEST
from benchmarks.servers import BenchmarkError, find_redis_server
from tests.benchmarks.valgrind import needs_valgrind


def test_names_differ() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_rows_are_found_by_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.rows.catalog.find_spec", lambda _name: object())
    assert matching("*") == list(ROWS)
    assert [row.name for row in matching("xrange*, lag")] == [
        "xrange",
        "xrange-cold",
        "xrange-3",
        "xrange-3-cold",
        "lag",
    ]
    assert matching("nothing") == []


def test_rows_of_an_extra_that_is_not_installed_are_measured_only_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.rows.catalog.find_spec", lambda _name: None)
    assert matching("*") == [row for row in ROWS if not row.needs]
    assert [row.name for row in matching("spark-w*")] == ["spark-write"]


@pytest.mark.parametrize(
    "name",
    [
        "xadd-1",
        "xreadgroup",
        "xdelex",
        "xackdel",
        "xreadgroup-each",
        "xread-tails",
        "xadd-16-maxlen",
        "xadd-16-retained-length",
    ],
)
def test_a_row_measures_both(name: str, redis_server: Path) -> None:
    (row,) = matching(name)
    with Bench(SMALLEST, find_node(sys.executable), redis_server) as bench:
        (result,) = row.measure(bench, row.name)
    assert result.redis is not None
    assert result.ratio is not None
    for side in (result.ours, result.redis):
        assert side.value > 0
        assert side.cpu_us is not None
        assert side.cpu_us > 0


def test_only_rows_beside_redis_need_a_redis_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("benchmarks.servers.importlib.util.find_spec", lambda _name: None)
    assert find_redis_server(tmp_path) is None
    node = find_node(sys.executable)
    with Bench(SMALLEST, node, None) as bench, pytest.raises(BenchmarkError, match="name one with --redis-server"):
        bench.redis()
    (row,) = matching("bulk-write")
    with Bench(SMALLEST, node, None) as bench:
        (result, *_) = row.measure(bench, row.name)
    assert result.ours.value > 0
    assert describe(node, None, "", "")["redis"] == "none"


@pytest.mark.parametrize("name", ["memory-stream", "xadd-p99"])
def test_a_row_without_cpu_measures_both(name: str, redis_server: Path) -> None:
    (row,) = matching(name)
    with Bench(SMALLEST, find_node(sys.executable), redis_server) as bench:
        (result,) = row.measure(bench, row.name)
    assert result.redis is not None
    assert result.ratio is not None
    assert result.target is not None


@pytest.mark.parametrize("name", ["xreadgroup-claim", "xadd-idmp"])
def test_a_command_that_redis_lacks_is_ours_alone(name: str, redis_server: Path) -> None:
    (row,) = matching(name)
    with Bench(SMALLEST, find_node(sys.executable), redis_server) as bench:
        (result,) = row.measure(bench, row.name)
    assert result.ours.value > 0
    assert (result.redis is None) == result.title.endswith("ours alone")


@needs_valgrind
def test_instructions_are_counted_on_both_sides(redis_server: Path, tmp_path: Path) -> None:
    (row,) = matching("xadd-16")
    assert row.counted
    scale = replace(COUNTED, appends={16: 1_600})
    with Bench(scale, find_node(sys.executable), redis_server, counter=Callgrind(tmp_path)) as bench:
        (result,) = row.measure(bench, row.name)
    assert result.redis is not None
    assert result.redis.instructions is not None and 5_000 < result.redis.instructions < 50_000
    assert result.ours.instructions is not None and result.ours.instructions > 5_000
