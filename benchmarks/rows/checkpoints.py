"""Rows of restarts and checkpoints, ours only: how fast a region restarts, how long its event loop stalls while a
checkpoint is taken, and the cost of a stream after many starts.

`benchmarks.restart_time`, `benchmarks.stall` and `benchmarks.many_starts` measure inside a region's own process, so
they run in the interpreter of the node, with its crdtstream.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

from benchmarks.bench import Bench
from benchmarks.load.loads import Appends, drive
from benchmarks.load.wire import Connection, command
from benchmarks.report.figures import AT_MOST, Result, Side, Target
from benchmarks.servers import BenchmarkError, Region

RESTART = Target(AT_MOST, 10.0)
STALL = Target(AT_MOST, 5.0)
PLANNED = Target(AT_MOST, 5.0)
MANY_STARTS = Target(AT_MOST, 2.0)
COSTS = {
    "xrange": "XRANGE COUNT 100",
    "xadd": "XADD",
    "xadd-maxlen": "XADD MAXLEN",
    "readers": "XREADGROUP COUNT 100 and XACK",
}
TIMEOUT_S = 1_800
PLANNED_STREAMS = 50
PIECE = 10


def restart(bench: Bench, name: str) -> list[Result]:
    entries = bench.scale.recovered_entries
    figures = inside(bench, "benchmarks.restart_time", "--entries", str(entries))
    checkpoint, log = figures["checkpoint"]["start_s"], figures["log"]["start_s"]
    details = {"checkpoint_s": figures["log"]["checkpoint_s"], "checkpoint_bytes": figures["log"]["checkpoint_bytes"]}
    title = f"restart with {entries:,} entries"
    return [
        Result(name, f"{title}, from the checkpoint", "s", Side(checkpoint), None, RESTART, details),
        Result(f"{name}-log", f"{title}, from the log alone", "s", Side(log)),
    ]


def planned_restart(bench: Bench, name: str) -> list[Result]:
    """Measure an operator's restart: from SIGTERM until the region serves again, and how long no client is served."""
    region = bench.region()
    entries = bench.scale.planned_entries
    fill(region, entries)
    began_s = time.perf_counter()
    region.stop()
    stopped_s = time.perf_counter()
    with Connection(bench.region(before=region).port) as connection:
        connection.ask("PING")
        ended_s = time.perf_counter()
        found = sum(connection.ask("XLEN", f"stream-{number}") for number in range(PLANNED_STREAMS))
    if found != entries // PLANNED_STREAMS * PLANNED_STREAMS:
        raise BenchmarkError(f"{found} of {entries} entries came back")
    details = {"stop_s": stopped_s - began_s, "start_s": ended_s - stopped_s}
    title = f"planned restart with {entries:,} entries and groups"
    return [Result(name, title, "s", Side(ended_s - began_s), None, PLANNED, details)]


def fill(region: Region, entries: int) -> None:
    """Fill streams that a group has read in small pieces; nine tenths are acknowledged, the rest is pending."""
    keys = [f"stream-{number}" for number in range(PLANNED_STREAMS)]
    drive(region, Appends([region.port], keys, entries // PLANNED_STREAMS))
    with Connection(region.port) as connection:
        for key in keys:
            connection.send("XRANGE", key, "-", "+")
            ids, _ = connection.entries()
            requests = [command("XGROUP", "CREATE", key, "group", 0)]
            for begin in range(0, len(ids), PIECE):
                requests.append(command("XREADGROUP", "GROUP", "group", "one", "COUNT", PIECE, "STREAMS", key, ">"))
                requests.append(command("XACK", key, "group", *ids[begin + 1 : begin + PIECE]))
            connection.pipeline(requests)


def stall(bench: Bench, name: str) -> list[Result]:
    options = ("--entries", str(bench.scale.stall_entries), "--seconds", str(bench.scale.stall_s))
    figures = inside(bench, "benchmarks.stall", *options)
    return [
        stalled(f"{name}-quiet", "event loop late under load, p99.9", figures["quiet"], None),
        stalled(name, "event loop late during checkpoints, p99.9", figures["checkpoints"], STALL),
        stalled(f"{name}-holds", "event loop late beside scans, large ranges, digests, p99.9", figures["holds"], None),
    ]


def stalled(name: str, title: str, figures: dict[str, float], target: Target | None) -> Result:
    return Result(name, title, "ms", Side(figures["p99.9"]), None, target, figures)


def restarts(bench: Bench, name: str) -> list[Result]:
    """Measure costs after the most starts as multiples of those after one; the details have microseconds."""
    figures = inside(bench, "benchmarks.many_starts", "--entries", str(bench.scale.started_entries))
    return [started(name, kind, {int(starts): found[kind] for starts, found in figures.items()}) for kind in COSTS]


def started(name: str, kind: str, found: dict[int, float]) -> Result:
    few, many = min(found), max(found)
    side = Side(found[many] / found[few], cpu_us=found[many])
    title = f"{COSTS[kind]} after {many:,} starts, multiple of {few:,}"
    details = {f"{starts}_us": spent_us for starts, spent_us in found.items()}
    return Result(f"{name}-{kind}", title, "x", side, None, MANY_STARTS, details)


def inside(bench: Bench, module: str, *options: str) -> Any:
    """Run the module and return the JSON that it prints; its exit code only says whether its target was reached."""
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
