"""Medians, percentiles, targets, and when a sample says more about the load generator than about the server."""

from __future__ import annotations

import pytest

from benchmarks.report.figures import (
    AT_LEAST,
    AT_MOST,
    Result,
    Sample,
    Side,
    Target,
    divide,
    medians,
    percentile,
    summarize,
    with_instructions,
)


def test_a_sample_is_a_rate_and_a_cost() -> None:
    sample = Sample(operations=1_000, seconds=2.0, cpu_s=0.5, driver_cpu_s=0.1)
    assert sample.rate == 500
    assert sample.cpu_us == 500


@pytest.mark.parametrize(
    ("cpu_s", "driver_cpu_s", "bound"),
    [(0.5, 0.95, True), (0.99, 0.95, False), (0.5, 0.8, False)],
)
def test_a_driver_is_the_bound_when_only_it_was_busy(cpu_s: float, driver_cpu_s: float, bound: bool) -> None:
    assert Sample(1, 1.0, cpu_s, driver_cpu_s).driver_bound is bound


def test_a_side_is_the_median_with_its_spread() -> None:
    samples = [Sample(100, 1.0, 0.3, 0.0), Sample(100, 2.0, 0.1, 0.0), Sample(100, 4.0, 0.2, 3.9)]
    assert summarize(samples) == Side(value=50, cpu_us=2_000, low=25, high=100, driver_bound=True)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.2, 1), (0.21, 2), (0.5, 3), (0.8, 4), (0.99, 5), (1.0, 5)]
)
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert percentile([5, 3, 1, 4, 2], share) == expected


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@pytest.mark.parametrize(
    ("target", "ours", "redis", "reached"),
    [
        (Target(AT_LEAST, 0.6), 60.0, 100.0, True),
        (Target(AT_LEAST, 0.6), 59.0, 100.0, False),
        (Target(AT_MOST, 3.0), 300.0, 100.0, True),
        (Target(AT_MOST, 3.0), 301.0, 100.0, False),
        (Target(AT_LEAST, 300.0), 300.0, None, True),
        (Target(AT_LEAST, 300.0), 299.0, None, False),
        (None, 1.0, 1.0, None),
    ],
)
def test_a_target_is_about_the_ratio_else_the_value(
    target: Target | None, ours: float, redis: float | None, reached: bool | None
) -> None:
    result = Result("row", "row", "op/s", Side(ours), None if redis is None else Side(redis), target)
    assert result.reached is reached


def test_cpu_is_compared_where_both_have_it() -> None:
    assert Result("r", "r", "", Side(1, cpu_us=3), Side(1, cpu_us=2)).cpu_ratio == 1.5
    assert Result("r", "r", "", Side(1, cpu_us=3), Side(1)).cpu_ratio is None
    assert Result("r", "r", "", Side(1, cpu_us=3)).cpu_ratio is None


def test_a_ratio_to_nothing_is_not_an_error() -> None:
    assert divide(1, 0) == float("inf")


def test_instructions_are_for_each_operation() -> None:
    samples = [Sample(10, 1.0, 0.0, 0.0, instructions) for instructions in (100, 900, 200)]
    assert summarize(samples).instructions == 20
    assert summarize([Sample(10, 1.0, 0.0, 0.0)]).instructions is None


def test_instructions_join_what_was_timed() -> None:
    timed = [Result("a", "A", "op/s", Side(5), Side(6)), Result("b", "B", "op/s", Side(7))]
    counts = [Result("b", "B", "op/s", Side(1, instructions=3)), Result("a", "A", "op/s", Side(1), Side(1))]
    assert with_instructions(timed, counts) == [
        Result("a", "A", "op/s", Side(5), Side(6)),
        Result("b", "B", "op/s", Side(7, instructions=3)),
    ]


def test_instructions_are_compared_where_both_have_them() -> None:
    assert Result("r", "r", "", Side(1, instructions=30), Side(1, instructions=20)).instruction_ratio == 1.5
    assert Result("r", "r", "", Side(1, instructions=30), Side(1)).instruction_ratio is None
    assert Result("r", "r", "", Side(1, instructions=30)).instruction_ratio is None


def test_a_row_that_is_measured_as_a_whole_has_medians() -> None:
    lines = [Result("r", "R", "ms", Side(one, cpu_us=one), Side(10 * one), details={"p50": one}) for one in (3, 1, 8)]
    (median,) = medians([[line] for line in lines])
    assert (median.ours, median.redis) == (Side(3, 3, 1, 8), Side(30, None, 10, 80))
    assert median.ratio == 0.1 and median.details == {"p50": 3}
    (alone,) = medians([[Result("r", "R", "ms", Side(one))] for one in (1, 2)])
    assert (alone.redis, alone.ours) == (None, Side(1.5, None, 1, 2))


def test_a_row_that_is_measured_once_keeps_its_spread() -> None:
    line = Result("r", "R", "op/s", Side(2, 1, 1, 3, True, 5), Side(1))
    assert medians([[line]]) == [line]
