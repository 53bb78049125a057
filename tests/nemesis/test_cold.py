"""A short drill on a real process; `python -m nemesis.cold` is the long one."""

from __future__ import annotations

from pathlib import Path

from nemesis.cold import Round, drilled


def test_a_region_with_more_entries_than_memory_loses_none_when_it_is_killed(tmp_path: Path) -> None:
    rounds = list(drilled(tmp_path, 3, 3_000, 5))
    for found in rounds[:-1]:
        assert isinstance(found, Round) and found.is_sound, found
    last = rounds[-2]
    assert isinstance(last, Round) and last.spilled and last.read and not last.waited
    refused, wrong = rounds[-1] if isinstance(rounds[-1], tuple) else (0, 0)
    assert refused > 0 and wrong == 0
