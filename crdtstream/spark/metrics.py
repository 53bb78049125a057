"""Figures for Prometheus: a page at a port of this process, and what a job has written."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

PUBLISHED = ("published_rows", "Rows that the sink has published.")
SKIPPED = ("skipped_rows", "Rows that the sink has left out: they were published before.")


def serve(collector: Collector, port: int, address: str = "127.0.0.1") -> None:
    """Answer `GET /metrics` until the process ends. Raises OSError if the port cannot be opened."""
    registry = CollectorRegistry()
    registry.register(collector)
    start_http_server(port, address, registry)


def counter(name: str, meaning: str, query: str, value: int) -> Metric:
    family = CounterMetricFamily(f"crdtstream_spark_{name}", meaning, labels=("query",))
    family.add_metric((query,), value)
    return family


class WriteMetrics(Collector):
    """What a job that writes to streams has done so far; `query` is the name of the job."""

    def __init__(self, query: str) -> None:
        self._query = query
        self.batches = self.published = self.skipped = 0

    def set(self, batches: int, published: int, skipped: int = 0) -> None:
        """Replace the figures, of rows and batches since the process began."""
        self.batches, self.published, self.skipped = batches, published, skipped

    def collect(self) -> Iterator[Metric]:
        yield counter("batches", "Batches that the job has completed.", self._query, self.batches)
        yield counter(*PUBLISHED, self._query, self.published)
        yield counter(*SKIPPED, self._query, self.skipped)
