"""Rows of XADD, by pipeline depth, by sync policy and with two linked peers; with a large value, and with a trim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.bench import Bench, await_agreement
from benchmarks.load import loads
from benchmarks.load.loads import CONNECTIONS, Appends, drive
from benchmarks.load.rounds import counted
from benchmarks.load.wire import Connection
from benchmarks.report.figures import AT_LEAST, AT_MOST, Result, Sample, Side, Target, summarize
from benchmarks.servers import ALWAYS, EVERYSEC, NO, Server

WARM_UP = 5_000
TARGETS = {NO: Target(AT_LEAST, 0.8), EVERYSEC: Target(AT_LEAST, 1.0), ALWAYS: Target(AT_LEAST, 1.0)}
WITH_PEERS = Target(AT_LEAST, 0.9)
CPU_WITH_PEERS = Target(AT_MOST, 1.2)
LARGE = Target(AT_LEAST, 1.5)
TRIMMED = Target(AT_LEAST, 1.0)
KEPT = 100_000
LARGE_PART = 4  # so many times fewer entries of 1 KiB
POLICIES = {NO: "no AOF / fsync no", EVERYSEC: "everysec", ALWAYS: "fsync always"}


def xadd(bench: Bench, name: str, depth: int, fsync: str = EVERYSEC) -> list[Result]:
    title = f"XADD, pipeline {depth}, {POLICIES[fsync]}"
    return [measure(bench, name, title, depth, (bench.region(fsync=fsync), bench.redis(fsync)), TARGETS[fsync])]


def xadd_with_peers(bench: Bench, name: str, depth: int) -> list[Result]:
    """Measure with two peers, which take the entries at the same time, on the same cores."""
    regions = bench.cluster(3)
    title = f"XADD, pipeline {depth}, two peers attached"
    result = measure(bench, name, title, depth, (regions[0], bench.redis()), WITH_PEERS, regions)
    return [result, cpu_line(result)]


def cpu_line(result: Result) -> Result:
    """The processor time of the row as a line with a target of its own."""
    assert result.redis is not None and result.ours.cpu_us is not None and result.redis.cpu_us is not None
    sides = Side(result.ours.cpu_us), Side(result.redis.cpu_us)
    return Result(f"{result.name}-cpu", f"{result.title}, server CPU", "µs", *sides, CPU_WITH_PEERS)


def measure(
    bench: Bench,
    name: str,
    title: str,
    depth: int,
    servers: tuple[Server, Server],
    target: Target,
    regions: Sequence[Server] | None = None,
) -> Result:
    def append(server: Server, repetition: int) -> Sample:
        key, count = f"stream:{repetition}", bench.scale.appends[depth]
        if server.counter is not None:
            return counted(server, loads.own_appends(server, key, count, depth), server.counter)
        sample = loads.append(server, key, count, depth)
        if regions is not None and server is servers[0]:
            await_agreement(regions)
        return sample

    for server in servers:
        loads.append(server, "warm-up", min(WARM_UP, bench.scale.appends[depth]), depth)
    ours, redis = bench.samples(servers, append)
    return Result(name, title, "op/s", summarize(ours), summarize(redis), target)


def xadd_large(bench: Bench, name: str, depth: int) -> list[Result]:
    count = bench.scale.appends[depth] // LARGE_PART
    return [driven(bench, name, f"XADD 1 KiB value, pipeline {depth}", Appends([], [], count, depth, "1-KiB"), LARGE)]


def xadd_trimmed(bench: Bench, name: str, depth: int) -> list[Result]:
    """Each stream is as long as it may be before the measurement."""
    load = Appends([], [], bench.scale.appends[depth], depth, options=("MAXLEN", "~", str(KEPT)))
    title = f"XADD MAXLEN ~ {KEPT:,}, pipeline {depth}"
    return [driven(bench, name, title, load, TRIMMED, bench.scale.kept_entries)]


def xadd_retained(bench: Bench, name: str, depth: int, limits: str) -> list[Result]:
    """The region removes what is beyond the limits, which no client applies; Redis removes nothing."""
    load = Appends([], [], bench.scale.appends[depth], depth)
    title = f"XADD, the stream has {limits}, pipeline {depth}"
    return [driven(bench, name, title, load, TRIMMED, bench.scale.kept_entries, limits)]


def driven(
    bench: Bench, name: str, title: str, load: Appends, target: Target, before: int = WARM_UP, limits: str = ""
) -> Result:
    """Measure `load.count` adds to one stream, after `before` others, from many connections of our driver. `limits` are
    those of the stream in the region; Redis has none.
    """
    servers = (bench.region(), bench.redis())

    def append(server: Server, repetition: int) -> Sample:
        ports, keys = [server.port] * CONNECTIONS, [f"stream:{repetition}"]
        drive(server, replace(load, ports=ports, keys=keys, count=max(1, before // CONNECTIONS)))
        if limits and server is servers[0]:
            with Connection(server.port) as connection:
                connection.ask("CRDT.STREAM", "SET", keys[0], *limits.split())
        return drive(server, replace(load, ports=ports, keys=keys, count=max(1, load.count // CONNECTIONS)))

    ours, redis = bench.samples(servers, append)
    return Result(name, title, "op/s", summarize(ours), summarize(redis), target)
