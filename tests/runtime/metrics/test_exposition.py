"""Families in pieces are the text that they are as a whole."""

from __future__ import annotations

import asyncio

from prometheus_client import generate_latest

from crdtstream.runtime.metrics import exposition
from crdtstream.runtime.metrics.exposition import PIECE_SAMPLES, FamilyRegistry, pieces_of, render
from crdtstream.runtime.metrics.families import counters, gauge
from crdtstream.runtime.metrics.histogram import FAST_S, Histogram


def test_pieces_have_one_head() -> None:
    rows = [((f"# {number}",), float(number)) for number in range(3 * PIECE_SAMPLES + 1)]
    family = counters("x_total", "Many\nof them.", ("name",), rows)
    pieces = list(pieces_of([family]))
    assert len(pieces) == 4
    assert b"".join(pieces) == generate_latest(FamilyRegistry(family))
    parts = [counters("x_total", "Many\nof them.", ("name",), rows[at : at + 50]) for at in range(0, len(rows), 50)]
    assert b"".join(pieces_of(parts)) == generate_latest(FamilyRegistry(family))


async def test_a_long_text_lets_others_run(monkeypatch: object) -> None:
    """Between any two families, where each takes too long."""
    assert exposition.SLICE_S > 0
    slices, turns = Histogram(FAST_S), []
    monkeypatch.setattr(exposition, "SLICE_S", 0.0)  # type: ignore[attr-defined]

    async def other() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    text = await render([gauge(f"x{number}", "One.", number) for number in range(50)], slices)
    task.cancel()
    assert text.count(b"# HELP") == 50 and len(turns) >= 49 and sum(slices.counts) == 51
