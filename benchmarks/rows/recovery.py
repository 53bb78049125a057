"""Rows of a start after a kill, beside redis-server after the same load: as the kill left the directory beside its AOF,
and from a checkpoint beside its RDB. The time is from the launch of the process until it serves.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.load import loads
from benchmarks.report.figures import AT_MOST, Result, Side, Target
from benchmarks.servers import EVERYSEC, NO, BenchmarkError, Server
from crdtstream.processes.waiting import until

KEY = "stream"
DEPTH = 128
SYNCED_S = 1.5
RECOVER_S = 600.0
AS_REDIS = Target(AT_MOST, 1.0)


def recover(bench: Bench, name: str, saved: bool) -> list[Result]:
    """Measure starts from a checkpoint and an RDB file if `saved`. Or else from an AOF, and from what a region has by
    then: the checkpoint that it took last while it was loaded, if any, and the log from there on.
    """
    entries = bench.scale.recovered_entries
    region, redis = bench.region(fsync=EVERYSEC), bench.redis(NO if saved else EVERYSEC)
    for server in (region, redis):
        loads.append(server, KEY, entries, DEPTH)
        if saved:
            save(server)
        time.sleep(SYNCED_S)  # `everysec`: until what was added is on disk
    ours = starts(bench, region, lambda: bench.region(before=region))
    theirs = starts(bench, redis, redis.begin)
    sources = "from a checkpoint; Redis from RDB" if saved else "as a kill left it; Redis from AOF"
    title = f"start with {entries:,} entries, {sources}"
    return [Result(name, title, "s", Side(ours), Side(theirs), AS_REDIS)]


def save(server: Server) -> None:
    """Have a checkpoint or an RDB file written."""
    before = server.ask("LASTSAVE")
    time.sleep(1.0)  # LASTSAVE counts seconds
    server.ask("BGSAVE")
    until(lambda: server.ask("LASTSAVE") != before, lambda: f"{server} has saved{server.log_end()}", RECOVER_S)


def starts(bench: Bench, server: Server, again: Callable[[], object]) -> float:
    """Kill the server and start it again, as often as a row is repeated; returns the median in seconds."""
    entries = server.ask("XLEN", KEY)
    took_s: list[float] = []
    for _ in range(bench.scale.repetitions):
        server.kill()
        began_s = time.perf_counter()
        again()
        took_s.append(time.perf_counter() - began_s)
        found = server.ask("XLEN", KEY)
        if found != entries:
            raise BenchmarkError(f"{found} of {entries} entries came back in {server}")
    return statistics.median(took_s)
