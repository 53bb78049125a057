"""The families of streams and groups, from a survey. Labels: the database, the key, and the name of the group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

from prometheus_client.core import Metric

from crdtstream.runtime.metrics.families import counters, gauge, gauges, text_of
from crdtstream.runtime.metrics.survey import GroupFigures, Seen, StreamFigures

STREAM = ("db", "stream")
GROUP = ("db", "stream", "group")

STREAM_GAUGES: tuple[tuple[str, str, Callable[[StreamFigures], float]], ...] = (
    ("stream_length", "Entries of the stream.", lambda one: one.length),
    ("stream_groups", "Consumer groups of the stream.", lambda one: one.groups),
    ("stream_tombstones", "Tombstones of the key and its groups that are not stable yet.", lambda one: one.tombstones),
)
GROUP_GAUGES: tuple[tuple[str, str, Callable[[GroupFigures], float | None]], ...] = (
    ("group_pending", "Entries delivered to consumers of this region and not acknowledged.", lambda one: one.pending),
    ("group_lag", "Entries yet to be delivered to the group.", lambda one: one.lag),
    ("group_unacknowledged", "Entries behind the ack frontier, delivered or not.", lambda one: one.unacknowledged),
    ("group_consumers", "Consumers of the group in this region.", lambda one: one.consumers),
)
TOTALS = (
    ("streams", "Keys that exist."),
    ("entries", "Entries of all streams."),
    ("groups", "Consumer groups of all streams."),
    ("pending", "Pending entries of all groups."),
    ("tombstones", "Tombstones that are not stable yet."),
)


def stream_families(seen: Seen | None) -> Iterator[Metric]:
    if seen is None:
        return
    yield gauge("survey_age_seconds", "How old the figures of streams and groups are.", perf_counter() - seen.ended_s)
    for name, meaning in TOTALS:
        yield gauge(f"all_{name}", meaning, getattr(seen.totals, name))
    for name, meaning in TOTALS:
        omitted = f"Of these, those without a series, because of metrics_series_max. {meaning}"
        yield gauge(f"omitted_{name}", omitted, getattr(seen.omitted, name))
    labels = [(str(one.key[0]), text_of(one.key[1])) for one in seen.streams]
    for name, meaning, value in STREAM_GAUGES:
        yield gauges(name, meaning, STREAM, zip(labels, map(value, seen.streams), strict=True))
    added = [one.added for one in seen.streams]
    yield counters("stream_entries_added_total", "Entries ever added.", STREAM, zip(labels, added, strict=True))
    yield from group_families(seen.groups)


def group_families(groups: list[GroupFigures]) -> Iterator[Metric]:
    labels = [(str(one.key[0]), text_of(one.key[1]), text_of(one.name)) for one in groups]
    for name, meaning, value in GROUP_GAUGES:
        known = [(row, number) for row, number in zip(labels, map(value, groups), strict=True) if number is not None]
        yield gauges(name, meaning, GROUP, known)
    deliveries = [one.deliveries for one in groups]
    meaning = "Entries handed to consumers of this region since its start, repeated deliveries too."
    yield counters("group_deliveries_total", meaning, GROUP, zip(labels, deliveries, strict=True))
