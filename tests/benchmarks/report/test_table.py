"""What the table and the JSON show of a result."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from benchmarks.report.figures import AT_LEAST, Result, Side, Target
from benchmarks.report.table import COLUMNS, cells, make_json, make_table, number_text

COMPARED = Result(
    "xadd-1",
    "XADD, pipeline 1",
    "op/s",
    Side(60_000.4, 15.04, 1, 2, driver_bound=True, instructions=14_800.5),
    Side(100_000, 10.0, instructions=10_000),
    Target(AT_LEAST, 0.6),
)
ALONE = Result("lag-p50", "lag", "ms", Side(3.14159), details={"probes": 7})


def test_a_compared_row_has_both_sides() -> None:
    assert [str(cell) for cell in cells(COMPARED)] == [
        "XADD, pipeline 1",
        "60,000* op/s",
        "100,000",
        "0.60",
        "15",
        "10",
        "1.50",
        "14,800",
        "10,000",
        "1.48",
        "≥ 0.6",
        "yes",
    ]


def test_a_row_of_ours_alone_leaves_the_rest_empty() -> None:
    assert cells(ALONE) == ["lag", "3.14 ms", *[""] * (len(COLUMNS) - 2)]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0123, "0.0123"), (9.876, "9.88"), (99.96, "100"), (100, "100"), (1234567.8, "1,234,568")]
)
def test_numbers_keep_three_digits_or_all_before_the_point(value: float, text: str) -> None:
    assert number_text(value) == text


def test_the_table_names_the_machine() -> None:
    console = Console(width=200)
    with console.capture() as shown:
        console.print(make_table([COMPARED, ALONE], {"machine": "two cores"}))
    assert "machine: two cores" in shown.get()
    assert "XADD, pipeline 1" in shown.get()


def test_json_has_the_numbers_unrounded() -> None:
    document = json.loads(make_json([COMPARED, ALONE], {"machine": "two cores"}, {"lag": "too slow"}))
    compared, alone = document["rows"]
    ours = {"value": 60_000.4, "cpu_us": 15.04, "low": 1, "high": 2, "driver_bound": True, "instructions": 14_800.5}
    assert compared["ours"] == ours
    assert compared["instruction_ratio"] == pytest.approx(1.48005)
    assert compared["ratio"] == pytest.approx(0.600004)
    assert compared["target"] == {"sense": "at least", "bound": 0.6}
    assert compared["reached"] is True
    assert (alone["redis"], alone["ratio"], alone["reached"]) == (None, None, None)
    assert alone["details"] == {"probes": 7}
    assert document["failures"] == {"lag": "too slow"}
