"""The charts of the page, drawn by matplotlib as SVG whose colours are variables of the page's style.

So one drawing is right in light and in dark, and its text is the page's. Matplotlib knows no variables: it draws with
colours that nobody would choose, which are replaced afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from io import StringIO
from math import nan
from typing import Any, Final

from crdtstream.spark.jobs.report import REST
from crdtstream.spark.report_page.sums import HOUR, Bins, Gap, Series, Total

WIDE, HALF = 12.4, 6.0
INK, GRID, MISSING = "#010203", "#010204", "#010205"
SERIES: Final = tuple(f"#0102{number:02x}" for number in range(0x10, 0x18))
OTHERS: Final = "#010206"
VARIABLES: Final = {
    INK: "var(--ink-soft)",
    GRID: "var(--line)",
    MISSING: "var(--warning)",
    OTHERS: "var(--series-rest)",
} | {colour: f"var(--series-{number})" for number, colour in enumerate(SERIES)}
STYLE: Final = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
}
DrawOn = Callable[[Any], None]
# Largest first; a lag of hours is not read as thousands of seconds.
DURATIONS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
SIZES: Final = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B"))
COUNTS: Final = ((10**9, "G"), (10**6, "M"), (10**3, "k"), (1, ""))
COUNTED_WHOLE: Final = 10_000


def duration(ms: float) -> str:
    return scaled(ms, DURATIONS)


def size(count_bytes: float) -> str:
    return scaled(count_bytes, SIZES)


def count(number: float) -> str:
    return scaled(number, COUNTS) if number >= COUNTED_WHOLE else f"{number:,.0f}"


def scaled(value: float, units: Sequence[tuple[int, str]]) -> str:
    """The value in the largest unit of which it has one, with three digits."""
    factor, unit = next((each for each in units if value >= each[0]), units[-1])
    number = value / factor
    return f"{number:.3g} {unit}".strip() if number < 999.5 else f"{number:,.0f} {unit}".strip()


def colour_of(name: str, index: int) -> str:
    return OTHERS if name == REST else SERIES[index % len(SERIES)]


def drawn(name: str, draw: DrawOn, width: float, height: float) -> str:
    """Return what `draw` draws on axes as an SVG element; `name` makes its IDs different from those of other charts."""
    # Works without a display; imported here because only drawing needs it.
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**STYLE, "svg.hashsalt": name, "svg.id": name}):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.subplots()
        axes.patch.set_alpha(0)
        draw(axes)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return themed(text.getvalue(), name)


def themed(svg: str, name: str) -> str:
    """Keep the element alone, with IDs of its own, and with variables for colours."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", element)
    for colour, variable in VARIABLES.items():
        element = element.replace(colour, variable)
    return element


def time_axis(axes: Any, bins: Bins) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(maxticks=8)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))
    axes.set_xlim(bins.begins[0], bins.begins[-1] + bins.width)


def value_axis(axes: Any, text: Callable[[float], str]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axes.set_ylim(bottom=0)


def edges_of(bins: Bins) -> list[Any]:
    return [*bins.begins, bins.begins[-1] + bins.width]


def stacked(name: str, bins: Bins, series: Sequence[Series], text: Callable[[float], str]) -> str:
    """Areas above each other: the sum of a bin is their height."""

    def draw(axes: Any) -> None:
        base = [0] * len(bins.begins)
        for index, each in enumerate(series):
            top = [low + value for low, value in zip(base, each.values, strict=True)]
            axes.stairs(top, edges_of(bins), baseline=base, fill=True, color=colour_of(each.name, index), linewidth=0)
            base = top
        time_axis(axes, bins)
        value_axis(axes, text)

    return drawn(name, draw, HALF, 2.7)


def lines(name: str, bins: Bins, series: Sequence[Series], text: Callable[[float], str]) -> str:
    """A line for each series, at the middle of each bin."""

    def draw(axes: Any) -> None:
        middles = [begins + bins.width / 2 for begins in bins.begins]
        for index, each in enumerate(series):
            # Nothing is archived within a millisecond: that is an hour without entries.
            values = [value or nan for value in each.values]
            axes.plot(middles, values, marker="o", markersize=3, color=colour_of(each.name, index), linewidth=1.6)
        time_axis(axes, bins)
        value_axis(axes, text)

    return drawn(name, draw, HALF, 2.7)


def shares(name: str, totals: Sequence[Total]) -> str:
    """A bar for each name, and where all would end if they were equal."""

    def draw(axes: Any) -> None:
        names = [shortened(total.name) for total in totals]
        places = list(range(len(totals)))
        colours = [colour_of(total.name, index) for index, total in enumerate(totals)]
        axes.barh(places, [100 * total.share for total in totals], color=colours, height=0.62)
        axes.axvline(100 * totals[0].share / totals[0].times_mean, color=INK, linestyle="--", linewidth=1)
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.grid(axis="x", visible=True)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.3g} %")

    return drawn(name, draw, HALF, 0.8 + 0.32 * max(3, len(totals)))


def activity(name: str, bins: Bins, rows: Sequence[tuple[str, str]], found: Sequence[Gap]) -> str:
    """A line for each stream and origin over its time, in another colour where it has a gap."""

    def draw(axes: Any) -> None:
        from matplotlib.dates import date2num

        start, end = edges_of(bins)[0], edges_of(bins)[-1]
        for place, (stream, origin) in enumerate(rows):
            bars = [gap for gap in found if (gap.stream, gap.origin) == (stream, origin)]
            axes.broken_barh(
                [(date2num(start), (end - start) / timedelta(days=1))], (place - 0.3, 0.6), color=SERIES[0]
            )
            spans = [(date2num(gap.begins), (gap.ends - gap.begins) / timedelta(days=1)) for gap in bars]
            axes.broken_barh(spans, (place - 0.3, 0.6), color=MISSING)
        time_axis(axes, bins)
        axes.set_yticks(range(len(rows)), [shortened(f"{stream} · {origin}", 34) for stream, origin in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(visible=False)

    return drawn(name, draw, WIDE, 0.8 + 0.3 * max(3, len(rows)))


def shortened(name: str, length: int = 22) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"


def moment_text(bins: Bins, index: int) -> str:
    return f"{bins.begins[index]:%Y-%m-%d %H:%M}" if bins.width == HOUR else f"{bins.begins[index]:%Y-%m-%d}"
