"""Rows of XADD with a 16-byte value: by pipeline depth, by sync policy, and with two linked peers."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import load
from benchmarks.bench import Bench, await_agreement
from benchmarks.figures import AT_LEAST, Result, Sample, Target, summarize
from benchmarks.rounds import counted
from benchmarks.servers import EVERYSEC, NO, Server

WARM_UP = 5_000
ALONE = Target(AT_LEAST, 0.6)
WITH_PEERS = Target(AT_LEAST, 0.5)


def xadd(bench: Bench, name: str, depth: int, fsync: str = EVERYSEC) -> list[Result]:
    policy = "no AOF / fsync no" if fsync == NO else "everysec"
    title = f"XADD, pipeline {depth}, {policy}"
    return [measure(bench, name, title, depth, (bench.region(fsync=fsync), bench.redis(fsync)), ALONE)]


def xadd_with_peers(bench: Bench, name: str, depth: int) -> list[Result]:
    """Measure with two peers, which take the entries at the same time, on the same cores."""
    regions = bench.cluster(3)
    title = f"XADD, pipeline {depth}, two peers attached"
    return [measure(bench, name, title, depth, (regions[0], bench.redis()), WITH_PEERS, regions)]


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
            return counted(server, load.own_appends(server, key, count, depth), server.counter)
        sample = load.append(server, key, count, depth)
        if regions is not None and server is servers[0]:
            await_agreement(regions)
        return sample

    for server in servers:
        load.append(server, "warm-up", min(WARM_UP, bench.scale.appends[depth]), depth)
    ours, redis = bench.samples(servers, append)
    return Result(name, title, "op/s", summarize(ours), summarize(redis), target)
