"""Rows of memory, once the server is at rest: growth of the resident set for each entry, and for each stream of one."""

from __future__ import annotations

import time

from benchmarks.bench import Bench, await_rest, memory_field
from benchmarks.load.loads import Appends, Exchanges, drive
from benchmarks.load.wire import Connection, command
from benchmarks.report.figures import AT_MOST, Result, Side, Target
from benchmarks.servers import Region, Server

WARM_UP = 5_000
# Fixed pauses, because neither server reports when it has released what it can.
SETTLE_S = 1.2  # the buffers of the log are released, the sync of the last second is done
TARGETS = {"16-byte": Target(AT_MOST, 1.0), "sensor": Target(AT_MOST, 0.6), "1-KiB": Target(AT_MOST, 0.6)}
ONE_ENTRY = Target(AT_MOST, 0.5)
STREAMS_AT_ONCE = 100
REPLAYED = Target(AT_MOST, 150.0)
DEAD_KEYS_AT_ONCE = 20_000
COLLECTED_S = 4.5  # durable within a second, then 10,000 keys per second, then logged
TITLES = {"16-byte": "16-byte value", "sensor": "4-field sensor", "1-KiB": "1 KiB value"}


def memory(bench: Bench, name: str, shape: str) -> list[Result]:
    region = bench.region()
    with bench.profiled():
        ours, _ = growth(region, shape, bench.scale.memory_entries[shape])
    redis, used = growth(bench.redis(), shape, bench.scale.memory_entries[shape])
    title = f"memory of an entry at rest, {TITLES[shape]}"
    result = Result(name, title, "B", Side(ours), Side(redis), TARGETS[shape], {"redis_used_memory": used})
    return [result]


def growth(server: Server, shape: str, entries: int) -> tuple[float, float]:
    """Return bytes per entry: of the resident set, and of the memory that Redis reports as allocated."""
    drive(server, Appends([server.port], ["warm-up"], WARM_UP, shape=shape))
    await_released(server)
    resident, used = server.resident_bytes(), memory_field(server, "used_memory")
    drive(server, Appends([server.port], ["stream"], entries, shape=shape))
    await_released(server)
    return (server.resident_bytes() - resident) / entries, (memory_field(server, "used_memory") - used) / entries


def await_released(server: Server) -> None:
    if isinstance(server, Region):
        await_rest(server)
    time.sleep(SETTLE_S)


def small_stream(bench: Bench, name: str) -> list[Result]:
    region = bench.region()
    with bench.profiled():
        ours = growth_of_streams(region, bench.scale.small_streams)
    redis = growth_of_streams(bench.redis(), bench.scale.small_streams)
    return [Result(name, "memory of a stream with one entry", "B", Side(ours), Side(redis), ONE_ENTRY)]


def growth_of_streams(server: Server, count: int) -> float:
    drive(server, Appends([server.port], ["warm-up"], WARM_UP))
    await_released(server)
    resident = server.resident_bytes()
    adds = [command("XADD", f"stream:{number}", "*", "f", b"v" * 16) for number in range(count)]
    steps = [adds[begin : begin + STREAMS_AT_ONCE] for begin in range(0, count, STREAMS_AT_ONCE)]
    drive(server, Exchanges(server.port, [[(b"".join(step), 2 * len(step)) for step in steps]], count, by_lines=True))
    await_released(server)
    return (server.resident_bytes() - resident) / count


# Restart with keys that are gone


def replayed(bench: Bench, name: str) -> list[Result]:
    """Add and delete keys, then kill the region: the log still has all of them when it restarts."""
    region = bench.region()
    count = bench.scale.dead_keys
    with Connection(region.port) as connection:
        for begin in range(0, count, DEAD_KEYS_AT_ONCE):
            numbers = range(begin, min(begin + DEAD_KEYS_AT_ONCE, count))
            connection.pipeline([command("XADD", f"key-{number}", "*", "f", "v") for number in numbers])
            connection.pipeline([command("DEL", f"key-{number}") for number in numbers])
            await_collected(connection)
    before = region.resident_bytes()
    region.kill()
    again = bench.region(before=region)
    time.sleep(SETTLE_S)
    after = again.resident_bytes()
    title = f"resident after a restart that replays {count:,} dead keys"
    details = {"before_bytes": float(before), "peak_bytes": float(again.peak_bytes())}
    return [Result(name, title, "MB", Side(after / 1e6), None, REPLAYED, details)]


def await_collected(connection: Connection) -> None:
    """Wait as long as an idle region needs to forget the keys and to log that; no command shows when it is done."""
    time.sleep(COLLECTED_S)
    connection.ask("PING")
