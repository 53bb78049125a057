"""Instances that stall and die, for seconds and through the gateways of two regions: nothing is skipped."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from rich.console import Console

from nemesis.instances import Outcome, run, table_of


@pytest.mark.skipif(find_spec("fastapi") is None, reason="the gateway needs the extra oci")
def test_nothing_is_skipped(tmp_path: Path) -> None:
    (outcome,) = run(tmp_path, (3,), 4, seed=1, regions=2)
    assert (outcome.skipped, outcome.instances) == (0, 3)
    assert outcome.accepted > 0
    assert outcome.delivered == outcome.accepted + outcome.repeats
    assert outcome.stalls + outcome.deaths > 0


def test_the_table_shows_the_longest_takeover() -> None:
    console = Console(width=190, record=True)
    console.print(table_of([Outcome(4, accepted=10, delivered=12, repeats=2, takeover_ms=[30, 10, 20])]))
    text = console.export_text()
    assert " 20 " in text
    assert " 30 " in text
    assert Outcome(1).takeover_ms_max == 0
