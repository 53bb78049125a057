"""Rows of a report, as an archive of two days could have: streams, origins, a region that was away, conflicts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import pi, sin
from random import Random

from crdtstream.spark.jobs.report import ReportRow

BEGINS = datetime(2026, 11, 21, tzinfo=UTC)
HOURS = 48
STREAMS = {
    "orders:created": 900,
    "orders:paid": 700,
    "orders:shipped": 420,
    "inventory:moves": 300,
    "audit:<b>logins</b>": 160,
    "payments:refused": 90,
}
ORIGINS = {"1.4f2a": 1.0, "2.91c0": 0.7, "3.b7e3": 0.45}
AWAY, AWAY_HOURS = "2.91c0", range(18, 24)


def row(stream: str = "s", origin: str = "1.ab", hour: int = 0, entries: int = 1, **others: int) -> ReportRow:
    at = BEGINS + timedelta(hours=hour)
    figures = {"size_bytes": 0, "lag_ms": 0, "lag_ms_max": 0, "conflicts": 0} | others
    return ReportRow(stream, origin, at, entries, **figures)


def two_days() -> list[ReportRow]:
    drawn = Random(7)
    return [
        busy(drawn, stream, origin, hour)
        for stream in STREAMS
        for origin in ORIGINS
        for hour in range(HOURS)
        if origin != AWAY or hour not in AWAY_HOURS
    ]


def busy(drawn: Random, stream: str, origin: str, hour: int) -> ReportRow:
    day = 1 + 0.8 * sin((hour % 24 - 8) / 12 * pi)
    entries = max(1, int(STREAMS[stream] * ORIGINS[origin] * day * drawn.uniform(0.8, 1.2)))
    late = 4 if origin == AWAY and hour == AWAY_HOURS.stop else 1
    return row(
        stream,
        origin,
        hour,
        entries,
        size_bytes=int(entries * drawn.uniform(180, 260)),
        lag_ms=int(drawn.uniform(3_000, 7_000)),
        lag_ms_max=late * int(drawn.uniform(9_000, 15_000)),
        conflicts=drawn.choice([0] * 12 + [2, 4]),
    )
