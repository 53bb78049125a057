"""Samples, medians and percentiles: the figures of a row, and its target."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

AT_LEAST = "at least"
AT_MOST = "at most"
DRIVER_BUSY = 0.85


@dataclass(frozen=True, slots=True)
class Sample:
    """One repetition: the operations, their duration, and the CPU time of the server and the load generator."""

    operations: int
    seconds: float
    cpu_s: float
    driver_cpu_s: float
    instructions: int | None = None

    @property
    def rate(self) -> float:
        return self.operations / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / self.operations * 1e6

    @property
    def instructions_each(self) -> float | None:
        return None if self.instructions is None else self.instructions / self.operations

    @property
    def driver_bound(self) -> bool:
        """Return whether the load generator was saturated and the server was not."""
        return self.driver_cpu_s > DRIVER_BUSY * self.seconds and self.driver_cpu_s > self.cpu_s


@dataclass(frozen=True, slots=True)
class Side:
    """The figure of one server in a row: medians of its samples."""

    value: float
    cpu_us: float | None = None
    low: float | None = None
    high: float | None = None
    driver_bound: bool = False
    instructions: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The goal of a ratio, or of a value if there is nothing to compare it with."""

    sense: str
    bound: float

    def reached(self, measured: float) -> bool:
        return measured >= self.bound if self.sense == AT_LEAST else measured <= self.bound

    def __str__(self) -> str:
        sign = "≥" if self.sense == AT_LEAST else "≤"
        return f"{sign} {self.bound:,g}"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table."""

    name: str
    title: str
    unit: str
    ours: Side
    redis: Side | None = None
    target: Target | None = None
    details: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        return None if self.redis is None else divide(self.ours.value, self.redis.value)

    @property
    def cpu_ratio(self) -> float | None:
        if self.redis is None or self.ours.cpu_us is None or self.redis.cpu_us is None:
            return None
        return divide(self.ours.cpu_us, self.redis.cpu_us)

    @property
    def instruction_ratio(self) -> float | None:
        if self.redis is None or self.ours.instructions is None or self.redis.instructions is None:
            return None
        return divide(self.ours.instructions, self.redis.instructions)

    @property
    def reached(self) -> bool | None:
        """Return whether the target was reached; None without a target."""
        if self.target is None:
            return None
        return self.target.reached(self.ours.value if self.ratio is None else self.ratio)


def medians(runs: Sequence[list[Result]]) -> list[Result]:
    """Combine the results of a row that was measured once or several times: of each line the median of each figure;
    ratios are those of the medians.
    """
    if len(runs) == 1:
        return runs[0]
    return [_median([run[number] for run in runs]) for number in range(len(runs[0]))]


def _median(lines: Sequence[Result]) -> Result:
    first = lines[0]
    redis = [line.redis for line in lines if line.redis is not None]
    details = {key: statistics.median(line.details[key] for line in lines) for key in first.details}
    return replace(
        first,
        ours=_median_side([line.ours for line in lines]),
        redis=_median_side(redis) if redis else None,
        details=details,
    )


def _median_side(sides: Sequence[Side]) -> Side:
    values = [side.value for side in sides]
    cpu_us = [side.cpu_us for side in sides if side.cpu_us is not None]
    return Side(
        value=statistics.median(values),
        cpu_us=statistics.median(cpu_us) if cpu_us else None,
        low=min(values),
        high=max(values),
        driver_bound=any(side.driver_bound for side in sides),
    )


def divide(one: float, other: float) -> float:
    return one / other if other else math.inf


def summarize(samples: Sequence[Sample]) -> Side:
    rates = [sample.rate for sample in samples]
    counts = [sample.instructions_each for sample in samples if sample.instructions_each is not None]
    return Side(
        value=statistics.median(rates),
        cpu_us=statistics.median(sample.cpu_us for sample in samples),
        low=min(rates),
        high=max(rates),
        driver_bound=any(sample.driver_bound for sample in samples),
        instructions=statistics.median(counts) if counts else None,
    )


def with_instructions(results: Sequence[Result], counted: Sequence[Result]) -> list[Result]:
    """Return what was timed, with the instructions of the same rows from where these were counted."""
    by_name = {result.name: result for result in counted}
    return [combined(result, by_name[result.name]) for result in results]


def combined(timed: Result, counted: Result) -> Result:
    ours = replace(timed.ours, instructions=counted.ours.instructions)
    if timed.redis is None or counted.redis is None:
        return replace(timed, ours=ours)
    return replace(timed, ours=ours, redis=replace(timed.redis, instructions=counted.redis.instructions))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is at least as large as this share of all values."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
