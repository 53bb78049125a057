"""Comparisons as tables."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from crdtstream.admin.comparison import compare
from crdtstream.admin.output import fitting, regions_by_value
from crdtstream.observing.asking import RegionAnswer

REGIONS = ("east", "west", "north", "south", "frankfurt", "singapore", "sao-paulo", "sydney")
DIGEST = "5ee9fb8fe052a634e0cbe68debe446257c7c4552"


def shown(values: list[bytes], columns: int) -> list[str]:
    answers = [RegionAnswer(region, [b"digest", value]) for region, value in zip(REGIONS, values, strict=False)]
    console = Console(width=columns, record=True, highlight=False, markup=False, file=StringIO())
    console.print(fitting("diff orders", compare(answers), console))
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_a_column_for_each_region_where_they_fit() -> None:
    assert "│ │ digest │ 12 │ 12 │" in shown([b"12", b"12"], 40)


def test_eight_digests_are_whole_on_a_hundred_columns() -> None:
    assert shown([DIGEST.encode()] * 8, 100)[1:] == ["field regions value", f"digest all {DIGEST}"]


def test_each_value_stands_with_its_regions() -> None:
    other = DIGEST[::-1]
    values = [DIGEST.encode(), other.encode(), *[DIGEST.encode()] * 6]
    assert shown(values, 100)[2:] == [
        f"≠ digest east, north, south, frankfurt, {DIGEST}",
        "singapore, sao-paulo, sydney",
        f"west {other}",
    ]


def test_only_regions_that_did_not_answer_have_an_error() -> None:
    refused = RegionAnswer("west", error="Connection refused " * 6, unreachable=True)
    comparison = compare([RegionAnswer("east", 1), refused])
    assert regions_by_value(comparison.rows[0], comparison.regions) == [(refused.error, "west")]
    assert regions_by_value(comparison.rows[1], comparison.regions) == [("1", "east"), ("-", "west")]
