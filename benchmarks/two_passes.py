"""The two passes over the rows: all are timed, one after the other; then instructions are counted, of several rows at
once.

A timed row has the machine to itself, and its servers run without a counter. A count does not depend on what else
runs, so the second pass uses all processors. What was measured before an interrupt stays; a row that is being counted
then is finished, so that its servers are stopped in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from subprocess import SubprocessError

from redis import RedisError

from benchmarks.bench import Bench
from benchmarks.load.wire import ReplyError
from benchmarks.report.figures import Result, medians, with_instructions
from benchmarks.rows.catalog import Row
from crdtstream.processes.waiting import ProcessError

Report = Callable[[str], None]
Start = Callable[[], Bench]

_FAILURES = (ProcessError, ReplyError, RedisError, OSError, SubprocessError)


@dataclass(slots=True)
class Measured:
    """The results of each row by its name, and why some could not be measured."""

    by_row: dict[str, list[Result]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def results(self) -> list[Result]:
        return [result for results in self.by_row.values() for result in results]

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            self.failures[name] = str(error)


def measure(
    rows: Sequence[Row], timed: Start, counted: Start | None, repetitions: int, report: Report = lambda _: None
) -> Measured:
    """Measure the rows; `repetitions` is for those that are repeated as a whole."""
    measured = Measured()
    try:
        time_all(rows, timed, repetitions, measured, report)
        if counted is not None:
            count_all([row for row in rows if row.counted and row.name in measured.by_row], counted, measured, report)
    except KeyboardInterrupt:
        measured.failures["what comes later"] = "the command was interrupted"
    return measured


def time_all(rows: Sequence[Row], start: Start, repetitions: int, measured: Measured, report: Report) -> None:
    for number, row in enumerate(rows, 1):
        report(f"{number} of {len(rows)}: {row.name}")
        with measured.noting(row.name):
            measured.by_row[row.name] = medians([run(row, start) for _ in range(repetitions if row.whole else 1)])


def count_all(rows: Sequence[Row], start: Start, measured: Measured, report: Report) -> None:
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        running: dict[Future[list[Result]], Row] = {pool.submit(run, row, start): row for row in rows}
        try:
            for number, done in enumerate(as_completed(running)):
                report(f"counting instructions: {number} of {len(rows)} rows")
                row = running[done]
                with measured.noting(row.name):
                    measured.by_row[row.name] = with_instructions(measured.by_row[row.name], done.result())
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise


def run(row: Row, start: Start) -> list[Result]:
    with start() as bench:
        return row.measure(bench, row.name)
