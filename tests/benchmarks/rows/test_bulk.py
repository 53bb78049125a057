"""The rows of the bulk port, small, from end to end; they need no other server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.bench import Bench, find_node
from benchmarks.rows.catalog import matching
from benchmarks.scale import SMALLEST


@pytest.mark.parametrize("name", ["bulk-write", "bulk-read"])
def test_a_row_measures_the_port(name: str) -> None:
    (row,) = matching(name)
    with Bench(SMALLEST, find_node(sys.executable), Path("unused")) as bench:
        (result,) = row.measure(bench, row.name)
    assert (result.name, result.unit, result.redis) == (name, "rows/s", None)
    assert result.ours.value > 0
    # The system counts CPU in ticks of 10 ms, and so small a read may take less.
    assert result.ours.cpu_us is not None and result.ours.cpu_us >= 0
