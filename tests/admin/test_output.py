"""Comparisons as tables."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from crdtstream.admin.comparison import compare, joined
from crdtstream.admin.output import as_json, fitting, regions_by_value
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


def test_rows_of_shards_have_a_column_and_a_field_for_it() -> None:
    found = joined([(shard, compare([RegionAnswer(region, b"12") for region in REGIONS[:2]])) for shard in (0, 1)])
    console = Console(width=40, record=True, file=StringIO())
    console.print(fitting("digest", found, console))
    assert "│ │ 1 │ value │ 12 │ 12 │" in [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert [row.get("shard") for row in as_json("digest", found)["rows"]] == [0, 1]
    assert "shard" not in as_json("digest", compare([RegionAnswer("east", b"12")]))["rows"][0]
