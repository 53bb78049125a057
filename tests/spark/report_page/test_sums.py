"""Rows added up by name and by hour, and the hours in which an origin was silent."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from datetime import timedelta

from crdtstream.spark.jobs.report import PANELS, REST, STREAMS_DRAWN
from crdtstream.spark.report_page.sums import (
    DAY,
    HOUR,
    HOURS_SHOWN,
    Bins,
    gaps,
    origin_of,
    stream_of,
    totals,
    usual_lag_ms,
)
from tests.spark.report_page.rows import AWAY, AWAY_HOURS, BEGINS, STREAMS, row, two_days

ENTRIES, _, LAG, _ = PANELS


def test_totals_are_the_largest_first_with_their_share() -> None:
    rows = [row("a", "1.x", 0, 1, lag_ms_max=5), row("b", "1.x", 0, 6), row("b", "2.y", 1, 1, lag_ms_max=9)]
    b, a = totals(rows, stream_of)
    assert (b.name, b.entries, b.share, b.times_mean, b.lag_ms_max) == ("b", 7, 7 / 8, 7 / 4, 9)
    assert (a.name, a.entries, a.share, a.times_mean, a.lag_ms_max) == ("a", 1, 1 / 8, 1 / 4, 5)
    assert [total.entries for total in totals(rows, origin_of)] == [7, 1]


def test_the_usual_lag_is_that_of_most_entries() -> None:
    assert usual_lag_ms([row(entries=1, lag_ms=5_000), row(entries=10, lag_ms=20), row(entries=2, lag_ms=1)]) == 20
    assert usual_lag_ms([]) == 0


def test_bins_have_no_holes_and_become_days() -> None:
    near = Bins.of([row(hour=3), row(hour=6)])
    assert near.width == HOUR and len(near.begins) == 4
    far = Bins.of([row(hour=5), row(hour=HOURS_SHOWN + 30)])
    assert far.width == DAY and far.begins[0] == BEGINS and far.index(BEGINS + timedelta(hours=25)) == 1
    assert Bins.of([]).begins == ()


def test_small_streams_are_one_series_and_a_lag_is_no_sum() -> None:
    rows = [row(f"s{number}", hour=0, entries=number + 1, lag_ms_max=number) for number in range(STREAMS_DRAWN + 2)]
    series = Bins.of(rows).series(rows, ENTRIES, stream_of)
    assert [each.values for each in series if each.name == REST] == [(1 + 2,)]
    assert sum(each.values[0] for each in series) == sum(each.entries for each in rows)
    assert [each.values for each in Bins.of(rows).series(rows, LAG, stream_of) if each.name == REST] == [(1,)]


def test_a_gap_is_within_the_hours_of_its_stream() -> None:
    found = gaps(
        [row("s", "1.x", 0), row("s", "1.x", 1), row("s", "1.x", 5, 3), row("s", "2.y", 3, 7), row("t", hour=9)]
    )
    assert [(gap.origin, (gap.begins - BEGINS) // HOUR, gap.hours, gap.meanwhile) for gap in found] == [
        ("1.x", 2, 3, 7),
        ("2.y", 0, 3, 2),
        ("2.y", 4, 2, 3),
    ]


def test_a_region_that_was_away_has_a_gap_in_each_stream() -> None:
    found = gaps(two_days())
    assert {(gap.stream, gap.origin, gap.hours) for gap in found} == {(each, AWAY, len(AWAY_HOURS)) for each in STREAMS}
