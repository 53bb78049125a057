"""Rows of a region of several shards, beside as many redis-servers in cluster mode: all processes work at once, each on
streams of its own, and rates and processor times are those of all of them together.

A machine needs a core for each process, and some for the load, before more shards are faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import redis

from benchmarks.bench import Bench
from benchmarks.load.loads import Appends, Deliveries, Driver, Load
from benchmarks.report.figures import AT_LEAST, Result, Sample, Target, summarize
from benchmarks.slot_servers import SlotServers, keys_in

CONNECTIONS = 48
STREAMS = 4
DEPTH = 16
WARM_UP_PART = 10
GROUP = "workers"
AS_FAST = Target(AT_LEAST, 0.8)


def sharded(bench: Bench, name: str, shards: int) -> list[Result]:
    servers = (bench.shards(shards), bench.redis_cluster(shards))
    adds: list[list[Sample]] = [[] for _ in servers]
    reads: list[list[Sample]] = [[] for _ in servers]
    entries = bench.scale.appends[DEPTH]
    for each in servers:
        drive_all(each, adds_of(each, entries // WARM_UP_PART, "warm-up"))
    for repetition in range(bench.scale.repetitions):
        for side, each in enumerate(servers):
            adds[side].append(drive_all(each, adds_of(each, entries, f"stream:{repetition}")))
            reads[side].append(drive_all(each, reads_of(each, bench.scale.consumed_entries, f"queue:{repetition}")))
    what = f"{shards} shard{'s' * (shards > 1)} beside a Redis Cluster of as many"
    ours, others = map(summarize, adds)
    readers, other_readers = map(summarize, reads)
    return [
        Result(name, f"XADD, pipeline {DEPTH}, {what}", "op/s", ours, others, AS_FAST),
        Result(f"{name}-consumers", f"XREADGROUP COUNT 1 + XACK, {what}", "op/s", readers, other_readers),
    ]


def drive_all(servers: SlotServers, loads: Sequence[Load]) -> Sample:
    """Run all loads at once, each from a process of its own; the slowest ends last."""
    with ExitStack() as stack:
        drivers = [stack.enter_context(Driver(load)) for load in loads]
        began_s = servers.cpu_s()
        for driver in drivers:
            driver.start()
        samples = [driver.finish() for driver in drivers]
        cpu_s = servers.cpu_s() - began_s
    return Sample(
        sum(sample.operations for sample in samples),
        max(sample.seconds for sample in samples),
        cpu_s,
        max(sample.driver_cpu_s for sample in samples),
    )


def adds_of(servers: SlotServers, entries: int, prefix: str) -> list[Appends]:
    count = len(servers.ports)
    connections = CONNECTIONS // STREAMS // count
    each = max(1, entries // (count * connections * STREAMS))
    return [
        Appends([port] * connections, keys_in(number, count, STREAMS, prefix), each, DEPTH)
        for number, port in enumerate(servers.ports)
    ]


def reads_of(servers: SlotServers, entries: int, prefix: str) -> list[Deliveries]:
    """Consumers of a stream in each process, which is filled now."""
    count = len(servers.ports)
    consumers = CONNECTIONS // count
    found: list[Deliveries] = []
    for number, port in enumerate(servers.ports):
        [key] = keys_in(number, count, 1, prefix)
        load = Deliveries(port, key, GROUP, consumers, max(1, entries // (count * consumers)))
        fill(load)
        found.append(load)
    return found


def fill(load: Deliveries) -> None:
    with Driver(Appends([load.port], [load.key], load.total)) as driver:
        driver.start()
        driver.finish()
    with redis.Redis(port=load.port) as client:
        client.xgroup_create(load.key, load.group, "0")
