"""What the last hour says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.dashboard.trends import (
    FILLS_FOR_S,
    GUESSES_MAX,
    RESTARTS_S,
    RegionTrends,
    Trend,
)
from tests.dashboard.cluster import report

GIB = 1 << 30


def test_a_line_is_followed() -> None:
    trend = Trend(3600.0)
    for minute in range(10):
        trend.record(60.0 * minute, 1000 - 5 * minute)
    assert trend.value_in(3600.0) == pytest.approx(955 - 300)


def test_old_values_go_and_few_are_kept() -> None:
    trend = Trend(60.0, 10.0)
    for second in range(200):
        trend.record(float(second), 1.0)
    assert [time for time, _ in trend.points] == [140.0, 150.0, 160.0, 170.0, 180.0, 190.0]


def test_a_counter_that_began_again_has_grown() -> None:
    trend = Trend(300.0)
    for second, value in enumerate((5, 9, 2, 4)):
        trend.record(float(second), value)
    assert trend.growth() == 4 + 2 + 2


def test_three_starts_within_a_quarter_of_an_hour() -> None:
    trends = RegionTrends()
    for number in range(3):
        trends.record(60.0 * number, report(1, {}, run_id=f"run {number}"))
    assert not trends.restarts, "the first start was not seen"
    trends.record(180.0, report(1, {}, run_id="run 3"))
    assert trends.restarts
    trends.record(180.0 + RESTARTS_S, report(1, {}, run_id="run 3"))
    assert not trends.restarts


def test_wrong_passwords_within_five_minutes() -> None:
    trends = RegionTrends()
    for denied in (100, 100 + GUESSES_MAX, 101 + GUESSES_MAX):
        trends.record(float(denied), report(1, {}, passwords_denied=denied))
        assert trends.is_guessed_at == (denied > 100 + GUESSES_MAX)
    trends.record(1000.0, report(1, {}, passwords_denied=101 + GUESSES_MAX))
    assert not trends.is_guessed_at


def disk(trends: RegionTrends, lost_bytes_per_s: int, until_s: float) -> None:
    for step in range(int(until_s / 30) + 1):
        free_bytes = GIB - 30 * step * lost_bytes_per_s
        trends.record(30.0 * step, replace(report(1, {}), disk_free_bytes=free_bytes))


def test_a_disk_that_fills_up() -> None:
    slow, fast = RegionTrends(), RegionTrends()
    disk(slow, 50_000, FILLS_FOR_S + 60)
    disk(fast, 100_000, FILLS_FOR_S + 60)
    assert (slow.fills_up(FILLS_FOR_S + 60), fast.fills_up(FILLS_FOR_S + 60)) == (False, True)
    assert not fast.fills_up(FILLS_FOR_S), "not for long enough"
