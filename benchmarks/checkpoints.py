"""Rows about checkpoints, ours only: how fast a region is back, and how long its event loop stands still meanwhile.

`benchmarks.restart` and `benchmarks.stall` measure inside a region's own process, so they run in the interpreter of the
node, beside its crdtstream.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from benchmarks.bench import Bench
from benchmarks.figures import AT_MOST, Result, Side, Target
from benchmarks.servers import BenchmarkError

RESTART = Target(AT_MOST, 10.0)
STALL = Target(AT_MOST, 10.0)
TIMEOUT_S = 1_800


def restart(bench: Bench, name: str) -> list[Result]:
    entries = bench.scale.recovered_entries
    figures = inside(bench, "benchmarks.restart", "--entries", str(entries))
    checkpoint, log = figures["checkpoint"]["start_s"], figures["log"]["start_s"]
    details = {"checkpoint_s": figures["log"]["checkpoint_s"], "checkpoint_bytes": figures["log"]["checkpoint_bytes"]}
    title = f"restart with {entries:,} entries"
    return [
        Result(name, f"{title}, from the checkpoint", "s", Side(checkpoint), None, RESTART, details),
        Result(f"{name}-log", f"{title}, from the log alone", "s", Side(log)),
    ]


def stall(bench: Bench, name: str) -> list[Result]:
    options = ("--entries", str(bench.scale.stall_entries), "--seconds", str(bench.scale.stall_s))
    figures = inside(bench, "benchmarks.stall", *options)
    return [
        stalled(f"{name}-quiet", "event loop late under load, p99.9", figures["quiet"], None),
        stalled(name, "event loop late during checkpoints, p99.9", figures["checkpoints"], STALL),
    ]


def stalled(name: str, title: str, figures: dict[str, float], target: Target | None) -> Result:
    return Result(name, title, "ms", Side(figures["p99.9"]), None, target, figures)


def inside(bench: Bench, module: str, *options: str) -> Any:
    """What the module prints as JSON; its exit code says only whether its target was reached."""
    done = subprocess.run(
        [bench.node.python, "-m", module, *options, "--json"],
        cwd=bench.tools(),
        env=bench.node.environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise BenchmarkError(f"{module} ended with exit code {done.returncode}:\n{done.stderr[-2000:]}") from error
