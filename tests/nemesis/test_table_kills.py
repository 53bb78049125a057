"""Kills of a job that archives to a table, in short; `python -m nemesis.table_kills` is the long form."""

from __future__ import annotations

import shutil
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from nemesis.table_kills import TableOutcome, judge, run

NEEDS = all(find_spec(name) for name in ("deltalake", "pyarrow", "pyiceberg", "pyspark")) and shutil.which("java")


@pytest.mark.slow
@pytest.mark.skipif(not NEEDS, reason="needs the extras spark and iceberg, and Java")
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_has_what_was_acknowledged(tmp_path: Path, kind: str) -> None:
    outcome = run(tmp_path, kind, kills=3, seed=1)
    assert outcome.exact, outcome
    # Otherwise the kills proved nothing.
    assert outcome.rows_acknowledged and outcome.with_files_and_no_commit


def test_what_is_wrong_with_a_table_is_counted() -> None:
    outcome = TableOutcome()
    judge(Counter([("s", "1-1"), ("s", "2-1")]), Counter([("s", "1-1"), ("s", "1-1"), ("s", "9-1")]), outcome)
    assert (outcome.rows_found, outcome.twice, outcome.missing, outcome.unknown) == (3, 1, 1, 1)
    assert not outcome.exact
    judge(Counter([("s", "1-1")]), Counter([("s", "1-1")]), outcome)
    assert outcome.exact
