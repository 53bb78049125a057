"""The search guided by coverage, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crdtstream.processes.waiting import DEADLINE_S
from fuzz import guided

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(bool(guided.MISSING), reason=guided.MISSING or "atheris is there")
def test_it_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fuzz", "requests", "--guided", "--seconds", "1", "--store", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, check=True, timeout=DEADLINE_S, capture_output=True, text=True)
    assert "Done" in done.stderr
    assert list(tmp_path.iterdir()) == []
