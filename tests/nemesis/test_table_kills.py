"""Kills of a job that archives to a table, in short; `python -m nemesis.table_kills` is the long form."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from crdtstream.processes.waiting import until
from nemesis import table_kills
from nemesis.table_kills import TURNS, Strike, TableOutcome, is_alive, judge, killed, run, under_kills

NEEDS = all(find_spec(name) for name in ("deltalake", "pyarrow", "pyiceberg", "pyspark")) and shutil.which("java")


@pytest.mark.slow
@pytest.mark.skipif(not NEEDS, reason="needs the extras spark and iceberg, and Java")
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_has_what_was_acknowledged(tmp_path: Path, kind: str) -> None:
    outcome = run(tmp_path, kind, kills=3, seed=1)
    assert outcome.exact, outcome
    # Otherwise the kills proved nothing.
    assert outcome.rows_acknowledged and outcome.with_files_and_no_commit
    assert sum(outcome.kills.values()) == 3


def test_a_kill_hits_what_is_alive_alone() -> None:
    sleepers = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    gone = subprocess.Popen(["true"])
    gone.wait()
    try:
        assert killed([sleepers[0].pid, gone.pid]) == {sleepers[0].pid}
        # It has ended, but nobody has waited for it yet.
        until(lambda: not is_alive(sleepers[0].pid), "it ends")
        assert killed([sleepers[0].pid]) == set()
        assert is_alive(sleepers[1].pid)
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def test_strikes_that_miss_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    struck: list[str] = []

    def strike(_job: object, turn: str, _chance: object) -> Strike:
        struck.append(turn)
        return Strike(hit=len(struck) != 2, with_files_and_no_commit=len(struck) == 1)

    monkeypatch.setattr(table_kills, "strike", strike)
    outcome = TableOutcome(kills=dict.fromkeys(TURNS, 0))
    job: Any = SimpleNamespace(commits=lambda: 7)
    under_kills(job, 3, Random(1), outcome)
    assert struck == [TURNS[0], TURNS[1], TURNS[1], TURNS[2]]
    assert (sum(outcome.kills.values()), outcome.missed, outcome.with_files_and_no_commit) == (3, 1, 1)


def test_what_is_wrong_with_a_table_is_counted() -> None:
    outcome = TableOutcome()
    judge(Counter([("s", "1-1"), ("s", "2-1")]), Counter([("s", "1-1"), ("s", "1-1"), ("s", "9-1")]), outcome)
    assert (outcome.rows_found, outcome.twice, outcome.missing, outcome.unknown) == (3, 1, 1, 1)
    assert not outcome.exact
    judge(Counter([("s", "1-1")]), Counter([("s", "1-1")]), outcome)
    assert outcome.exact
