"""Sweeps over many seeds: the outcome of each, and their sum. Local processes and Spark executors give the same
results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from simulations.checkers import run_checked
from simulations.history import Violation
from simulations.sharded import Run, draw_run

CHUNK = 10


@dataclass(frozen=True)
class Outcome:
    """The outcome of one seed: the violation or an empty text, and the trace of a failed run."""

    seed: int
    violation: str
    injected: dict[str, int]
    statistics: dict[str, int]
    trace: tuple[str, ...] = ()


def run_seed(
    seed: int, partitioned: bool | None = None, properties: bool | None = None, sharded: bool | None = None
) -> Outcome:
    run = draw_run(seed, partitioned=partitioned, properties=properties, sharded=sharded)
    violation = failure_of(run)
    machines = [machine for world in run.worlds for machine in world.machines.values()]
    injected: Counter[str] = sum((machine.happened for machine in machines), run.injected)
    trace = tuple(run.trace) if violation else ()
    return Outcome(seed, violation, dict(injected), dict(run.statistics), trace)


def failure_of(run: Run) -> str:
    """Run a world, or several shards; return what does not hold, or an empty text."""
    try:
        run_checked(run)
    except Violation as violation:
        return str(violation)
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    return ""


def on_processes(
    workers: int,
    first: int,
    seeds: int,
    partitioned: bool | None = None,
    properties: bool | None = None,
    sharded: bool | None = None,
) -> Iterator[Outcome]:
    """Run seeds in processes; outcomes come in the order of the seeds."""
    run_one = partial(run_seed, partitioned=partitioned, properties=properties, sharded=sharded)
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(run_one, range(first, first + seeds), chunksize=CHUNK)


class Fault:
    """One kind of fault: how often it happened, in how many runs, and how many of those failed."""

    def __init__(self) -> None:
        self.runs = self.times = self.violations = 0

    def count(self, times: int, violates: bool) -> None:
        self.runs += 1
        self.times += times
        self.violations += violates


class Swept:
    """The sum of outcomes."""

    def __init__(self) -> None:
        self.violations = 0
        self.faults: dict[str, Fault] = {}
        self.totals: Counter[str] = Counter()

    def count(self, outcome: Outcome) -> None:
        self.violations += bool(outcome.violation)
        self.totals.update(outcome.statistics)
        for name, times in outcome.injected.items():
            self.faults.setdefault(name, Fault()).count(times, bool(outcome.violation))
