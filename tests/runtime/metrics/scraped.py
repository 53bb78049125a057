"""What a scrape shows, read with Prometheus's own parser."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from crdtstream.runtime.metrics.exposition import pieces_of

Labels = tuple[tuple[str, str], ...]


class Scraped:
    """Samples by name and labels; each is there once."""

    def __init__(self, text: str) -> None:
        self.samples: dict[tuple[str, Labels], float] = {}
        self.types: dict[str, str] = {}
        for family in text_string_to_metric_families(text):
            self.types[family.name] = family.type
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in self.samples, f"{key} twice"
                self.samples[key] = sample.value

    def value(self, name: str, **labels: str) -> float:
        return self.samples[f"crdtstream_{name}", tuple(sorted(labels.items()))]

    def labels(self, name: str) -> list[dict[str, str]]:
        return [dict(labels) for known, labels in self.samples if known == f"crdtstream_{name}"]


def scraped(families: Iterable[Metric]) -> Scraped:
    return Scraped(b"".join(pieces_of(families)).decode())
