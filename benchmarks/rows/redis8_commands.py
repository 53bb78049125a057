"""Rows of stream commands that came with Redis 8: XDELEX, XACKDEL (8.2), XREADGROUP CLAIM (8.4) and XADD IDMP (8.6).

A redis-server that does not have one yet is not measured: the line is ours alone, and its title says so. The IDs are
learned in advance, a page at a time; replies are counted in lines.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from benchmarks.bench import Bench
from benchmarks.load import rounds
from benchmarks.load.loads import Appends, Exchanges, drive
from benchmarks.load.wire import Connection, ReplyError, command
from benchmarks.report.figures import Result, Sample, summarize
from benchmarks.rows.reads import learn_all
from benchmarks.servers import Server

PAGE = 100
STREAMS = 8  # one connection works on each
ADDS_A_STEP = 16
VALUE = b"v" * 16
# An entry that was claimed: *4 $n ID *2 $n field $n value :idle :deliveries.
CLAIMED_LINES = 10
# *1 *2 $n key *100
HEADER_LINES = 5

Script = list[tuple[bytes, int]]
Pages = list[list[bytes]]
# Adds so many entries under a key, and learns their IDs, a page at a time.
Filler = Callable[[Server, str, int], Pages]
# From a key and its pages to the requests of one connection.
Maker = Callable[[str, Pages], Script]


def xdelex(bench: Bench, name: str) -> list[Result]:
    probe = command("XDELEX", "probe", "IDS", 1, "1-0")
    return measured(bench, name, "XDELEX of 100 scattered entries", probe, filled, removals)


def xackdel(bench: Bench, name: str) -> list[Result]:
    probe = command("XACKDEL", "probe", "readers", "IDS", 1, "1-0")
    return measured(bench, name, "XACKDEL of 100 entries", probe, delivered, acknowledgements)


def claim(bench: Bench, name: str) -> list[Result]:
    return measured(bench, name, "XREADGROUP CLAIM COUNT 100", claiming("probe"), delivered, claims)


def idmp(bench: Bench, name: str) -> list[Result]:
    """Every tenth add repeats the one before it."""
    probe = command("XADD", "probe", "IDMP", "producer", "probe", "*", "f", VALUE)
    return measured(bench, name, f"XADD IDMP, pipeline {ADDS_A_STEP}, a tenth repeated", probe, None, adds)


def measured(bench: Bench, name: str, title: str, probe: bytes, fill: Filler | None, make: Maker) -> list[Result]:
    region, redis = bench.region(), bench.redis()
    count = max(PAGE, bench.scale.read_entries // STREAMS // PAGE * PAGE)
    measure = partial(work, fill=fill, make=make, count=count)
    if not knows(redis, probe):
        (ours,) = bench.samples((region,), measure)
        return [Result(name, f"{title}, ours alone", "op/s", summarize(ours))]
    ours, theirs = bench.samples((region, redis), measure)
    return [Result(name, title, "op/s", summarize(ours), summarize(theirs))]


def work(server: Server, repetition: int, fill: Filler | None, make: Maker, count: int) -> Sample:
    keys = [f"stream:{repetition}:{at}" for at in range(STREAMS)]
    unnamed = [[b""] * PAGE for _ in range(count // PAGE)]
    scripts = [make(key, fill(server, key, count) if fill is not None else unnamed) for key in keys]
    operations = sum(request.count(b"\r\nX") for script in scripts for request, _ in script)
    return rounds.measure(server, Exchanges(server.port, scripts, operations, by_lines=True))


def knows(server: Server, probe: bytes) -> bool:
    """Whether the server has the command, of which `probe` is a request; a stream and a group are there for it."""
    with Connection(server.port) as connection:
        connection.ask("XGROUP", "CREATE", "probe", "readers", 0, "MKSTREAM")
        try:
            connection.pipeline([probe])
        except ReplyError:
            return False
    return True


# Filling


def filled(server: Server, key: str, count: int) -> Pages:
    drive(server, Appends([server.port], [key], count))
    return [page.ids for page in learn_all(server, [key])[key]]


def delivered(server: Server, key: str, count: int) -> Pages:
    pages = filled(server, key, count)
    with Connection(server.port) as connection:
        connection.ask("XGROUP", "CREATE", key, "readers", 0)
        for _ in pages:
            connection.ask("XREADGROUP", "GROUP", "readers", "first", "COUNT", PAGE, "STREAMS", key, ">")
    return pages


# Scripts


def removals(key: str, pages: Pages) -> Script:
    ids = [entry_id for page in pages for entry_id in page]
    random.Random(len(ids)).shuffle(ids)
    scattered = [ids[begin : begin + PAGE] for begin in range(0, len(ids), PAGE)]
    return [(command("XDELEX", key, "IDS", PAGE, *page), 1 + PAGE) for page in scattered]


def acknowledgements(key: str, pages: Pages) -> Script:
    return [(command("XACKDEL", key, "readers", "IDS", PAGE, *page), 1 + PAGE) for page in pages]


def claims(key: str, pages: Pages) -> Script:
    """Each request claims those that have waited longest: what it claimed itself comes last."""
    return [(claiming(key), HEADER_LINES + CLAIMED_LINES * PAGE) for _ in pages]


def claiming(key: str) -> bytes:
    return command("XREADGROUP", "GROUP", "readers", "second", "COUNT", PAGE, "CLAIM", 0, "STREAMS", key, ">")


def adds(key: str, pages: Pages) -> Script:
    numbers = [number - (number % 10 == 9) for number in range(PAGE * len(pages))]
    requests = [command("XADD", key, "IDMP", "producer", number, "*", "f", VALUE) for number in numbers]
    steps = [requests[begin : begin + ADDS_A_STEP] for begin in range(0, len(requests), ADDS_A_STEP)]
    return [(b"".join(step), 2 * len(step)) for step in steps]
