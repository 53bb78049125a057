"""The curves as SVG files, with Redis beside ours. Needs matplotlib, which the extra `bench` brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.report.figures import Result, Side
from benchmarks.rows.curves import DEPTHS, depth_line, length_line
from benchmarks.servers import BenchmarkError

LENGTHS = tuple(10**digits for digits in range(3, 8))
COSTS = {"XADD": "XADD, pipeline 16", "XRANGE": "XRANGE COUNT 100"}
PANEL_INCHES = (5.0, 3.4)
# Text stays text, and the same figures make the same file.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "crdtstream", "font.size": 10}

Points = Sequence[tuple[int, Result]]


def check_can_plot() -> None:
    if find_spec("matplotlib") is None:
        raise BenchmarkError("plots need matplotlib: pip install 'crdtstream[bench]'")


def draw(results: Sequence[Result], directory: Path) -> list[Path]:
    """Draw the curves whose points were measured; return the files."""
    by_name = {result.name: result for result in results}
    drawn = []
    depths = points(by_name, {depth: depth_line("depths", depth) for depth in DEPTHS})
    if depths:
        drawn.append(directory / "throughput-by-depth.svg")
        draw_depths(depths, drawn[-1])
    costs = {
        title: points(by_name, {length: length_line("entries", verb, length) for length in LENGTHS})
        for verb, title in COSTS.items()
    }
    if all(costs.values()):
        drawn.append(directory / "cost-by-length.svg")
        draw_costs(costs, drawn[-1])
    return drawn


def points(by_name: dict[str, Result], names: dict[int, str]) -> Points:
    return [(at, by_name[name]) for at, name in names.items() if name in by_name]


def draw_depths(depths: Points, path: Path) -> None:
    figure, (panel,) = panels(1)
    lines(panel, depths, lambda side: side.value / 1000)
    panel.set_xscale("log", base=2)
    panel.set_xticks([depth for depth, _ in depths], [str(depth) for depth, _ in depths])
    label(panel, "throughput of XADD, 50 connections", "pipeline depth", "thousands a second")
    save(figure, path)


def draw_costs(costs: dict[str, Points], path: Path) -> None:
    figure, axes = panels(len(costs))
    for panel, (title, lengths) in zip(axes, costs.items(), strict=True):
        lines(panel, lengths, lambda side: side.cpu_us or 0.0)
        panel.set_xscale("log")
        label(panel, title, "entries in the stream", "µs of server CPU for each")
    save(figure, path)


def panels(count: int) -> tuple[Any, list[Any]]:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(PANEL_INCHES[0] * count, PANEL_INCHES[1]), layout="constrained")
        return figure, list(figure.subplots(1, count, squeeze=False)[0])


def lines(panel: Any, measured: Points, value: Callable[[Side], float]) -> None:
    at = [point for point, _ in measured]
    ours = [value(result.ours) for _, result in measured]
    redis = [value(result.redis) for _, result in measured if result.redis is not None]
    panel.plot(at, ours, color="#3f51b5", marker="o", label="crdtstream")
    panel.plot(at, redis, color="#d84315", marker="s", label="Redis")


def label(panel: Any, title: str, x: str, y: str) -> None:
    panel.set_title(title)
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    panel.set_ylim(0, 1.1 * panel.get_ylim()[1])
    panel.grid(axis="y", color="#dddddd")
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False)


def save(figure: Any, path: Path) -> None:
    from matplotlib import rc_context

    with rc_context(STYLE):
        figure.savefig(path, format="svg", metadata={"Date": None})
