"""Metric families as text, a piece at a time, so that the event loop is never held for long.

The format is the text format 0.0.4, which every version of Prometheus reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from time import perf_counter

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from crdtstream.runtime.metrics.meters import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PIECE_SAMPLES = 64
SLICE_S = 0.001


class Piece(CollectorRegistry):
    """A registry of one family, or of a part of one."""

    def __init__(self, metric: Metric) -> None:
        super().__init__(auto_describe=False)
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def pieces_of(metric: Metric) -> Iterator[bytes]:
    """The text of a family; its head comes once."""
    samples = metric.samples
    for at in range(0, len(samples), PIECE_SAMPLES):
        part = Metric(metric.name, metric.documentation, metric.type, metric.unit)
        part.samples = samples[at : at + PIECE_SAMPLES]
        text = generate_latest(Piece(part))
        yield text if at == 0 else without_head(text)


def without_head(text: bytes) -> bytes:
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"# "))


async def render(families: Iterable[Metric], slices: Histogram) -> bytes:
    """The text of all families. They may be made while this goes on: each takes a slice of its own."""
    text: list[bytes] = []
    began_s = perf_counter()
    for metric in families:
        for piece in pieces_of(metric):
            text.append(piece)
            if perf_counter() - began_s >= SLICE_S:
                slices.observe(perf_counter() - began_s)
                await asyncio.sleep(0)
                began_s = perf_counter()
    slices.observe(perf_counter() - began_s)
    return b"".join(text)
