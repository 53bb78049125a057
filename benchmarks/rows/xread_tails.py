"""Rows of readers that are up to date: the tails of many streams in one XREAD, and consumers that share a stream."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.load.loads import CONNECTIONS, Appends, Deliveries, Exchanges, drive
from benchmarks.load.rounds import measure
from benchmarks.load.wire import ENTRY_LINES, Connection, command
from benchmarks.report.figures import AT_LEAST, Result, Sample, Target, summarize
from benchmarks.servers import BenchmarkError, Server

STREAMS = 100
TAIL = 10  # entries of each stream, so that one XREAD returns 1000
STREAM_ENTRIES = 300
READERS = 4
READ_COUNT = 1000
# *100, and for each stream *2 $n key *10 and the entries.
TAILS_LINES = 1 + STREAMS * (4 + TAIL * ENTRY_LINES)
GROUP = "readers"
TAILS = Target(AT_LEAST, 2.0)
EACH = Target(AT_LEAST, 1.0)


def tails(bench: Bench, name: str) -> list[Result]:
    keys = [f"stream:{number}" for number in range(STREAMS)]
    servers = (bench.region(), bench.redis())
    requests = {}
    for server in servers:
        drive(server, Appends([server.port], keys, STREAM_ENTRIES))
        requests[server.port] = tails_request(server, keys)

    def read(server: Server, _repetition: int) -> Sample:
        each = max(1, bench.scale.tail_reads // READERS)
        scripts = [[(requests[server.port], TAILS_LINES)] * each] * READERS
        return drive(server, Exchanges(server.port, scripts, each * READERS, by_lines=True))

    ours, redis = bench.samples(servers, read)
    title = f"XREAD COUNT {READ_COUNT}, tail of {STREAMS} streams"
    return [Result(name, title, "op/s", summarize(ours), summarize(redis), TAILS)]


def tails_request(server: Server, keys: list[str]) -> bytes:
    """An XREAD behind the entry that precedes the tail of each stream."""
    with Connection(server.port) as connection:
        after = [connection.ask("XREVRANGE", key, "+", "-", "COUNT", TAIL + 1)[-1][0] for key in keys]
    return command("XREAD", "COUNT", READ_COUNT, "STREAMS", *keys, *after)


def consumers(bench: Bench, name: str, properties: str = "") -> list[Result]:
    """`properties` are those of the group in the region; Redis has none."""
    each = max(1, bench.scale.consumed_entries // CONNECTIONS)
    servers = (bench.region(), bench.redis())

    def consume(server: Server, repetition: int) -> Sample:
        key = f"stream:{repetition}"
        load = Deliveries(server.port, key, GROUP, CONNECTIONS, each)
        drive(server, Appends([server.port], [key], load.total))
        with Connection(server.port) as connection:
            chosen = ["CRDT", *properties.split()] if properties and server is servers[0] else []
            connection.ask("XGROUP", "CREATE", key, GROUP, 0, *chosen)
            sample = measure(server, load)
            if connection.ask("XPENDING", key, GROUP)[0] != 0:
                raise BenchmarkError(f"{server.name} has entries of {key} pending that were acknowledged")
        return sample

    ours, redis = bench.samples(servers, consume)
    title = f"XREADGROUP COUNT 1 + XACK, {CONNECTIONS} consumers{', ' if properties else ''}{properties}"
    return [Result(name, title, "op/s", summarize(ours), summarize(redis), EACH)]
