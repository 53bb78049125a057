"""Rows of reads in pages of 100 entries: XRANGE, and XREADGROUP with XACK, of streams that one or three regions wrote.

Requests and the sizes of their replies are learned in advance, from another region if there are three, so that the
measured region has nothing cached from earlier reads. Then the driver only counts bytes. The entries of three regions
are interleaved, because all three wrote at the same time. How they are interleaved depends on which region was faster,
and decides what merging costs. So where instructions are counted, the milliseconds of the IDs are given, and the
regions are not linked while they write.

What is read once is read as soon as it is written, before an idle region compresses it (`cold_after_ms`), or once all
of it is compressed: between the two, the figure would depend on how long the other servers take to be filled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.bench import Bench, await_agreement, await_rest
from benchmarks.load.loads import Appends, Exchanges, drive
from benchmarks.load.rounds import measure
from benchmarks.load.wire import Connection, command
from benchmarks.report.figures import AT_LEAST, Result, Sample, Target, summarize
from benchmarks.servers import BenchmarkError, Server

PAGE = 100
STREAMS = 8  # one connection reads each
PAGES_A_STEP = 4
ACKNOWLEDGED_BYTES = len(b":100\r\n")
FIRST_MS = 1_700_000_000_000
READ = Target(AT_LEAST, 2.0)
COLD = Target(AT_LEAST, 1.0)
MERGED = Target(AT_LEAST, 1.5)
DELIVERED = Target(AT_LEAST, 1.5)

Script = list[tuple[bytes, int]]


@dataclass(frozen=True, slots=True)
class Page:
    ids: list[bytes]
    reply_bytes: int


@dataclass(frozen=True, slots=True)
class Library:
    """Servers with streams, and for each of their ports the pages of every stream, by repetition."""

    servers: tuple[Server, Server]
    pages: dict[int, list[dict[str, list[Page]]]]


def xrange(bench: Bench, name: str, regions: int) -> list[Result]:
    title = f"XRANGE COUNT 100, {writers(regions)}"
    ours_first: list[Sample] = []
    redis_first: list[Sample] = []

    def first(library: Library, repetition: int) -> None:
        for server, samples in zip(library.servers, (ours_first, redis_first), strict=True):
            samples.append(measure(server, ranges(library, server, repetition, 1)))

    library = fill(bench, regions, first if regions > 1 else None)

    def again(server: Server, repetition: int) -> Sample:
        passes = max(1, bench.scale.range_pages * PAGE // bench.scale.read_entries)
        # What was read first may not be kept any more: other repetitions were read since.
        drive(server, ranges(library, server, repetition, 1))
        return measure(server, ranges(library, server, repetition, passes))

    ours, redis = bench.samples(library.servers, again)
    result = Result(name, title, "op/s", summarize(ours), summarize(redis), READ)
    if regions == 1:
        return [result]
    once = Result(f"{name}-first", f"{title}, read once", "op/s", summarize(ours_first), summarize(redis_first), MERGED)
    return [once, result]


def xrange_cold(bench: Bench, name: str, regions: int) -> list[Result]:
    """Read blocks that are compressed, each page once: two or three pages share a block."""
    library = fill(bench, regions)
    await_rest(library.servers[0])

    def once(server: Server, repetition: int) -> Sample:
        return drive(server, ranges(library, server, repetition, 1))

    ours, redis = bench.samples(library.servers, once)
    written = "compressed blocks" if regions == 1 else f"compressed blocks, {writers(regions)}"
    title = f"XRANGE COUNT 100, {written}, read once"
    return [Result(name, title, "op/s", summarize(ours), summarize(redis), COLD)]


def xreadgroup(bench: Bench, name: str, regions: int) -> list[Result]:
    library = fill(bench, regions)

    def read(server: Server, repetition: int) -> Sample:
        with Connection(server.port) as connection:
            for key in library.pages[server.port][repetition]:
                connection.ask("XGROUP", "CREATE", key, "readers", 0)
        sample = measure(server, deliveries(library, server, repetition))
        with Connection(server.port) as connection:
            for key in library.pages[server.port][repetition]:
                if connection.ask("XPENDING", key, "readers")[0] != 0:
                    raise BenchmarkError(f"{server.name} has entries of {key} pending that were acknowledged")
        return sample

    ours, redis = bench.samples(library.servers, read)
    title = f"XREADGROUP COUNT 100 + XACK 100, {writers(regions)}"
    return [Result(name, title, "op/s", summarize(ours), summarize(redis), DELIVERED)]


def writers(regions: int) -> str:
    return "one region wrote" if regions == 1 else "three regions wrote"


# Filling and learning


def fill(bench: Bench, regions: int, written: Callable[[Library, int], None] | None = None) -> Library:
    """Fill a region, which others write to as well, and Redis; `written` is called as soon as a repetition is there."""
    nodes = bench.cluster(regions) if regions > 1 else [bench.region()]
    redis = bench.redis()
    keys = [[f"stream:{repetition}:{i}" for i in range(STREAMS)] for repetition in range(bench.scale.repetitions)]
    for node in nodes[1:]:
        # They share the processors, and are not measured.
        node.ask("CONFIG", "SET", "cold-after-ms", 0)
    library = Library((nodes[0], redis), {nodes[0].port: [], redis.port: []})
    count = bench.scale.read_entries // STREAMS
    first_ms = FIRST_MS if bench.counts else 0
    for repetition, names in enumerate(keys):
        drive(redis, Appends([redis.port], names, count, first_ms=first_ms))
        library.pages[redis.port].append(learn_all(redis, names))
        with bench.parted(nodes):
            drive(nodes[0], Appends([node.port for node in nodes], names, count // regions, first_ms=first_ms))
        await_agreement(nodes)
        library.pages[nodes[0].port].append(learn_all(nodes[-1], names))
        if written is not None:
            written(library, repetition)
    for node in nodes[1:]:
        node.stop()
    return library


def learn_all(server: Server, keys: list[str]) -> dict[str, list[Page]]:
    with Connection(server.port) as connection:
        return {key: learn(connection, key) for key in keys}


def learn(connection: Connection, key: str) -> list[Page]:
    pages: list[Page] = []
    after = b"-"
    while True:
        connection.send("XRANGE", key, after, "+", "COUNT", PAGE)
        ids, reply_bytes = connection.entries()
        if not ids:
            return pages
        if len(ids) != PAGE:
            raise BenchmarkError(f"{key} lacks entries: its last page has {len(ids)}")
        pages.append(Page(ids, reply_bytes))
        after = b"(" + ids[-1]


# Scripts


def ranges(library: Library, server: Server, repetition: int, passes: int) -> Exchanges:
    scripts = [range_script(key, pages) * passes for key, pages in library.pages[server.port][repetition].items()]
    count = sum(len(pages) for pages in library.pages[server.port][repetition].values())
    return Exchanges(server.port, scripts, count * passes)


def range_script(key: str, pages: list[Page]) -> Script:
    """Request several pages a step, so that the cost of a client is small compared with that of the server."""
    steps = []
    for begin in range(0, len(pages), PAGES_A_STEP):
        group = pages[begin : begin + PAGES_A_STEP]
        requests = [command("XRANGE", key, page.ids[0], "+", "COUNT", PAGE) for page in group]
        steps.append((b"".join(requests), sum(page.reply_bytes for page in group)))
    return steps


def deliveries(library: Library, server: Server, repetition: int) -> Exchanges:
    by_key = library.pages[server.port][repetition]
    scripts = [delivery_script(key, pages) for key, pages in by_key.items()]
    return Exchanges(server.port, scripts, sum(len(pages) for pages in by_key.values()))


def delivery_script(key: str, pages: list[Page]) -> Script:
    """Behave like a consumer: acknowledge the last page and read the next one in one pipeline."""
    read = command("XREADGROUP", "GROUP", "readers", "consumer", "COUNT", PAGE, "STREAMS", key, ">")
    wrapper_bytes = len(b"*1\r\n*2\r\n$%d\r\n%b\r\n" % (len(key), key.encode()))
    steps: Script = [(read, wrapper_bytes + pages[0].reply_bytes)]
    for last, page in pairwise(pages):
        request = command("XACK", key, "readers", *last.ids) + read
        steps.append((request, ACKNOWLEDGED_BYTES + wrapper_bytes + page.reply_bytes))
    steps.append((command("XACK", key, "readers", *pages[-1].ids), ACKNOWLEDGED_BYTES))
    return steps
