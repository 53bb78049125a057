"""Rows whose figures a process of the node's interpreter prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.bench import Bench, find_node
from benchmarks.rows import checkpoints
from benchmarks.scale import SMALLEST
from benchmarks.servers import BenchmarkError


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(SMALLEST, find_node(sys.executable), Path("no-redis")) as made:
        yield made


def test_a_restart_is_measured_from_the_checkpoint_and_from_the_log(bench: Bench) -> None:
    checkpoint, log = checkpoints.restart(bench, "restart")
    assert checkpoint.reached is not None
    assert checkpoint.ours.value > 0
    assert log.ours.value > 0
    assert checkpoint.details["checkpoint_bytes"] > 0


def test_the_tail_of_the_delay_is_what_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = {"quiet": {"p50": 0.1, "p99.9": 2.0}, "checkpoints": {"p50": 0.1, "p99.9": 11.0}}
    printed["holds"] = {"p50": 0.1, "p99.9": 30.0}
    monkeypatch.setattr(checkpoints, "inside", lambda *_: printed)
    quiet, busy, holds = checkpoints.stall(bench, "stall")
    assert (quiet.ours.value, quiet.reached) == (2.0, None)
    assert (busy.ours.value, busy.reached) == (11.0, False)
    assert (holds.name, holds.ours.value) == ("stall-holds", 30.0)


def test_many_starts_are_held_against_one(bench: Bench) -> None:
    results = checkpoints.restarts(bench, "restarts")
    assert [result.name for result in results] == [f"restarts-{kind}" for kind in checkpoints.COSTS]
    for result in results:
        assert list(result.details) == ["1_us", "100_us", "1000_us"]
        assert result.ours.value == pytest.approx(result.details["1000_us"] / result.details["1_us"])
        assert result.ours.cpu_us == result.details["1000_us"] > 0


def test_a_module_that_fails_says_why(bench: Bench) -> None:
    with pytest.raises(BenchmarkError, match="No such option"):
        checkpoints.inside(bench, "benchmarks.restart_time", "--no-such-option")


def test_a_planned_restart_has_all_entries_again(bench: Bench) -> None:
    (result,) = checkpoints.planned_restart(bench, "planned-restart")
    assert result.ours.value == pytest.approx(result.details["stop_s"] + result.details["start_s"])
