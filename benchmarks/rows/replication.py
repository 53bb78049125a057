"""Rows of replication between two regions: rate and bytes on the wire beside a Redis with a replica; lag under load;
catch-up after a cut.

Where bytes are counted or regions parted, a relay lies between them. Lag is the time from the reply to an XADD in one
region until a blocked XREAD in the other returns that entry, on one clock, while half of the peak load runs.
"""

from __future__ import annotations

import threading
import time

from benchmarks.bench import Bench, await_applied, await_links, vector
from benchmarks.load.loads import Appends, Driver, drive
from benchmarks.load.wire import Connection
from benchmarks.report.figures import AT_LEAST, AT_MOST, Result, Sample, Side, Target, percentile, summarize
from benchmarks.servers import Region, Server
from crdtstream.processes.relay import Relay

KEYS = [f"stream:{i}" for i in range(8)]
WARM_UP = 1_000
PROBES_PER_S = 50
PEAK_DEPTH = 16
REDIAL_TIMEOUT_S = 60.0
RATE = Target(AT_LEAST, 1.5)
WIRE = Target(AT_MOST, 0.25)
CATCH_UP = Target(AT_LEAST, 1_500_000)


def pair(bench: Bench) -> tuple[Region, Region]:
    """Start two regions; the second dials the first."""
    source = bench.region(1)
    sink = bench.region(2, (source.address,))
    warm_up(source, sink)
    return source, sink


def linked(bench: Bench) -> tuple[Region, Region, Relay]:
    """Start two regions; the second dials the first through the relay."""
    source = bench.region(1)
    relay = bench.relay(source)
    sink = bench.region(2, (relay.address,))
    warm_up(source, sink)
    return source, sink, relay


def warm_up(source: Region, sink: Region) -> None:
    await_links(source, 1)
    drive(source, Appends([source.port], ["warm-up"], WARM_UP))
    await_sink(source, sink)


def await_sink(source: Region, sink: Region) -> None:
    with Connection(source.port) as connection:
        wanted = vector(connection)
    await_applied(sink, wanted)


def throughput(bench: Bench, name: str) -> list[Result]:
    """Measure what a second server keeps up with, and its processor time: a region beside a replica of Redis. Nothing
    lies between the two, so what the regions send is counted afterwards, between two others.
    """
    source, sink = pair(bench)
    main, replica = bench.redis(), bench.redis()
    replica.follow(main)
    each = bench.scale.replicated_entries // len(KEYS)
    source_cpu_s = 0.0

    def replicate(server: Server, repetition: int) -> Sample:
        nonlocal source_cpu_s
        keys = [f"{key}:{repetition}" for key in KEYS]
        receiver = sink if server is source else replica
        with Driver(Appends([server.port], keys, each)) as driver:
            began_s, server_cpu_s, receiver_cpu_s = time.monotonic(), server.cpu_s(), receiver.cpu_s()
            driver.start()
            sample = driver.finish()
            if server is source:
                await_sink(source, sink)
            else:
                replica.await_offset(main)
            seconds = time.monotonic() - began_s
        if server is source:
            source_cpu_s += server.cpu_s() - server_cpu_s
        # Without the time of the driver: what it would be compared with is the source, which is no figure of the row.
        return Sample(sample.operations, seconds, receiver.cpu_s() - receiver_cpu_s, 0.0)

    drive(main, Appends([main.port], ["warm-up"], WARM_UP))
    replica.await_offset(main)
    offset = main.replication_offset()
    ours, redis = bench.samples((source, main), replicate)
    sent = (main.replication_offset() - offset) / sum(sample.operations for sample in redis)
    for server in (source, sink, main, replica):
        server.kill()
    forth, back = wire_bytes(bench)
    details = {
        "source_cpu_us": source_cpu_s / sum(sample.operations for sample in ours) * 1e6,
        "bytes_back": back,
    }
    title = "replication until applied elsewhere; Redis to a replica (CPU: the receiver)"
    wire = "replication, on the wire for an entry (16 random hex digits)"
    return [
        Result(name, title, "entries/s", summarize(ours), summarize(redis), RATE, details),
        Result(f"{name}-wire", wire, "B", Side(forth), Side(sent), WIRE),
    ]


def wire_bytes(bench: Bench) -> tuple[float, float]:
    """Return what passes a relay between two regions for an entry, from its source and back."""
    source, sink, relay = linked(bench)
    load = Appends([source.port], KEYS, bench.scale.replicated_entries // len(KEYS))
    sent, received = relay.from_target, relay.to_target
    drive(source, load)
    await_sink(source, sink)
    return (relay.from_target - sent) / load.total, (relay.to_target - received) / load.total


def catch_up(bench: Bench, name: str) -> list[Result]:
    """Measure from the first byte of the new connection; the duration of the redial is a detail."""
    source, sink, relay = linked(bench)
    relay.cut()
    await_links(source, 0)
    load = Appends([source.port], KEYS, bench.scale.missed_entries // len(KEYS))
    drive(source, load)
    cpu_s, healed_s = sink.cpu_s(), time.monotonic()
    relay.heal()
    if not relay.connected.wait(REDIAL_TIMEOUT_S):
        raise TimeoutError("the region does not redial")
    began_s = time.monotonic()
    with bench.profiled():
        await_sink(source, sink)
    seconds = time.monotonic() - began_s
    side = Side(load.total / seconds, (sink.cpu_s() - cpu_s) * 1e6 / load.total)
    title = f"catch-up after a partition of {load.total:,} entries (CPU: the receiver)"
    return [Result(name, title, "entries/s", side, None, CATCH_UP, {"redial_s": began_s - healed_s})]


def lag(bench: Bench, name: str) -> list[Result]:
    source, sink, _ = linked(bench)
    peak = peak_rate(bench, source, sink)
    step_s = PEAK_DEPTH * len(KEYS) / (peak / 2)
    count = round(bench.scale.lag_s / step_s) * PEAK_DEPTH
    load = Appends([source.port], KEYS, count, PEAK_DEPTH, interval_s=step_s)
    with Driver(load) as driver, bench.profiled():
        driver.start()
        lags_ms = probe(source, sink, bench.scale.lag_s * 0.9)
        offered = driver.finish().rate
    details = {"peak": peak, "load": offered, "probes": float(len(lags_ms)), "max": max(lags_ms)}
    return [
        Result(
            f"{name}-p{share:.0%}".rstrip("%"),
            f"replication lag at {offered:,.0f} XADD/s, p{share * 100:.0f}",
            "ms",
            Side(percentile(lags_ms, share)),
            details=details,
        )
        for share in (0.5, 0.99)
    ]


def peak_rate(bench: Bench, source: Region, sink: Region) -> float:
    """Return the XADDs per second that also reach the other region."""
    load = Appends([source.port], KEYS, bench.scale.replicated_entries // 2 // len(KEYS), PEAK_DEPTH)
    with Driver(load) as driver:
        began_s = time.monotonic()
        driver.start()
        driver.finish()
        await_sink(source, sink)
        return load.total / (time.monotonic() - began_s)


def probe(source: Region, sink: Region, seconds: float) -> list[float]:
    """Return the milliseconds from reply to arrival, for probes at a steady pace."""
    seen_s: dict[bytes, float] = {}
    count = max(1, round(seconds * PROBES_PER_S))
    with Connection(sink.port) as watcher, Connection(source.port) as writer:
        thread = threading.Thread(target=watch, args=(watcher, seen_s, count))
        thread.start()
        began_s = time.monotonic()
        replied_s: dict[bytes, float] = {}
        for i in range(count):
            time.sleep(max(0.0, began_s + i / PROBES_PER_S - time.monotonic()))
            entry_id = writer.ask("XADD", "probe", "*", "f", i)
            replied_s[entry_id] = time.monotonic()
        thread.join()
    return [(seen_s[entry_id] - at_s) * 1000 for entry_id, at_s in replied_s.items()]


def watch(watcher: Connection, seen_s: dict[bytes, float], count: int) -> None:
    last: bytes | str = "0"
    while len(seen_s) < count:
        reply = watcher.ask("XREAD", "BLOCK", 0, "STREAMS", "probe", last)
        now_s = time.monotonic()
        for entry_id, _ in reply[0][1]:
            seen_s[entry_id] = now_s
            last = entry_id
