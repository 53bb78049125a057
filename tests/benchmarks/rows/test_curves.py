"""Rows that are curves, small, from end to end, and where their requests go."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from benchmarks.bench import Bench, find_node
from benchmarks.rows.catalog import matching
from benchmarks.rows.curves import ADDS, DEPTHS, amount, anywhere, depth_line, length_line
from benchmarks.scale import FULL, SMALLEST


def test_an_amount_is_that_of_the_next_smaller_depth() -> None:
    assert [amount(FULL, depth) for depth in DEPTHS] == [100_000, 100_000, 500_000, 500_000, 1_000_000, 1_000_000]


def test_a_page_begins_between_the_first_and_the_last() -> None:
    generator = random.Random(1)
    drawn = {anywhere(generator, (5, 7), (8, 2)) for _ in range(100)}
    assert drawn == {"5-0", "6-0", "7-0", "8-0"}
    assert {anywhere(generator, (5, 7), (5, 9)) for _ in range(10)} == {"5-0"}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("depths", [depth_line("depths", depth) for depth in DEPTHS]),
        ("entries", [length_line("entries", verb, 1_000) for verb in ("XADD", "XRANGE")]),
    ],
)
def test_a_curve_has_a_line_for_each_point(name: str, lines: list[str], redis_server: Path) -> None:
    (row,) = matching(name)
    with Bench(SMALLEST, find_node(sys.executable), redis_server) as bench:
        results = row.measure(bench, row.name)
    assert [result.name for result in results] == lines
    for result in results:
        assert result.redis is not None
        assert result.ours.value > 0 and result.redis.value > 0


def test_a_measurement_hardly_lengthens_a_stream() -> None:
    assert ADDS / (20 * ADDS // 1_000) <= 1_000 / 20 + 1
