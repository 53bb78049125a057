"""Rows whose figures a process of the node's interpreter prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import checkpoints
from benchmarks.bench import SMALLEST, Bench, find_node
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
    monkeypatch.setattr(checkpoints, "inside", lambda *_: printed)
    quiet, busy = checkpoints.stall(bench, "stall")
    assert (quiet.ours.value, quiet.reached) == (2.0, None)
    assert (busy.ours.value, busy.reached) == (11.0, False)


def test_a_module_that_fails_says_why(bench: Bench) -> None:
    with pytest.raises(BenchmarkError, match="No such option"):
        checkpoints.inside(bench, "benchmarks.restart", "--no-such-option")
