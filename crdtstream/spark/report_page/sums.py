"""What the page adds up: the rows of a report by stream, by origin, and by hour or day.

An hour is `datetime` without minutes. Beyond `HOURS_SHOWN` hours the charts are by day.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from crdtstream.spark.jobs.report import REST, STREAMS_DRAWN, Panel, ReportRow

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HOURS_SHOWN: Final = 14 * 24
GAPS_SHOWN: Final = 50
NameOf = Callable[[ReportRow], str]


def stream_of(row: ReportRow) -> str:
    return row.stream


def origin_of(row: ReportRow) -> str:
    return row.origin


@dataclass(frozen=True)
class Total:
    """All rows of one stream or one origin. `lag_ms` is the median of the rows' medians, by entries; `times_mean`
    compares its entries with the mean of all streams or origins.
    """

    name: str
    entries: int
    size_bytes: int
    lag_ms: int
    lag_ms_max: int
    conflicts: int
    share: float
    times_mean: float


@dataclass(frozen=True)
class Gap:
    """Whole hours without an entry of an origin in a stream, within the hours of that stream: from `begins`, inclusive,
    to `ends`, exclusive. Other origins added `meanwhile` entries to it.
    """

    stream: str
    origin: str
    begins: datetime
    ends: datetime
    meanwhile: int

    @property
    def hours(self) -> int:
        return (self.ends - self.begins) // HOUR


@dataclass(frozen=True)
class Series:
    """A number for each bin of one name; the last one may be all others together."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Bins:
    """The hours or days of a report, in order and without holes."""

    begins: tuple[datetime, ...]
    width: timedelta

    @classmethod
    def of(cls, rows: Sequence[ReportRow]) -> Bins:
        if not rows:
            return cls((), HOUR)
        first, last = min(row.hour for row in rows), max(row.hour for row in rows)
        width = HOUR if (last - first) // HOUR < HOURS_SHOWN else DAY
        if width == DAY:
            first = first.replace(hour=0)
        return cls(tuple(first + width * index for index in range((last - first) // width + 1)), width)

    @property
    def word(self) -> str:
        return "hour" if self.width == HOUR else "day"

    def index(self, hour: datetime) -> int:
        return (hour - self.begins[0]) // self.width

    def series(self, rows: Sequence[ReportRow], panel: Panel, name: NameOf) -> list[Series]:
        """A series for each of the names with the most entries, and one for the rest together."""
        drawn = largest(rows, name)
        found: dict[str, list[int]] = {each: [0] * len(self.begins) for each in drawn}
        for row in rows:
            values = found.setdefault(name(row) if name(row) in drawn else REST, [0] * len(self.begins))
            index = self.index(row.hour)
            values[index] = max(values[index], panel.of(row)) if panel.largest else values[index] + panel.of(row)
        return [Series(each, tuple(values)) for each, values in found.items()]


def largest(rows: Sequence[ReportRow], name: NameOf) -> list[str]:
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[name(row)] += row.entries
    return sorted(counts, key=lambda each: (-counts[each], each))[:STREAMS_DRAWN]


def totals(rows: Sequence[ReportRow], name: NameOf) -> list[Total]:
    """Return a total for each name, the largest first."""
    groups: dict[str, list[ReportRow]] = defaultdict(list)
    for row in rows:
        groups[name(row)].append(row)
    every = sum(row.entries for row in rows)
    found = [total_of(each, group, every, len(groups)) for each, group in groups.items()]
    return sorted(found, key=lambda total: (-total.entries, total.name))


def total_of(name: str, rows: Sequence[ReportRow], every: int, names: int) -> Total:
    entries = sum(row.entries for row in rows)
    return Total(
        name,
        entries,
        sum(row.size_bytes for row in rows),
        usual_lag_ms(rows),
        max(row.lag_ms_max for row in rows),
        sum(row.conflicts for row in rows),
        entries / every,
        entries * names / every,
    )


def usual_lag_ms(rows: Sequence[ReportRow]) -> int:
    """The median of the medians, each as often as its row has entries: the rows do not have the entries' own lags."""
    left = sum(row.entries for row in rows) / 2
    for row in sorted(rows, key=lambda row: row.lag_ms):
        left -= row.entries
        if left <= 0:
            return row.lag_ms
    return 0


def gaps(rows: Sequence[ReportRow]) -> list[Gap]:
    """Return all gaps, the longest first."""
    streams: dict[str, list[ReportRow]] = defaultdict(list)
    for row in rows:
        streams[row.stream].append(row)
    found = [gap for stream in streams.values() for gap in gaps_of_stream(stream)]
    return sorted(found, key=lambda gap: (-gap.hours, gap.stream, gap.origin, gap.begins))


def gaps_of_stream(rows: Sequence[ReportRow]) -> list[Gap]:
    first, last = min(row.hour for row in rows), max(row.hour for row in rows)
    found = []
    for origin in sorted({row.origin for row in rows}):
        written = sorted(row.hour for row in rows if row.origin == origin)
        for before, after in pairwise([first - HOUR, *written, last + HOUR]):
            if after - before > HOUR:
                begins = before + HOUR
                meanwhile = sum(row.entries for row in rows if begins <= row.hour < after)
                found.append(Gap(rows[0].stream, origin, begins, after, meanwhile))
    return found
