"""How far a job is: a bar where people watch on a terminal, lines elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeElapsedColumn

POLL_S: Final = 0.5
# The bars that are on a terminal.
SHOWN: Final[list[JobBar]] = []


class JobBar:
    """The bar of one job. Without a total it moves to and fro."""

    def __init__(self, console: Console, progress: Progress, task: Task) -> None:
        self._console = console
        self._progress = progress
        self._task = task
        self.ended = threading.Event()

    def end(self) -> None:
        """Leave the terminal."""
        self.ended.set()
        self._progress.stop()

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
    # A bar that is full for a moment, between two stages, keeps its colour.
    bar_column = BarColumn(finished_style="bar.complete")
    columns = (TextColumn("{task.description}", markup=False), bar_column, MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        progress.add_task(text, total=None)
        bar = JobBar(console, progress, progress.tasks[0])
        SHOWN.append(bar)
        try:
            yield bar
        finally:
            bar.ended.set()
            SHOWN.remove(bar)


def hide() -> None:
    """Have all bars leave the terminal, whatever the jobs do."""
    for bar in tuple(SHOWN):
        bar.end()


@contextmanager
def tasks_bar(console: Console, text: str, spark: Any) -> Iterator[JobBar]:
    """The same, of a job that knows no total: the bar counts the tasks that Spark has begun."""
    with job_bar(console, text) as bar:
        follower = threading.Thread(target=follow, args=(bar, spark), daemon=True)
        if console.is_terminal:
            follower.start()
        try:
            yield bar
        finally:
            bar.ended.set()
            if console.is_terminal:
                follower.join()


def follow(bar: JobBar, spark: Any) -> None:
    """Count until the job ends, or its JVM, of which the job says so itself."""
    from py4j.protocol import Py4JError

    tasks = Tasks(spark)
    with suppress(Py4JError, OSError):
        while not bar.ended.wait(POLL_S):
            bar.count(*tasks.counted())


class Tasks:
    """The tasks of all stages that were seen to run: of a job that goes from one to the next no number falls."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        # Of each stage, how many are done, and of how many.
        self._seen: dict[int, tuple[int, int]] = {}

    def counted(self) -> tuple[int, int | None]:
        """How many tasks are done, and of how many; None before the first stage."""
        tracker = self._spark.sparkContext.statusTracker()
        active = {stage: tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()}
        ended = {stage: (total, total) for stage, (_, total) in self._seen.items()}
        known = {stage: (each.numCompletedTasks, each.numTasks) for stage, each in active.items() if each is not None}
        self._seen = {**ended, **known}
        return sum(done for done, _ in self._seen.values()), sum(total for _, total in self._seen.values()) or None
