"""Rows that are curves: throughput by pipeline depth, and cost by the number of entries in a stream.

Each point is a line of the table, and `plots` draws them. The cost of a request is measured on streams of that length:
as many of them as are needed for one measurement to lengthen each by a twentieth.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from benchmarks.bench import Bench
from benchmarks.load import loads
from benchmarks.load.loads import Appends, Exchanges, drive
from benchmarks.load.wire import ENTRY_LINES, Connection, command
from benchmarks.report.figures import Result, Sample, summarize
from benchmarks.scale import Scale
from benchmarks.servers import Server

DEPTHS = (1, 4, 16, 64, 128, 256)
SHORTEST = 1_000
CONNECTIONS = 8
ADDS = 19_200
ADDS_A_STEP = 16
RANGES = 4_800
RANGES_A_STEP = 4
PAGE = 100
FILLED_AT_ONCE = 500_000
VALUE = b"v" * 16
TITLES = {"XADD": "XADD, pipeline 16", "XRANGE": "XRANGE COUNT 100 anywhere"}

EntryId = tuple[int, int]
# From a server, the keys of its streams and a seed.
Maker = Callable[[Server, list[str], int], Exchanges]


def depth_line(name: str, depth: int) -> str:
    return f"{name}-{depth}"


def length_line(name: str, verb: str, length: int) -> str:
    return f"{name}-{verb.lower()}-{length}"


def depths(bench: Bench, name: str) -> list[Result]:
    servers = (bench.region(), bench.redis())
    results = []
    for depth in DEPTHS:
        ours, redis = bench.samples(servers, partial(append, depth=depth, count=amount(bench.scale, depth)))
        title = f"XADD by depth, pipeline {depth}"
        results.append(Result(depth_line(name, depth), title, "op/s", summarize(ours), summarize(redis)))
    return results


def amount(scale: Scale, depth: int) -> int:
    return scale.appends[max(measured for measured in scale.appends if measured <= depth)]


def append(server: Server, repetition: int, depth: int, count: int) -> Sample:
    key = f"stream:{repetition}"
    sample = loads.append(server, key, count, depth)
    server.ask("DEL", key)
    return sample


def entries(bench: Bench, name: str) -> list[Result]:
    servers = (bench.region(), bench.redis())
    results = []
    length = SHORTEST
    while length <= bench.scale.longest_entries:
        results += of_length(bench, name, servers, length)
        length *= 10
    return results


def of_length(bench: Bench, name: str, servers: tuple[Server, Server], length: int) -> list[Result]:
    keys = [f"stream:{number}" for number in range(max(1, 20 * ADDS // length))]
    for server in servers:
        fill(server, keys, length)
    results = []
    makers: dict[str, Maker] = {"XADD": adds, "XRANGE": ranges}
    for verb, make in makers.items():
        ours, redis = bench.samples(servers, partial(run, keys=keys, make=make))
        title = f"{TITLES[verb]}, stream of {length:,} entries"
        results.append(Result(length_line(name, verb, length), title, "op/s", summarize(ours), summarize(redis)))
    for server in servers:
        server.ask("DEL", *keys)
    return results


def run(server: Server, repetition: int, keys: list[str], make: Maker) -> Sample:
    return drive(server, make(server, keys, repetition))


def fill(server: Server, keys: list[str], length: int) -> None:
    for begin in range(0, length, FILLED_AT_ONCE):
        drive(server, Appends([server.port], keys, min(FILLED_AT_ONCE, length - begin)))


def adds(server: Server, keys: list[str], _seed: int) -> Exchanges:
    """Add to all streams in turn; each connection begins with another stream."""
    scripts = []
    for connection in range(CONNECTIONS):
        steps = range(connection, ADDS // ADDS_A_STEP, CONNECTIONS)
        requests = [command("XADD", keys[step % len(keys)], "*", "f", VALUE) for step in steps]
        scripts.append([(request * ADDS_A_STEP, 2 * ADDS_A_STEP) for request in requests])
    return Exchanges(server.port, scripts, ADDS, by_lines=True)


def ranges(server: Server, keys: list[str], seed: int) -> Exchanges:
    """Read pages that begin anywhere."""
    generator = random.Random(seed)
    with Connection(server.port) as connection:
        bounds = {key: page_bounds(connection, key) for key in keys}
    lines = 1 + PAGE * ENTRY_LINES
    scripts = []
    for _ in range(CONNECTIONS):
        chosen = [generator.choice(keys) for _ in range(RANGES // CONNECTIONS)]
        pages = [command("XRANGE", key, anywhere(generator, *bounds[key]), "+", "COUNT", PAGE) for key in chosen]
        steps = [pages[begin : begin + RANGES_A_STEP] for begin in range(0, len(pages), RANGES_A_STEP)]
        scripts.append([(b"".join(step), lines * len(step)) for step in steps])
    return Exchanges(server.port, scripts, RANGES, by_lines=True)


def page_bounds(connection: Connection, key: str) -> tuple[EntryId, EntryId]:
    """Return the first entries of the first page and of the last one."""
    connection.send("XRANGE", key, "-", "+", "COUNT", 1)
    (first,), _ = connection.entries()
    connection.send("XREVRANGE", key, "+", "-", "COUNT", PAGE)
    last_page, _ = connection.entries()
    return entry_id(first), entry_id(last_page[-1])


def entry_id(text: bytes) -> EntryId:
    milliseconds, sequence = text.split(b"-")
    return int(milliseconds), int(sequence)


def anywhere(generator: random.Random, first: EntryId, last: EntryId) -> str:
    """Draw an entry ID between two, by its milliseconds."""
    milliseconds, sequence = min((generator.randint(first[0], last[0]), 0), last)
    return f"{milliseconds}-{sequence}"
