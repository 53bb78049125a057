"""Metric families as text, a piece at a time, so that the event loop is never held for long.

A family may come in parts, one after the other; its head is written once.

The format is the text format 0.0.4, which every version of Prometheus reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from time import perf_counter

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from crdtstream.runtime.metrics.histogram import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PIECE_SAMPLES = 64
SLICE_S = 0.001


class FamilyRegistry(CollectorRegistry):
    """A registry of one family, or of a part of one."""

    def __init__(self, metric: Metric) -> None:
        super().__init__(auto_describe=False)
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def pieces_of(families: Iterable[Metric]) -> Iterator[bytes]:
    """The text of families; one without samples has none. A piece may be empty, where only a family was made."""
    named = ""
    for metric in families:
        for at in range(0, len(metric.samples), PIECE_SAMPLES):
            part = Metric(metric.name, metric.documentation, metric.type, metric.unit)
            part.samples = metric.samples[at : at + PIECE_SAMPLES]
            text = generate_latest(FamilyRegistry(part))
            yield text if metric.name != named else without_head(text)
            named = metric.name
        if not metric.samples:
            yield b""


def without_head(text: bytes) -> bytes:
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"# "))


async def render(families: Iterable[Metric], slices: Histogram) -> bytes:
    """The text of all families. They may be made while this goes on: each takes a slice of its own."""
    text: list[bytes] = []
    began_s = perf_counter()
    for piece in pieces_of(families):
        text.append(piece)
        if perf_counter() - began_s >= SLICE_S:
            slices.observe(perf_counter() - began_s)
            await asyncio.sleep(0)
            began_s = perf_counter()
    slices.observe(perf_counter() - began_s)
    return b"".join(text)
