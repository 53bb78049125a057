"""Short ways to make metric families."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from crdtstream.runtime.metrics.histogram import Histogram

PREFIX = "crdtstream_"

FamilyRows = Iterable[tuple[tuple[str, ...], float]]


def gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, meaning, value=value)


def counter(name: str, meaning: str, value: float) -> Metric:
    """A counter; its name ends in `_total`."""
    return CounterMetricFamily(PREFIX + name, meaning, value=value)


def gauges(name: str, meaning: str, labels: tuple[str, ...], rows: FamilyRows) -> Metric:
    family = GaugeMetricFamily(PREFIX + name, meaning, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def counters(name: str, meaning: str, labels: tuple[str, ...], rows: FamilyRows) -> Metric:
    family = CounterMetricFamily(PREFIX + name, meaning, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def info(name: str, meaning: str, labels: dict[str, str]) -> Metric:
    """A gauge that is always 1 and carries texts in its labels."""
    return gauges(name, meaning, tuple(labels), [(tuple(labels.values()), 1)])


def histogram(name: str, meaning: str, recorded: Histogram) -> Metric:
    family = HistogramMetricFamily(PREFIX + name, meaning)
    family.add_metric([], buckets_of(recorded.bounds_s, recorded.counts), recorded.total_s)
    return family


def buckets_of(bounds_s: Iterable[float], counts: Iterable[int]) -> list[tuple[str, float]]:
    """Cumulative buckets, the last without a bound."""
    bounds = [*map(floatToGoString, bounds_s), "+Inf"]
    return list(zip(bounds, map(float, accumulate(counts)), strict=True))


def text_of(name: bytes) -> str:
    """A name of a client as a label; different names stay different."""
    return name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
