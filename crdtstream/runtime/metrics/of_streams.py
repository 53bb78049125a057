"""The families of streams and groups, from a survey. Labels: the database, the key, and the name of the group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TypeVar

from prometheus_client.core import Metric

from crdtstream.runtime.metrics.families import counters, gauge, gauges, text_of
from crdtstream.runtime.metrics.survey import GroupFigures, StreamFigures, SurveyedStream

STREAM = ("db", "stream")
GROUP = ("db", "stream", "group")
PART_ROWS = 128

Figures = TypeVar("Figures")
StreamTable = tuple[tuple[str, str, Callable[[Figures], float | None]], ...]

STREAM_SERIES: StreamTable[StreamFigures] = (
    ("stream_length", "Entries of the stream.", lambda one: one.length),
    ("stream_groups", "Consumer groups of the stream.", lambda one: one.groups),
    ("stream_tombstones", "Tombstones of the key and its groups that are not stable yet.", lambda one: one.tombstones),
    ("stream_entries_added_total", "Entries ever added.", lambda one: one.added),
)
GROUP_SERIES: StreamTable[GroupFigures] = (
    ("group_pending", "Entries delivered to consumers of this region and not acknowledged.", lambda one: one.pending),
    ("group_lag", "Entries yet to be delivered to the group.", lambda one: one.lag),
    ("group_unacknowledged", "Entries behind the ack frontier, delivered or not.", lambda one: one.unacknowledged),
    (
        "group_withheld_regions",
        "Regions whose entries readers of this region do not get, because another one delivers them or is awaited.",
        lambda one: one.withheld,
    ),
    ("group_consumers", "Consumers of the group in this region.", lambda one: one.consumers),
    (
        "group_deliveries_total",
        "Entries handed to consumers of this region since its start, repeated deliveries too.",
        lambda one: one.deliveries,
    ),
)
TOTALS = (
    ("streams", "Keys that exist."),
    ("entries", "Entries of all streams."),
    ("groups", "Consumer groups of all streams."),
    ("pending", "Pending entries of all groups."),
    ("tombstones", "Tombstones that are not stable yet."),
)


def stream_families(seen: SurveyedStream | None) -> Iterator[Metric]:
    if seen is None:
        return
    yield gauge("survey_age_seconds", "How old the figures of streams and groups are.", perf_counter() - seen.ended_s)
    for name, meaning in TOTALS:
        yield gauge(f"all_{name}", meaning, getattr(seen.totals, name))
    for name, meaning in TOTALS:
        omitted = f"Of these, those without a series, because of metrics_series_max. {meaning}"
        yield gauge(f"omitted_{name}", omitted, getattr(seen.omitted, name))
    yield from series_of(STREAM, stream_labels, STREAM_SERIES, seen.streams)
    yield from series_of(GROUP, group_labels, GROUP_SERIES, seen.groups)


def stream_labels(one: StreamFigures) -> tuple[str, ...]:
    return (str(one.key[0]), text_of(one.key[1]))


def group_labels(one: GroupFigures) -> tuple[str, ...]:
    return (str(one.key[0]), text_of(one.key[1]), text_of(one.name))


def series_of(
    labels: tuple[str, ...],
    labels_of: Callable[[Figures], tuple[str, ...]],
    table: StreamTable[Figures],
    all_: list[Figures],
) -> Iterator[Metric]:
    """Each family in parts, because one of thousands of rows would hold the loop."""
    for name, meaning, value in table:
        make = counters if name.endswith("_total") else gauges
        for at in range(0, len(all_), PART_ROWS):
            known = [(labels_of(one), value(one)) for one in all_[at : at + PART_ROWS]]
            yield make(name, meaning, labels, [(row, number) for row, number in known if number is not None])
