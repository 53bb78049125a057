"""Curves of small regions, from end to end, and what decides that a point does not fit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.bench import find_node
from benchmarks.curves import ENTRIES, STREAMS, Point, curve, table_of, why_not

FEW = 100_000  # bytes of hot blocks
GB = 1_000_000_000


def test_a_region_that_spills_is_measured_and_starts_again(tmp_path: Path) -> None:
    points = list(curve(find_node(sys.executable), tmp_path, ENTRIES, range(1, 10_001), True, 6 * GB, FEW))
    assert [point.count for point in points] == [1_000, 10_000]
    figures = points[-1].figures
    assert figures["spilled_blocks"] > 0 and figures["xrange_reads"] > 0
    assert figures["hot_bytes"] < figures["spilled_bytes"] + FEW
    assert figures["anonymous_bytes"] > figures["empty_bytes"] / 2 and figures["block_file_bytes"] > 10_000
    assert table_of(points).row_count == 2


def test_a_region_of_streams_keeps_them_in_memory(tmp_path: Path) -> None:
    (one,) = curve(find_node(sys.executable), tmp_path, STREAMS, range(1, 2), False, 6 * GB, FEW)
    assert one.figures["spilled_blocks"] == 0 and one.figures["adds_per_s"] > 0 and one.figures["start_s"] > 0


def test_what_is_outside_of_the_range_is_not_measured(tmp_path: Path) -> None:
    assert not list(curve(find_node(sys.executable), tmp_path, ENTRIES, range(1_001, 10_000), True, 6 * GB, FEW))


@pytest.mark.parametrize(
    ("spills", "memory_max", "disk_bytes", "reason"),
    [
        (False, 6 * GB, 100 * GB, ""),
        (False, 2 * GB, 100 * GB, "about 2.4 GB of memory, 2.0 GB are allowed"),
        (True, 2 * GB, 100 * GB, ""),
        (True, 2 * GB, 5 * GB, "about 10.0 GB of disk, 5.0 GB are free"),
    ],
)
def test_what_does_not_fit_is_left_out(spills: bool, memory_max: int, disk_bytes: int, reason: str) -> None:
    held = {"empty_bytes": 5e7, "anonymous_bytes": 2.8e8, "start_anonymous_bytes": 2e8}
    before = Point(ENTRIES, 10, spills, figures={**held, "disk_bytes": 1e9, "spilled_blocks": 1e5})
    assert why_not(before, 100, memory_max, disk_bytes) == reason
