"""Bars of jobs on a terminal, and lines elsewhere."""

from __future__ import annotations

import threading
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")


from rich.console import Console

from crdtstream.processes.waiting import until
from crdtstream.spark import bars
from crdtstream.spark.bars import Tasks, job_bar, tasks_bar


def console_of(terminal: bool) -> tuple[Console, StringIO]:
    shown = StringIO()
    return Console(file=shown, force_terminal=terminal, width=120, markup=False), shown


Stages = dict[int, tuple[int, int] | None]


def session_of(stages: Stages) -> Any:
    """A session in which these stages run, each with how many tasks it has done, and has; Spark may have forgotten
    one.
    """

    def info(stage: int) -> SimpleNamespace | None:
        each = stages[stage]
        return None if each is None else SimpleNamespace(numCompletedTasks=each[0], numTasks=each[1])

    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=info)
    return SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))


def test_without_a_terminal_there_are_lines_alone() -> None:
    console, shown = console_of(False)
    with job_bar(console, "loading files") as bar:
        bar.show("3 rows in 1 batches")
        bar.count(3, 6)
    assert shown.getvalue() == "3 rows in 1 batches\n"


def test_on_a_terminal_a_bar_says_how_much_of_it_is_done() -> None:
    console, shown = console_of(True)
    with job_bar(console, "loading [files]") as bar:
        bar.show("3 rows in 1 batches")
        bar.count(3, 6)
    assert "3 rows in 1 batches" in shown.getvalue() and "3/6" in shown.getvalue()
    assert "\n3 rows" not in shown.getvalue()


def test_a_bar_whose_total_is_not_known_any_more_has_none() -> None:
    console, shown = console_of(True)
    with job_bar(console, "comparing") as bar:
        bar.count(4, 4)
        bar.count(0, None)
        bar.show("between two stages")
    assert "0/?" in shown.getvalue() and "0/4" not in shown.getvalue()


def test_the_tasks_of_all_stages_are_counted_and_no_number_falls() -> None:
    stages: Stages = {}
    tasks, counted = Tasks(session_of(stages)), []
    for now in ({}, {0: (1, 4), 1: None, 2: (2, 3)}, {2: (3, 3)}, {}, {3: (0, 2)}):
        stages.clear()
        stages.update(now)
        counted.append(tasks.counted())
    assert counted == [(0, None), (3, 7), (7, 7), (7, 7), (7, 9)]


@pytest.mark.parametrize(
    "error",
    [pytest.importorskip("py4j.protocol").Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError()],
)
def test_a_bar_says_nothing_of_a_jvm_that_has_ended(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def gone() -> None:
        raise error

    monkeypatch.setattr(bars, "POLL_S", 0.01)
    console, _ = console_of(True)
    with job_bar(console, "comparing") as bar:
        bars.follow(bar, SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=gone)))


def test_a_bar_follows_spark_until_the_job_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "POLL_S", 0.01)
    console, shown = console_of(True)
    with tasks_bar(console, "comparing", session_of({0: (1, 4)})):
        until(lambda: "1/4" in shown.getvalue(), lambda: shown.getvalue())
    assert not [thread for thread in threading.enumerate() if thread.name.endswith("(follow)")]
    console, shown = console_of(False)
    with tasks_bar(console, "comparing", None) as bar:
        bar.show("round 2")
    assert shown.getvalue() == "round 2\n"
