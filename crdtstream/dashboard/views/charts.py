"""Charts of the last hour, or of longer: options of ECharts. Pure. Names are drawn on a canvas, never read as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crdtstream.dashboard.history import SampleLog, thinned

POINTS_MAX = 360
COLOURS = ("#5470c6", "#2f9e6e", "#e08e2b", "#d1495b", "#7b5ea7", "#2a9fb5", "#a0793d", "#8a8f98")
Points = Sequence[tuple[float, float | None]]

# Title, the field of a sample, whether its growth is shown, what a value is divided by.
CHARTS: tuple[tuple[str, str, bool, float], ...] = (
    ("Behind, seconds", "behind_ms", False, 1000.0),
    ("Behind, effects", "behind", False, 1.0),
    ("Commands each second", "commands", True, 1.0),
    ("Effects applied each second", "effects", True, 1.0),
    ("Memory, MiB", "memory_bytes", False, 1048576.0),
    ("Free disk, GiB", "disk_free_bytes", False, 1073741824.0),
    ("Log, MiB", "log_bytes", False, 1048576.0),
    ("Clients", "clients", False, 1.0),
)


def lines_of(history: SampleLog, field: str, grows: bool, unit: float) -> dict[str, Points]:
    """The points of each region, scaled, and not more than a chart can show."""
    found: dict[str, Points] = {}
    for name in history.names():
        points = history.rates(name, field) if grows else history.values(name, field)
        scaled = [(time, None if value is None else value / unit) for time, value in points]
        found[name] = thinned(scaled, POINTS_MAX)
    return found


def options(lines: Mapping[str, Points]) -> dict[str, Any]:
    series = [
        {
            "type": "line",
            "name": name,
            "showSymbol": False,
            "lineStyle": {"width": 1.5},
            "data": [[round(1000 * time), None if value is None else round(value, 3)] for time, value in points],
        }
        for name, points in lines.items()
    ]
    grey = {"color": "#8a94a6"}
    faint = {"lineStyle": {"color": "rgba(138,148,166,0.2)"}}
    return {
        "animation": False,
        "color": COLOURS,
        "grid": {"left": 56, "right": 12, "top": 34, "bottom": 26},
        "legend": {"top": 0, "textStyle": grey, "icon": "roundRect", "itemHeight": 4, "type": "scroll"},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "xAxis": {"type": "time", "axisLabel": {**grey, "hideOverlap": True}, "splitLine": {"show": False}},
        "yAxis": {"type": "value", "min": 0, "axisLabel": grey, "splitLine": faint},
        "series": series,
    }
