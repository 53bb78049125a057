"""The names of the rows, and the smallest one from end to end beside a real redis-server."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.bench import SMALLEST, Bench, find_node
from benchmarks.rows import ROWS, matching
from benchmarks.servers import BenchmarkError, find_redis_server


def test_names_differ() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_rows_are_found_by_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.rows.find_spec", lambda _name: object())
    assert matching("*") == list(ROWS)
    assert [row.name for row in matching("xrange*, lag")] == ["xrange", "xrange-3", "lag"]
    assert matching("nothing") == []


def test_rows_of_an_extra_that_is_not_installed_are_measured_only_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.rows.find_spec", lambda _name: None)
    assert matching("*") == [row for row in ROWS if not row.needs]
    assert [row.name for row in matching("spark-w*")] == ["spark-write"]


@pytest.fixture
def redis_server(tmp_path: Path) -> Path:
    try:
        return find_redis_server(tmp_path)
    except BenchmarkError as error:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip(f"no redis-server to measure beside: {error}")
        return Path(program)


@pytest.mark.parametrize(
    "name", ["xadd-1", "xreadgroup", "xdelex", "xackdel", "xreadgroup-each", "xread-tails", "xadd-16-maxlen"]
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
