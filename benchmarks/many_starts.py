"""The cost of a stream after many starts: every start of a process is a new origin, with its own tree.

    python -m benchmarks.many_starts [--starts 1 --starts 1000] [--entries 100000] [--operations 2000] [--json]

A node on a real disk, without sockets. All starts together add `entries` to one stream, of which a group reads and
acknowledges everything, and to another that is trimmed to half as many. Then the CPU time of this process is measured:

    xrange       XRANGE COUNT 100 from anywhere in the stream
    xadd         XADD, in turns of `TURN_COMMANDS`
    xadd-maxlen  XADD MAXLEN to the trimmed stream, likewise
    readers      XREADGROUP COUNT 100 of new entries, then XACK of them

A start is simulated by giving the replica another origin of its region. The numbers are in no order.
"""

from __future__ import annotations

import gc
import json
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.restart_time import VALUE, Region
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN

REGION = 1
TURN_COMMANDS = 16
PAGE = 100
FULL, TRIMMED, GROUP = b"full", b"trimmed", b"group"

Figures = dict[str, float]


def main(
    starts: Annotated[list[int] | None, typer.Option(help="Number of starts; may be repeated.")] = None,
    entries: Annotated[int, typer.Option(help="Entries of a stream, at least one for each start.")] = 100_000,
    operations: Annotated[int, typer.Option(help="Number of operations of each kind.")] = 2_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    found = {count: measure(count, entries, operations) for count in starts or [1, 100, 1_000]}
    if as_json:
        print(json.dumps(found, indent=2))
        return
    table = Table(title="CPU in µs by number of starts")
    table.add_column("")
    for count in found:
        table.add_column(f"{count:,}", justify="right")
    for name in next(iter(found.values())):
        table.add_row(name, *[f"{figures[name]:.1f}" for figures in found.values()])
    Console().print(table)


def measure(starts: int, entries: int, operations: int) -> Figures:
    with tempfile.TemporaryDirectory() as directory:
        region = Region(directory)
        region.start()
        grow(region, starts, entries)
        ids = stream_ids(region, -1)
        random.Random(1).shuffle(ids)
        gc.collect()
        gc.freeze()
        figures = {
            "xrange": spent_us(operations, lambda number: page(region, ids[number % len(ids)])),
            "readers": readers_us(region, operations // 10),
            "xadd": spent_us(operations, partial(add, region, [b"XADD", FULL])),
            "xadd-maxlen": spent_us(operations, partial(add, region, trimmed_add(entries))),
        }
        region.disk.close()
    return figures


def grow(region: Region, starts: int, entries: int) -> None:
    region.execute([b"XGROUP", b"CREATE", FULL, GROUP, b"0", b"MKSTREAM"])
    for number in range(starts):
        region.turn()
        # 10,007 is prime, so every number occurs once.
        region.node.replica.applied.origin = REGION + 256 * (1 + number * 7_919 % 10_007)
        for added in range(entries // starts):
            region.execute([b"XADD", FULL, b"*", b"field", VALUE])
            add(region, trimmed_add(entries), added)
        acknowledge(region, stream_ids(region, entries // starts))


def trimmed_add(entries: int) -> list[bytes]:
    """Half of the entries are trimmed, so half of the origins have none left."""
    return [b"XADD", TRIMMED, b"MAXLEN", b"%d" % (entries // 2)]


def stream_ids(region: Region, count: int) -> list[bytes]:
    """Return the last `count` IDs, or all if it is negative."""
    stream = region.node.replica.keyspace.find((0, FULL))
    assert stream is not None
    _, chunks = stream.range(ID_MIN, ID_MAX, count, True)
    return [chunk.split(b"\r\n", 3)[2] for chunk in chunks]


def page(region: Region, start: bytes) -> None:
    region.execute([b"XRANGE", FULL, start, b"+", b"COUNT", b"%d" % PAGE])
    region.turn()


def add(region: Region, head: list[bytes], number: int) -> None:
    region.execute([*head, b"*", b"field", VALUE])
    if number % TURN_COMMANDS == 0:
        region.turn()


def acknowledge(region: Region, ids: list[bytes], _number: int = 0) -> None:
    """Read as many new entries as there are IDs, and acknowledge these."""
    count = b"%d" % len(ids)
    region.execute([b"XREADGROUP", b"GROUP", GROUP, b"consumer", b"COUNT", count, b"STREAMS", FULL, b">"])
    region.turn()
    region.execute([b"XACK", FULL, GROUP, *ids])
    region.turn()


def readers_us(region: Region, pages: int) -> float:
    """Return the time for a page; adding its entries is not counted."""
    total_us = 0.0
    for _ in range(pages):
        for number in range(PAGE):
            add(region, [b"XADD", FULL], number)
        ids = stream_ids(region, PAGE)
        total_us += spent_us(1, partial(acknowledge, region, ids))
    group = region.node.replica.keyspace.databases[0][FULL].groups[GROUP]
    assert group.pending.count == 0, "entries are pending that were acknowledged"
    return total_us / pages


def spent_us(operations: int, operate: Callable[[int], None]) -> float:
    """Return the CPU time of this process per operation."""
    began_s = time.process_time()
    for number in range(operations):
        operate(number)
    return (time.process_time() - began_s) / operations * 1e6


if __name__ == "__main__":
    typer.run(main)
