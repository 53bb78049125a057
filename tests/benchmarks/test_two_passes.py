"""The two passes, with rows that measure nothing."""

from __future__ import annotations

import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from benchmarks.bench import Bench, Node
from benchmarks.report.figures import Result, Side
from benchmarks.rows.catalog import Row
from benchmarks.scale import SMALLEST
from benchmarks.two_passes import measure
from crdtstream.processes.waiting import ProcessError

NODE = Node(sys.executable, {}, "0", "3.11", False)
START = partial(Bench, SMALLEST, NODE, Path("redis-server"))


def steady(value: float, _bench: Bench, name: str) -> list[Result]:
    return [Result(name, name, "op/s", Side(value, instructions=value))]


def test_rows_that_are_whole_are_repeated_and_medians_are_taken() -> None:
    values = iter([3.0, 1.0, 2.0, 7.0])
    rows = [Row(name, lambda bench, name: steady(next(values), bench, name), whole=name == "a") for name in "ab"]
    measured = measure(rows, START, None, 3)
    assert [(result.name, result.ours.value) for result in measured.results] == [("a", 2.0), ("b", 7.0)]


def test_only_counted_rows_are_counted_and_keep_what_was_timed() -> None:
    values = iter([10.0, 20.0, 30.0])
    rows = [Row(name, lambda bench, name: steady(next(values), bench, name), counted=name == "b") for name in "ab"]
    measured = measure(rows, START, START, 1)
    a, b = measured.results
    assert (a.ours.value, b.ours.value) == (10.0, 20.0)
    assert b.ours.instructions == 30.0


def test_a_row_that_fails_says_why_and_the_others_are_measured() -> None:
    def fail(_bench: Bench, _name: str) -> list[Result]:
        raise ProcessError("no such server")

    measured = measure([Row("a", fail, counted=True), Row("b", partial(steady, 1.0), counted=True)], START, START, 1)
    assert measured.failures == {"a": "no such server"}
    assert [result.name for result in measured.results] == ["b"]


def test_an_interrupt_keeps_what_was_measured() -> None:
    def interrupt(_bench: Bench, _name: str) -> list[Result]:
        raise KeyboardInterrupt

    rows = [Row("a", partial(steady, 1.0)), Row("b", interrupt), Row("c", partial(steady, 1.0))]
    measured = measure(rows, START, START, 1)
    assert [result.name for result in measured.results] == ["a"]
    assert measured.failures == {"what comes later": "the command was interrupted"}


def test_rows_are_counted_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    both = threading.Barrier(2, timeout=10)
    counting = threading.Event()

    def together(bench: Bench, name: str) -> list[Result]:
        if counting.is_set():
            both.wait()
        return steady(1.0, bench, name)

    def start_counting() -> Bench:
        counting.set()
        return START()

    measured = measure([Row(name, together, counted=True) for name in "ab"], START, start_counting, 1)
    assert not measured.failures and all(result.ours.instructions for result in measured.results)
