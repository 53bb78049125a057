"""Kills of a whole query, in short; `python -m nemesis.spark_kills` is the long form."""

from __future__ import annotations

import shutil
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from nemesis.spark_kills import Outcome, Plan, judge, run

NEEDS = all(find_spec(name) for name in ("pyarrow", "pyspark")) and shutil.which("java")


@pytest.mark.slow
@pytest.mark.skipif(not NEEDS, reason="needs the extra spark, and Java")
def test_every_row_is_there_once(tmp_path: Path) -> None:
    outcome = run(tmp_path, Plan(rows=1_200, kills=2, rows_per_batch=120))
    assert outcome.exact, outcome
    assert (outcome.kills, outcome.rows_found) == (2, 1_200)
    assert outcome.batches >= 10
    # Otherwise the kills proved nothing.
    assert outcome.kills_after_publish + outcome.commit_logs_lost >= 1


def test_what_is_wrong_is_counted() -> None:
    outcome = Outcome(3)
    judge(Counter([b"a", b"b", b"c"]), Counter([b"a", b"a", b"b"]), outcome)
    assert (outcome.duplicates, outcome.missing, outcome.exact) == (1, 1, False)
    judge(Counter([b"a", b"b", b"c"]), Counter([b"c", b"a", b"b"]), outcome)
    assert outcome.exact
