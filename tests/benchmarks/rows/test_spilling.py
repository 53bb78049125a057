"""Rows of a region that spills, small, from end to end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.bench import Bench, find_node
from benchmarks.report.figures import Result
from benchmarks.rows.catalog import matching
from benchmarks.scale import SMALLEST


def lines_of(name: str, redis_server: Path) -> dict[str, Result]:
    (row,) = matching(name)
    with Bench(SMALLEST, find_node(sys.executable), redis_server) as bench:
        return {result.name: result for result in row.measure(bench, row.name)}


@pytest.mark.parametrize("name", ["spilling-xadd-16", "spilling-tails", "spilling-xreadgroup-each"])
def test_what_touches_no_cold_entry_is_compared_with_a_region_that_keeps_all(name: str, redis_server: Path) -> None:
    lines = lines_of(name, redis_server)
    spilling, plain, multiple = (lines[f"{name}{suffix}"] for suffix in ("", "-without", "-multiple"))
    assert spilling.details["spilled_blocks"] > 0 and spilling.details["cold_reads_waited"] == 0
    assert multiple.target is not None and multiple.details["rounds"] == SMALLEST.short_rounds > 1
    assert multiple.ours.value > 0 and multiple.details["error"] > 0 and multiple.details["cpu_multiple"] > 0
    assert spilling.redis == plain.redis and spilling.redis is not None


def test_ranges_of_cold_entries_read_blocks(redis_server: Path) -> None:
    lines = lines_of("cold-xrange-random", redis_server)
    assert lines.keys() == {"cold-xrange-random", "cold-xrange-random-without", "cold-xrange-random-disk"}
    for name in ("cold-xrange-random", "cold-xrange-random-disk"):
        details = lines[name].details
        assert 0 < details["cold_reads_each"] < 3 and details["cold_read_bytes_each"] > 0
        assert f"{details['cold_reads_each']:.2f} blocks each" in lines[name].title


def test_a_scan_reads_everything_beside_readers_of_tails(redis_server: Path) -> None:
    lines = lines_of("cold-scan", redis_server)
    for name in ("cold-scan", "cold-scan-without", "cold-scan-tails", "cold-scan-tails-without"):
        assert lines[name].ours.value > 0 and lines[name].redis is not None
    assert lines["cold-scan"].details["cold_reads_waited"] == 0
