"""Rows of memory: how much the resident set grows for each entry."""

from __future__ import annotations

import re
import time

from benchmarks.bench import Bench
from benchmarks.figures import AT_MOST, Result, Side, Target
from benchmarks.load import Appends, drive
from benchmarks.servers import Server

WARM_UP = 5_000
SETTLE_S = 1.2  # buffers of the log are given back, the sync of the last second is done
TARGETS = {"16-byte": Target(AT_MOST, 3.0)}
TITLES = {"16-byte": "16-byte value", "sensor": "4-field sensor", "1-KiB": "1 KiB value"}


def memory(bench: Bench, name: str, shape: str) -> list[Result]:
    region = bench.region()
    with bench.profiled():
        ours, _ = growth(region, shape, bench.scale.memory_entries[shape])
    redis, used = growth(bench.redis(), shape, bench.scale.memory_entries[shape])
    title = f"memory of an entry, {TITLES[shape]}"
    result = Result(name, title, "B", Side(ours), Side(redis), TARGETS.get(shape), {"redis_used_memory": used})
    return [result]


def growth(server: Server, shape: str, entries: int) -> tuple[float, float]:
    """Bytes of resident set for each entry, and of what Redis says that it allocated."""
    drive(server, Appends([server.port], ["warm-up"], WARM_UP, shape=shape))
    time.sleep(SETTLE_S)
    resident, used = server.resident_bytes(), used_memory(server)
    drive(server, Appends([server.port], ["stream"], entries, shape=shape))
    time.sleep(SETTLE_S)
    return (server.resident_bytes() - resident) / entries, (used_memory(server) - used) / entries


def used_memory(server: Server) -> int:
    text = server.ask("INFO", "memory")
    assert isinstance(text, bytes)
    found = re.search(rb"used_memory:(\d+)", text)
    return int(found[1]) if found else 0
