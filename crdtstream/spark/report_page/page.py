"""One HTML file of a report: charts with their numbers in tables. It asks no server for anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from crdtstream.spark.jobs.report import PANELS, REST, STREAMS_DRAWN, Panel, ReportRow
from crdtstream.spark.report_page import charts
from crdtstream.spark.report_page.sums import (
    GAPS_SHOWN,
    Bins,
    Gap,
    NameOf,
    Series,
    Total,
    gaps,
    origin_of,
    stream_of,
    totals,
)

LINES_SHOWN: Final = 16
ROWS_SHOWN: Final = 500
ENTRIES, BYTES, LAG, CONFLICTS = PANELS
TEXTS: Final[dict[str, Callable[[float], str]]] = {
    ENTRIES.title: charts.count,
    BYTES.title: charts.size,
    LAG.title: charts.duration,
    CONFLICTS.title: charts.count,
}
EXPLAINED: Final = {
    ENTRIES.title: "Entries {by}, of all that the archive holds.",
    BYTES.title: "Bytes of fields and values {by}, before the archive's compression.",
    LAG.title: "The longest time from an entry's ID to its archiving, {by}.",
    CONFLICTS.title: "Entries {by} whose ID another origin has used in the same stream. Both were kept.",
}
KINDS: Final[tuple[tuple[str, NameOf], ...]] = (("stream", stream_of), ("origin", origin_of))


@dataclass(frozen=True)
class Numbers:
    """A table: its columns with their units, and its rows; `more` are the rows that it leaves out."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0


@dataclass(frozen=True)
class Drawing:
    """A chart, what it shows in words, the colours of its names, and its numbers."""

    heading: str
    svg: str
    description: str
    legend: Sequence[tuple[str, int]]
    numbers: Numbers


@dataclass(frozen=True)
class PagePart:
    """A part of the page; `nothing` is its text if there is nothing to draw."""

    title: str
    explanation: str
    drawings: Sequence[Drawing] = ()
    nothing: str = ""
    wide: bool = False


def write_page(rows: Sequence[ReportRow], archive: str, target: Path, now: datetime | None = None) -> None:
    """Write the page of these rows; `archive` is how it names their source."""
    target.write_text(page(rows, archive, now or datetime.now(UTC)), encoding="utf-8")


def page(rows: Sequence[ReportRow], archive: str, now: datetime) -> str:
    from jinja2 import Environment, PackageLoader

    # Names of streams are anybody's text, and the drawings have theirs escaped by matplotlib.
    loader = PackageLoader("crdtstream.spark.report_page", ".")
    template = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template(
        "page.html"
    )
    bins = Bins.of(rows)
    found = gaps(rows)
    return template.render(
        archive=archive,
        now=f"{now:%Y-%m-%d %H:%M} UTC",
        span=span(bins),
        tiles=tiles(rows, found) if rows else (),
        sections=sections(rows, bins, found) if rows else (),
        rest=REST,
    )


def span(bins: Bins) -> str:
    if not bins.begins:
        return ""
    first, last = charts.moment_text(bins, 0), charts.moment_text(bins, -1)
    return f"{first} to {last} UTC, by {bins.word}" if first != last else f"the {bins.word} of {first} UTC"


def tiles(rows: Sequence[ReportRow], found: Sequence[Gap]) -> list[tuple[str, str, str, bool]]:
    """The figures at the top: name, value, what it is in words, and whether to look into it."""
    conflicts, hours = sum(row.conflicts for row in rows), sum(gap.hours for gap in found)
    origins = totals(rows, origin_of)
    whole = totals(rows, lambda _: "")[0]
    return [
        ("Entries", f"{whole.entries:,}", f"in {counted(len({row.stream for row in rows}), 'stream')}", False),
        ("Bytes", charts.size(whole.size_bytes), f"{charts.size(whole.size_bytes / whole.entries)} an entry", False),
        ("Lag", charts.duration(whole.lag_ms), f"median; {charts.duration(whole.lag_ms_max)} at most", False),
        ("Conflicts", f"{conflicts:,}", "entries with an ID used twice", conflicts > 0),
        ("Gaps", f"{len(found):,}", f"{counted(hours, 'hour')} without an entry", bool(found)),
        (
            "Skew",
            f"{origins[0].times_mean:.2f}",
            f"times the mean: the largest of {counted(len(origins), 'origin')}",
            False,
        ),
    ]


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def sections(rows: Sequence[ReportRow], bins: Bins, found: Sequence[Gap]) -> list[PagePart]:
    return [*(by_time(rows, bins, panel) for panel in PANELS), gap_section(rows, bins, found), skew_section(rows)]


# By hour


def by_time(rows: Sequence[ReportRow], bins: Bins, panel: Panel) -> PagePart:
    explanation = EXPLAINED[panel.title].format(by=f"by {bins.word}")
    if not any(panel.of(row) for row in rows):
        return PagePart(panel.title, explanation, nothing=f"None in {counted(len(bins.begins), bins.word)}.")
    drawings = [by_name(rows, bins, panel, kind, name) for kind, name in KINDS]
    return PagePart(panel.title, explanation, drawings)


def by_name(rows: Sequence[ReportRow], bins: Bins, panel: Panel, kind: str, name: NameOf) -> Drawing:
    text = TEXTS[panel.title]
    series = bins.series(rows, panel, name)
    draw = charts.lines if panel.largest else charts.stacked
    svg = draw(f"{panel.title.lower()}-by-{kind}", bins, series, text)
    description = f"{panel.title} by {kind} and {bins.word}: {summary(series, panel, text)}"
    numbers = numbers_by_time(bins, series, panel, kind)
    return Drawing(f"By {kind}", svg, description, legend([each.name for each in series]), numbers)


def summary(series: Sequence[Series], panel: Panel, text: Callable[[float], str]) -> str:
    whole = max if panel.largest else sum
    return ", ".join(f"{each.name} {text(whole(each.values))}" for each in series)


def legend(names: Sequence[str]) -> list[tuple[str, int]]:
    """Each name with the number of its colour; -1 for all others."""
    return [(name, -1 if name == REST else number) for number, name in enumerate(names)]


def numbers_by_time(bins: Bins, series: Sequence[Series], panel: Panel, kind: str) -> Numbers:
    unit = {LAG.title: "ms", BYTES.title: "bytes"}.get(panel.title, "entries")
    rows = [
        [charts.moment_text(bins, index), *(f"{each.values[index]:,}" for each in series)]
        for index in range(len(bins.begins))
        if any(each.values[index] for each in series)
    ]
    caption = f"{panel.title} by {kind} and {bins.word}, in {unit}"
    columns = [f"{bins.word} (UTC)", *(each.name for each in series)]
    return Numbers(caption, columns, rows[:ROWS_SHOWN], max(0, len(rows) - ROWS_SHOWN))


# Gaps


def gap_section(rows: Sequence[ReportRow], bins: Bins, found: Sequence[Gap]) -> PagePart:
    explanation = (
        "Whole hours without an entry of an origin, between the first and the last hour of a stream. An origin may have"
        " had nothing to write; whether entries are missing is what audit says."
    )
    if not found:
        return PagePart("Gaps", explanation, nothing="None: each origin wrote to its streams in every hour.")
    shown = lines_of(rows, found)
    svg = charts.activity("gaps", bins, shown, found)
    cells = [
        (
            gap.stream,
            gap.origin,
            f"{gap.begins:%Y-%m-%d %H:%M}",
            f"{gap.ends:%Y-%m-%d %H:%M}",
            f"{gap.hours:,}",
            f"{gap.meanwhile:,}",
        )
        for gap in found[:GAPS_SHOWN]
    ]
    columns = ("stream", "origin", "from (UTC)", "to (UTC)", "hours", "entries of others")
    numbers = Numbers("Gaps, the longest first", columns, cells, max(0, len(found) - GAPS_SHOWN))
    longest = found[0]
    description = (
        f"{counted(len(found), 'gap')}, the longest of {counted(longest.hours, 'hour')}: origin {longest.origin} in"
        f" stream {longest.stream}"
    )
    drawing = Drawing("By stream and origin", svg, description, [("with entries", 0), ("gap", -2)], numbers)
    return PagePart("Gaps", explanation, [drawing], wide=True)


def lines_of(rows: Sequence[ReportRow], found: Sequence[Gap]) -> list[tuple[str, str]]:
    """The streams and origins to draw: those with the longest gaps, and then the largest."""
    silent = dict.fromkeys((gap.stream, gap.origin) for gap in found)
    sizes: dict[tuple[str, str], int] = {}
    for row in rows:
        sizes[row.stream, row.origin] = sizes.get((row.stream, row.origin), 0) + row.entries
    others = sorted(sizes, key=lambda each: -sizes[each])
    return sorted([*dict.fromkeys([*silent, *others])][:LINES_SHOWN])


# Skew


def skew_section(rows: Sequence[ReportRow]) -> PagePart:
    explanation = "The share of each in all entries; the dashed line is where all would end if they were equal."
    return PagePart("Skew", explanation, [share_of(rows, kind, name) for kind, name in KINDS])


def share_of(rows: Sequence[ReportRow], kind: str, name: NameOf) -> Drawing:
    found = totals(rows, name)
    shown = found[:STREAMS_DRAWN]
    svg = charts.shares(f"skew-by-{kind}", shown)
    description = f"Shares by {kind}: {', '.join(f'{each.name} {each.share:.1%}' for each in shown)}"
    return Drawing(f"By {kind}", svg, description, (), numbers_of_totals(found, kind))


def numbers_of_totals(found: Sequence[Total], kind: str) -> Numbers:
    columns = (kind, "entries", "share", "times the mean", "bytes", "lag, median", "lag, at most", "conflicts")
    rows = [
        (
            each.name,
            f"{each.entries:,}",
            f"{each.share:.1%}",
            f"{each.times_mean:.2f}",
            f"{each.size_bytes:,}",
            charts.duration(each.lag_ms),
            charts.duration(each.lag_ms_max),
            f"{each.conflicts:,}",
        )
        for each in found[:ROWS_SHOWN]
    ]
    return Numbers(f"All figures by {kind}, the largest first", columns, rows, max(0, len(found) - ROWS_SHOWN))
