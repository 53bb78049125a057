"""Rows of a region that keeps most of its entries on the disk (`hot_bytes_max`), beside one that keeps all of them in
memory, and beside Redis.

All three hold the same entries of 1 KiB, three times as many as the spilling region may keep; its reads of disk are in
the details. What does not touch cold entries has a line of its own that compares the two regions, by turns in short
rounds: it should cost nothing. Both take a checkpoint after as much log, somewhat before the one that spills would ask
for it: what checkpoints cost is no cost of spilling. One may end behind the load that it began in, so in the long
rounds beside Redis each server is at rest before the next is measured; CPU times until then are in the details, as
multiples. Load and servers have cores of their own: where the scheduler put both on one, a region waited for it. Blocks
that are read may be in the system's cache; lines that end in `-disk` have the system drop them first.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.bench import Bench, memory_field
from benchmarks.load import loads
from benchmarks.load.alternating import ShortLoad, alternated
from benchmarks.load.driver import append_steps
from benchmarks.load.loads import Deliveries, Exchanges, Load, drive
from benchmarks.load.repeated import entries_in
from benchmarks.load.wire import Connection
from benchmarks.report.figures import AT_LEAST, Result, Sample, Side, Target, percentile, summarize
from benchmarks.rows.loop_stalls import waits_of
from benchmarks.rows.xread_tails import READ_COUNT, STREAM_ENTRIES, STREAMS, TAILS_LINES, tails_request
from benchmarks.servers import BenchmarkError, Region, Server
from crdtstream.processes.waiting import until

COLD = "cold"
# Of each entry of 1 KiB, which packed has about 590 bytes.
HOT_BYTES_EACH = 200
# Of what it may keep: a region that spills asks for a checkpoint once half of that is in none.
LOG_PART = 0.375
SPILLED_S = 300.0
# At rest a server takes less than this part of a core, for so long.
REST_CPU = 0.05
REST_S = 0.3
AS_WITHOUT = Target(AT_LEAST, 0.98)
READERS = 4
CONSUMERS = 50
# A short round: so many XADDs of all clients, so many reads of each reader, so many deliveries to each consumer.
SHORT_APPENDS = 16_000
SHORT_TAILS = 15
SHORT_DELIVERIES = 20
PAGE = 10
SCANNED_PAGE = 1_000
GROUP = "readers"

# From a server and the number of the repetition.
Measure = Callable[[Server, int], Sample]


@dataclass(frozen=True, slots=True)
class Three:
    """The servers of a row, filled."""

    spilling: Region
    plain: Region
    redis: Server

    @property
    def regions(self) -> tuple[Region, Region]:
        return self.spilling, self.plain

    @property
    def servers(self) -> tuple[Server, Server, Server]:
        return self.spilling, self.plain, self.redis


def begun(bench: Bench) -> Three:
    entries = bench.scale.cold_entries
    hot_bytes_max = HOT_BYTES_EACH * entries
    log_bytes = round(LOG_PART * hot_bytes_max)
    spilling = bench.region(hot_bytes_max=hot_bytes_max, checkpoint_log_bytes=log_bytes)
    plain = bench.region(number=2, checkpoint_log_bytes=log_bytes)
    three = Three(spilling, plain, bench.redis())
    for server in three.servers:
        drive(server, entries_in(server.port, [COLD], entries, "1-KiB"))
    for region in (spilling, plain):
        region.ask("SAVE")
    await_spilled(spilling)
    return three


def await_spilled(region: Region) -> None:
    def is_spilled() -> bool:
        is_small = memory_field(region, "hot_bytes") <= region.hot_bytes_max
        return is_small and memory_field(region, "spilled_blocks") > 0

    until(is_spilled, f"{region.name} keeps at most {region.hot_bytes_max} bytes of blocks in memory", SPILLED_S)


# What touches no cold entry


def compared(bench: Bench, name: str, title: str, three: Three, measure: Measure, short: ShortLoad) -> list[Result]:
    """The region that spills beside Redis, the other one beside Redis, and one beside the other."""
    reads, taken = memory_field(three.spilling, "cold_reads"), [checkpoints(region) for region in three.regions]
    rest = no_rest if bench.counts else await_rest
    with cores_of_their_own(three.servers):
        samples, cpu_s = samples_in_turns(bench, three, measure, rest)
        details = {
            "cold_reads": float(memory_field(three.spilling, "cold_reads") - reads),
            "spilled_blocks": float(memory_field(three.spilling, "spilled_blocks")),
            "checkpoints": float(checkpoints(three.spilling) - taken[0]),
            "checkpoints_without": float(checkpoints(three.plain) - taken[1]),
            "cpu_multiple_until_rest": cpu_s[three.spilling] / cpu_s[three.plain],
        }
        for region in three.regions:
            # Blocks that nobody reads would be compressed between the rounds, and beside them.
            region.ask("CONFIG", "SET", "cold-after-ms", 0)
            rest(region)
        multiple = alternated(three.spilling, three.plain, short, bench.scale.short_rounds // 2, rest)
    details["cold_reads_waited"] = float(memory_field(three.spilling, "cold_reads_waited"))
    spilling, plain, redis = (summarize(samples[server]) for server in three.servers)
    rounds = {
        "rounds": float(bench.scale.short_rounds),
        "error": multiple.error,
        "cpu_multiple": multiple.cpu,
        "driver": multiple.driver,
    }
    return [
        Result(name, f"{title}, with blocks on disk", "op/s", spilling, redis, None, details),
        Result(f"{name}-without", f"{title}, all in memory", "op/s", plain, redis),
        Result(
            f"{name}-multiple",
            f"{title}, with blocks on disk as a multiple",
            "x",
            Side(multiple.rate, driver_bound=multiple.driver_bound),
            None,
            AS_WITHOUT,
            rounds,
        ),
    ]


def samples_in_turns(
    bench: Bench, three: Three, measure: Measure, rest: Callable[[Server], None]
) -> tuple[dict[Server, list[Sample]], dict[Server, float]]:
    """Samples of the three servers, and the CPU time of each in seconds, with what it did until it was at rest. The
    regions change places each time: of two that are alike the first one was 7 % slower, because the other one packs
    meanwhile what it was given.
    """
    spilling, plain, redis = three.servers
    orders = (three.servers, (plain, spilling, redis))
    taken: dict[Server, list[Sample]] = {server: [] for server in three.servers}
    cpu_s = dict.fromkeys(three.servers, 0.0)
    with bench.profiled():
        for repetition in range(2 * bench.scale.repetitions):
            for server in orders[repetition % 2]:
                began_s = server.cpu_s()
                taken[server].append(measure(server, repetition))
                rest(server)
                cpu_s[server] += server.cpu_s() - began_s
    return taken, cpu_s


@contextmanager
def cores_of_their_own(servers: Sequence[Server]) -> Iterator[None]:
    """Keep the main threads of servers on one core, and what this process starts on the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        yield
        return
    for server in servers:
        os.sched_setaffinity(server.pid, cores[:1])
    os.sched_setaffinity(0, cores[1:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def await_rest(server: Server) -> None:
    def is_at_rest() -> bool:
        before_s = server.cpu_s()
        time.sleep(REST_S)
        return server.cpu_s() - before_s < REST_CPU * REST_S

    until(is_at_rest, f"{server.name} is at rest", SPILLED_S)


def no_rest(_server: Server) -> None:
    """Under valgrind a server is hardly ever at rest."""


def checkpoints(region: Region) -> int:
    return region.log().count("checkpoint-taken")


def spilling_xadd(bench: Bench, name: str, depth: int) -> list[Result]:
    three = begun(bench)

    def append(server: Server, repetition: int) -> Sample:
        return loads.append(server, f"stream:{repetition}", bench.scale.appends[depth], depth)

    pipelines = max(1, SHORT_APPENDS // (loads.CONNECTIONS * depth))
    each = loads.Appends([], ["short"], pipelines * depth, depth)
    scripts = [append_steps(each, "short", seed) for seed in range(loads.CONNECTIONS)]

    def short(server: Server, _round: int) -> Load:
        return Exchanges(server.port, scripts, each.count * loads.CONNECTIONS, by_lines=True)

    return compared(bench, name, f"XADD, pipeline {depth}", three, append, short)


def spilling_tails(bench: Bench, name: str) -> list[Result]:
    three = begun(bench)
    keys = [f"stream:{number}" for number in range(STREAMS)]
    requests = {server.port: tails_of(server, keys) for server in three.servers}

    def reads(server: Server, each: int) -> Load:
        scripts = [[(requests[server.port], TAILS_LINES)] * each] * READERS
        return Exchanges(server.port, scripts, each * READERS, by_lines=True)

    def read(server: Server, _repetition: int) -> Sample:
        return drive(server, reads(server, max(1, bench.scale.tail_reads // READERS)))

    def short(server: Server, _round: int) -> Load:
        return reads(server, SHORT_TAILS)

    return compared(bench, name, f"XREAD COUNT {READ_COUNT}, tail of {STREAMS} streams", three, read, short)


def tails_of(server: Server, keys: list[str]) -> bytes:
    drive(server, loads.Appends([server.port], keys, STREAM_ENTRIES))
    return tails_request(server, keys)


def spilling_consumers(bench: Bench, name: str) -> list[Result]:
    three = begun(bench)
    each = max(1, bench.scale.consumed_entries // CONSUMERS)

    def filled(server: Server, key: str, each: int) -> Load:
        load = Deliveries(server.port, key, GROUP, CONSUMERS, each)
        drive(server, loads.Appends([server.port], [key], load.total))
        return load

    def consume(server: Server, repetition: int) -> Sample:
        load = filled(server, f"stream:{repetition}", each)
        server.ask("XGROUP", "CREATE", f"stream:{repetition}", GROUP, 0)
        return drive(server, load)

    def short(server: Server, number: int) -> Load:
        if number == 0:
            server.ask("XGROUP", "CREATE", "short", GROUP, 0, "MKSTREAM")
        return filled(server, "short", SHORT_DELIVERIES)

    return compared(bench, name, f"XREADGROUP COUNT 1 + XACK, {CONSUMERS} consumers", three, consume, short)


# What reads cold entries


def cold_ranges(bench: Bench, name: str) -> list[Result]:
    """The mean time of a range at a random position, for one client that waits for each reply."""
    three = begun(bench)
    results = []
    for suffix, title in (("", "from the system's cache"), ("-disk", "from the disk")):
        taken = []
        for server in three.servers:
            ids = ids_in(server)
            if suffix:
                drop_cache(server)
            taken.append(ranges(server, bench.scale.cold_reads, ids))
        what = f"XRANGE COUNT {PAGE} of cold entries"
        (ours, details), (plain, _), (redis, _) = taken
        title = f"{what}, {title}, {details['cold_reads_each']:.2f} blocks each"
        results.append(Result(f"{name}{suffix}", title, "µs", ours, redis, None, details))
        if not suffix:
            results.append(Result(f"{name}-without", f"{what}, all in memory", "µs", plain, redis))
    return results


def ids_in(server: Server) -> list[bytes]:
    """Every ID of the cold stream: what this opens last is a small part."""
    return [entry_id for page in pages_of(server) for entry_id in page]


def pages_of(server: Server) -> Iterator[list[bytes]]:
    """Read the stream to its end; the last ID of a page is where the next one begins."""
    after = b"-"
    with Connection(server.port) as connection:
        while True:
            connection.send("XRANGE", COLD, after, "+", "COUNT", SCANNED_PAGE)
            ids, _ = connection.entries()
            if not ids:
                return
            yield ids
            after = b"(" + ids[-1]


def ranges(server: Server, count: int, ids: list[bytes]) -> tuple[Side, dict[str, float]]:
    generator = random.Random(server.port)
    names = ("cold_reads", "cold_reads_at_once", "cold_read_bytes", "cold_waits")
    with Connection(server.port) as connection:
        before = [memory_field(server, name) for name in names]
        waits_us: list[float] = []
        began_cpu_s = server.cpu_s()
        for _ in range(count):
            began_s = time.perf_counter()
            connection.send("XRANGE", COLD, generator.choice(ids), "+", "COUNT", PAGE)
            connection.entries()
            waits_us.append((time.perf_counter() - began_s) * 1e6)
        cpu_us = (server.cpu_s() - began_cpu_s) / count * 1e6
    details = {f"p{100 * share:g}_us": percentile(waits_us, share) for share in (0.5, 0.99)}
    for at, name in enumerate(names):
        details[f"{name}_each"] = (memory_field(server, name) - before[at]) / count
    return Side(sum(waits_us) / count, cpu_us), details


def drop_cache(server: Server) -> None:
    """Have the system forget a region's block files; another server has none."""
    if isinstance(server, Region):
        for path in server.data.glob("blocks-*"):
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def cold_scan(bench: Bench, name: str) -> list[Result]:
    """Read everything in pages from end to end, while another client reads the tails of a hundred streams."""
    three = begun(bench)
    keys = [f"stream:{number}" for number in range(STREAMS)]
    scans, waits = [], []
    for server in three.servers:
        tails_of(server, keys)
        words = tail_words(server, keys)
        drop_cache(server)
        waits_ms: list[float] = []
        with waits_of(server, waits_ms, *words):
            scans.append(scanned(server, bench.scale.cold_entries))
        waits.append(Side(percentile(waits_ms, 0.99)))
    title, beside = f"XRANGE COUNT {SCANNED_PAGE} of everything", "XREAD of tails beside it, p99"
    details = {"cold_reads_waited": float(memory_field(three.spilling, "cold_reads_waited"))}
    return [
        Result(name, f"{title}, from the disk", "entries/s", scans[0], scans[2], None, details),
        Result(f"{name}-without", f"{title}, all in memory", "entries/s", scans[1], scans[2]),
        Result(f"{name}-tails", f"{beside}, with blocks on disk", "ms", waits[0], waits[2]),
        Result(f"{name}-tails-without", f"{beside}, all in memory", "ms", waits[1], waits[2]),
    ]


def tail_words(server: Server, keys: list[str]) -> list[str]:
    """A read of the last ten entries of a tenth of the streams, so that the client itself has little to do."""
    few = keys[:: len(keys) // 10]
    with Connection(server.port) as connection:
        after = [connection.ask("XREVRANGE", key, "+", "-", "COUNT", PAGE + 1)[-1][0].decode() for key in few]
    return ["XREAD", "COUNT", str(PAGE), "STREAMS", *few, *after]


def scanned(server: Server, entries: int) -> Side:
    began_s, began_cpu_s = time.perf_counter(), server.cpu_s()
    found = sum(map(len, pages_of(server)))
    if found != entries:
        raise BenchmarkError(f"{server.name} has {found} of {entries} entries")
    return Side(found / (time.perf_counter() - began_s), (server.cpu_s() - began_cpu_s) / found * 1e6)
