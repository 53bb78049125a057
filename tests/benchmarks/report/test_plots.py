"""The curves as SVG files."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.report.figures import Result, Side
from benchmarks.report.plots import COSTS, check_can_plot, draw
from benchmarks.rows.curves import DEPTHS, depth_line, length_line
from benchmarks.servers import BenchmarkError

LENGTHS = (1_000, 10_000)
BY_DEPTH = [
    Result(depth_line("depths", depth), "by depth", "op/s", Side(1e4 * depth), Side(2e4 * depth)) for depth in DEPTHS
]
BY_LENGTH = [
    Result(length_line("entries", verb, length), "by length", "op/s", Side(1, cpu_us=2), Side(1, cpu_us=1))
    for verb in COSTS
    for length in LENGTHS
]


def test_both_curves_are_drawn_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    depths, costs = draw([*BY_LENGTH, *BY_DEPTH], tmp_path)
    assert (depths.name, costs.name) == ("throughput-by-depth.svg", "cost-by-length.svg")
    text = costs.read_text()
    for title in (*COSTS.values(), "crdtstream", "Redis"):
        assert f">{title}</text>" in text
    draw(BY_LENGTH, tmp_path)
    assert costs.read_text() == text


def test_what_was_not_measured_is_not_drawn(tmp_path: Path) -> None:
    assert draw([Result("xadd-1", "XADD", "op/s", Side(1))], tmp_path) == []
    assert not list(tmp_path.iterdir())


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.report.plots.find_spec", lambda _name: None)
    with pytest.raises(BenchmarkError, match=r"crdtstream\[bench\]"):
        check_can_plot()
