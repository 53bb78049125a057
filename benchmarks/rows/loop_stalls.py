"""Rows of work that could block the event loop, ours only: each figure is the longest time that a client had to wait.

During the work a separate process sends PING repeatedly, like a client that has nothing to do with it.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from typing import Any

from benchmarks.bench import Bench
from benchmarks.load.loads import Appends, Driver, Exchanges, drive
from benchmarks.load.wire import Connection, command
from benchmarks.report.figures import AT_MOST, Result, Side, Target, percentile
from benchmarks.servers import Server

PAUSE_S = 0.001  # the probe is part of the load, so it must not keep the region busy itself
WAIT = Target(AT_MOST, 50.0)
VALUE = b"v" * 16
RANGES = 16  # in each pipeline
READERS = 40
DIGESTED_STREAMS = 200

context: Any = multiprocessing.get_context("fork")


def add(key: str) -> bytes:
    return command("XADD", key, "*", "f", VALUE)


# Waiting


def ask_again_and_again(port: int, words: tuple[str, ...], pipe: Pipe) -> None:
    """Send this request until told to end, then report how long each took, in ms."""
    waits_ms: list[float] = []
    with Connection(port) as connection:
        pipe.send([])
        while not pipe.poll():
            began_s = time.perf_counter()
            connection.ask(*words)
            waits_ms.append((time.perf_counter() - began_s) * 1000)
            time.sleep(PAUSE_S)
    pipe.send(waits_ms)


@contextmanager
def waits_of(server: Server, waits_ms: list[float], *words: str) -> Iterator[None]:
    """Add to `waits_ms` how long another client waits during the block for PING, or for another request."""
    pipe, far = multiprocessing.Pipe()
    process = context.Process(target=ask_again_and_again, args=(server.port, words or ("PING",), far))
    process.start()
    pipe.recv()
    try:
        yield
    finally:
        pipe.send([])
        waits_ms += pipe.recv()
        process.join()


def result_of(name: str, title: str, waits_ms: list[float], **details: float) -> Result:
    shares = {f"p{100 * share:g}": percentile(waits_ms, share) for share in (0.5, 0.99)}
    return Result(name, title, "ms", Side(max(waits_ms)), None, WAIT, {**shares, **details})


# SCAN


def scan(bench: Bench, name: str) -> list[Result]:
    """Scan all keys, deleting one between two calls; deleted keys are forgotten meanwhile."""
    region = bench.region()
    count = bench.scale.scanned_keys
    waits_ms: list[float] = []
    with bench.profiled(), Connection(region.port) as connection:
        connection.pipeline([add(f"key-{number}") for number in range(count)])
        cursor, number, end_s = b"0", 0, time.monotonic() + bench.scale.scan_s
        while time.monotonic() < end_s:
            connection.ask("DEL", f"key-{number % count}")
            began_s = time.perf_counter()
            cursor, _ = connection.ask("SCAN", cursor, "COUNT", 10)
            waits_ms.append((time.perf_counter() - began_s) * 1000)
            number += 1
            time.sleep(PAUSE_S)
    return [result_of(name, f"SCAN COUNT 10 of {count:,} keys, longest", waits_ms)]


# Pipelines of huge ranges


def pipelines(bench: Bench, name: str) -> list[Result]:
    """Run pipelines from one client, then from many at once; each pipeline requests a whole stream repeatedly."""
    region = bench.region()
    count = bench.scale.ranged_entries
    drive(region, Appends([region.port], ["stream"], count))
    with Connection(region.port) as connection:
        connection.send("XRANGE", "stream", "-", "+")
        _, reply_bytes = connection.entries()
    step = (command("XRANGE", "stream", "-", "+") * RANGES, RANGES * reply_bytes)
    results = []
    with bench.profiled():
        for suffix, readers in (("", 1), (f"-{READERS}", READERS)):
            title = f"PING beside {readers} x {RANGES} ranges of {count:,} entries, longest"
            results.append(
                read_beside(region, f"{name}{suffix}", title, Exchanges(region.port, [[step]] * readers, RANGES))
            )
    return results


def read_beside(region: Server, name: str, title: str, load: Exchanges) -> Result:
    waits_ms: list[float] = []
    with Driver(load) as driver, waits_of(region, waits_ms):
        driver.start()
        sample = driver.finish()
    return result_of(name, title, waits_ms, seconds=sample.seconds, resident_bytes=region.resident_bytes())


# CRDT.DIGEST


def digest(bench: Bench, name: str) -> list[Result]:
    """Compute the digest of everything, first cold and then again, when the sums of unchanged streams are cached."""
    region = bench.region()
    count = bench.scale.digested_entries
    keys = [f"stream-{number}" for number in range(DIGESTED_STREAMS)]
    drive(region, Appends([region.port], ["large"], count // 2))
    drive(region, Appends([region.port], keys, count // 2 // DIGESTED_STREAMS))
    results = []
    with bench.profiled():
        for suffix, title in (("", "first"), ("-again", "again")):
            longest = f"PING beside CRDT.DIGEST of {count:,} entries, {title}, longest"
            results.append(digest_once(region, f"{name}{suffix}", longest))
    return results


def digest_once(region: Server, name: str, title: str) -> Result:
    waits_ms: list[float] = []
    with Connection(region.port) as connection, waits_of(region, waits_ms):
        began_s = time.perf_counter()
        connection.ask("CRDT.DIGEST")
        seconds = time.perf_counter() - began_s
    return result_of(name, title, waits_ms, seconds=seconds)
