"""The row of what an XADD takes while others write: p99 of single XADDs at half of the load that the region can take.

Both servers get the same load, half of the region's peak. A probe waits for each of its replies, at a steady pace, and
writes to a stream of its own.
"""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.load.loads import Appends, Driver, drive
from benchmarks.load.wire import Connection
from benchmarks.report.figures import AT_MOST, Result, Side, Target, percentile
from benchmarks.servers import Server

KEYS = [f"stream:{number}" for number in range(8)]
DEPTH = 16
PROBES_PER_S = 200
SHARE = 0.99
TARGET = Target(AT_MOST, 1.5)


def xadd_latency(bench: Bench, name: str) -> list[Result]:
    region, redis = bench.region(), bench.redis()
    count = bench.scale.appends[DEPTH] // len(KEYS)
    drive(region, Appends([region.port], KEYS, count, DEPTH))
    peak = drive(region, Appends([region.port], KEYS, count, DEPTH)).rate
    step_s = DEPTH * len(KEYS) / (peak / 2)
    with bench.profiled():
        ours = latencies_ms(region, step_s, bench.scale.lag_s)
    theirs = latencies_ms(redis, step_s, bench.scale.lag_s)
    details = {"peak": peak, "p50": percentile(ours, 0.5), "redis_p50": percentile(theirs, 0.5)}
    title = f"XADD at {peak / 2:,.0f} XADD/s, half of the peak, p{SHARE * 100:.0f}"
    sides = [Side(percentile(found, SHARE)) for found in (ours, theirs)]
    return [Result(name, title, "ms", sides[0], sides[1], TARGET, details)]


def latencies_ms(server: Server, step_s: float, seconds: float) -> list[float]:
    load = Appends([server.port], KEYS, max(1, round(seconds / step_s)) * DEPTH, DEPTH, interval_s=step_s)
    with Driver(load) as driver:
        driver.start()
        found = probes_ms(server, seconds * 0.9)
        driver.finish()
    return found


def probes_ms(server: Server, seconds: float) -> list[float]:
    found: list[float] = []
    began_s = time.monotonic()
    with Connection(server.port) as connection:
        for number in range(max(1, round(seconds * PROBES_PER_S))):
            time.sleep(max(0.0, began_s + number / PROBES_PER_S - time.monotonic()))
            asked_s = time.monotonic()
            connection.ask("XADD", "probe", "*", "f", number)
            found.append((time.monotonic() - asked_s) * 1000)
    return found
