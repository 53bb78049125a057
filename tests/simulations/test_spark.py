"""What an executor does with seeds, without Spark, and what Spark makes of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow
import pyarrow.parquet

from simulations import spark
from simulations.sweeping import Outcome, run_seed


def test_seeds_become_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(seed: int) -> Outcome:
        failed = "convergence: no" if seed == 20 else ""
        return Outcome(seed, failed, {"kill": seed}, {"messages": 2 * seed}, ("a", "b") if failed else ())

    monkeypatch.setattr(spark, "run_seed", fake)
    seeds = pyarrow.RecordBatch.from_arrays([pyarrow.array(range(10, 30))], ["id"])
    batches = list(spark.run_batches([seeds]))
    assert [batch.num_rows for batch in batches] == [16, 4]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["seed"] for row in rows] == list(range(10, 30))
    assert rows[10] == {
        "seed": 20,
        "violation": "convergence: no",
        "injected": [("kill", 20)],
        "statistics": [("messages", 40)],
        "trace": ["a", "b"],
    }


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
@pytest.mark.timeout(240)
def test_executors_give_what_a_call_gives(tmp_path: Path) -> None:
    """In a process of its own: this one has used gRPC, whose threads do not like the fork that starts a JVM."""
    out = tmp_path / "sweep.parquet"
    command = [sys.executable, "-m", "simulations", "sweep", "--first", "3", "--seeds", "3", "--spark", "local[2]"]
    done = subprocess.run([*command, "--out", out], capture_output=True, text=True, timeout=220)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "0 violations" in done.stdout
    rows = {row["seed"]: row for row in pyarrow.parquet.read_table(out).to_pylist()}
    assert rows == {seed: spark.row_of(run_seed(seed)) for seed in (3, 4, 5)}
    again = subprocess.run([*command, "--out", out], capture_output=True, text=True, timeout=220)
    assert again.returncode == 2 and "name a directory that does not" in again.stderr
