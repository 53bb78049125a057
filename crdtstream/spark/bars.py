"""How far a job is: a bar where people watch on a terminal, lines elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeElapsedColumn

POLL_S: Final = 0.5


class JobBar:
    """The bar of one job. Without a total it moves to and fro."""

    def __init__(self, console: Console, progress: Progress, task: Task) -> None:
        self._console = console
        self._progress = progress
        self._task = task

    def show(self, text: str) -> None:
        """Say what was done."""
        if self._console.is_terminal:
            self._progress.update(self._task.id, description=text)
        else:
            self._console.print(text)

    def count(self, completed: int, total: int | None) -> None:
        """Say how much of the total, in any unit."""
        if total is None:  # Progress takes that as "unchanged".
            self._task.total = self._task.finished_time = None
        self._progress.update(self._task.id, completed=completed, total=total)


@contextmanager
def job_bar(console: Console, text: str) -> Iterator[JobBar]:
    """Show a bar with this text until the context ends; nothing of it where the console is no terminal."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        progress.add_task(text, total=None)
        yield JobBar(console, progress, progress.tasks[0])


@contextmanager
def tasks_bar(console: Console, text: str, spark: Any) -> Iterator[JobBar]:
    """The same, of a job that knows no total: the bar counts the tasks that Spark runs at the time."""
    ended = threading.Event()
    with job_bar(console, text) as bar:
        follower = threading.Thread(target=follow, args=(bar, spark, ended), daemon=True)
        if console.is_terminal:
            follower.start()
        try:
            yield bar
        finally:
            ended.set()
            if console.is_terminal:
                follower.join()


def follow(bar: JobBar, spark: Any, ended: threading.Event) -> None:
    """Count until the job ends, or its JVM, of which the job says so itself."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):
        while not ended.wait(POLL_S):
            bar.count(*tasks_of(spark))


def tasks_of(spark: Any) -> tuple[int, int | None]:
    """How many tasks of the stages that run are done, and of how many; None while no stage runs."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known) or None
