"""Drawings that take their colours from the page, and numbers in the unit that fits."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pyspark")

from crdtstream.spark.jobs.report import PANELS
from crdtstream.spark.report_page import charts
from crdtstream.spark.report_page.sums import Bins, gaps, origin_of, stream_of, totals
from tests.spark.report_page.rows import two_days


def drawings() -> dict[str, str]:
    rows = two_days()
    bins = Bins.of(rows)
    return {
        "stacked": charts.stacked("stacked", bins, bins.series(rows, PANELS[0], stream_of), charts.count),
        "lines": charts.lines("lines", bins, bins.series(rows, PANELS[2], origin_of), charts.duration),
        "shares": charts.shares("shares", totals(rows, origin_of)),
        "activity": charts.activity("activity", bins, [("orders:paid", "2.91c0")], gaps(rows)),
    }


def test_drawings_have_the_colours_of_the_page_and_ids_of_their_own() -> None:
    ids: list[str] = []
    for name, svg in drawings().items():
        colours = set(re.findall(r"#[0-9a-f]{6}\b", svg))
        assert colours <= {"#000000"}, f"{name} has colours that no scheme changes"
        assert "var(--series-0)" in svg and "<metadata" not in svg
        mine = re.findall(r'\bid="([^"]+)"', svg)
        assert set(re.findall(r'(?:url\(|href=")#([^")]+)', svg)) <= set(mine), "a reference leads nowhere"
        ids += mine
    assert len(ids) == len(set(ids))


def test_the_same_rows_make_the_same_drawing() -> None:
    assert drawings() == drawings()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (charts.duration(0), "0 ms"),
        (charts.duration(1_500), "1.5 s"),
        (charts.duration(90_000), "1.5 min"),
        (charts.duration(7_200_000), "2 h"),
        (charts.duration(86_400_000 * 3), "3 d"),
        (charts.size(999), "999 B"),
        (charts.size(2_500_000), "2.5 MB"),
        (charts.count(9_999), "9,999"),
        (charts.count(25_000), "25 k"),
        (charts.count(12e9), "12 G"),
    ],
)
def test_numbers_have_the_largest_unit_that_fits(text: str, expected: str) -> None:
    assert text == expected
