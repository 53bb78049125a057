"""A profile of the node during a row, from the node's start to what is shown."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.bench import Bench, find_node
from benchmarks.profiler import Profile
from benchmarks.report.figures import Sample
from benchmarks.scale import SMALLEST
from benchmarks.servers import Server


def test_what_is_measured_is_profiled(tmp_path: Path) -> None:
    profile = Profile(str(tmp_path / "profile"), compiled=False)

    def ask(server: Server, _repetition: int) -> Sample:
        server.ask("PING")
        return Sample(1, 1.0, 0.0, 0.0)

    with Bench(SMALLEST, find_node(sys.executable), Path("no-redis"), profile) as bench:
        bench.samples((bench.region(),), ask)
    assert profile.path == tmp_path / "profile.prof"
    report = profile.report()
    assert "connections.py" in report
    assert "importlib" not in report, "the start is not measured"
