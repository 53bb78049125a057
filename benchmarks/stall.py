"""How long the event loop of a region stands still, at rest from checkpoints and during them.

    python -m benchmarks.stall [--entries 2000000] [--seconds 10] [--json]

A whole region runs in this process, on a real disk, filled first with `entries` entries: half of them in one stream
with a group that holds a tenth of them pending, half in many small streams. Other processes load it: `CLIENTS`
connections that add entries in pipelines of `DEPTH`, to old streams and new ones, and read and acknowledge in the large
group, each with a pause of `PAUSE_S`, because the delay of a loop that is always busy says nothing about checkpoints.
Inside, a probe sleeps `PROBE_S` again and again: how late it wakes is how long somebody who just came had to wait.
Checkpoints follow one another without a pause for the second half. On a machine that does other work too, its delays
are measured: `chrt --fifo 10 python -m benchmarks.stall` puts the region before all else.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import redis
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.figures import percentile
from benchmarks.restart import Region
from benchmarks.servers import free_port
from crdtstream.config import Config
from crdtstream.runtime.logging import configure_logging
from crdtstream.runtime.loop import Loop
from crdtstream.servers.resp_server import RespServer

TARGET_MS = 10.0
PROBE_S = 0.001
CLIENTS = 3
DEPTH = 16
PAUSE_S = 0.01
VALUE = b"v" * 16
LARGE = b"large"

progress = Console(stderr=True)

Figures = dict[str, float]


def main(
    entries: Annotated[int, typer.Option(help="Entries before the load begins.")] = 2_000_000,
    small_streams: Annotated[int, typer.Option(help="Streams that half of them are spread over.")] = 50_000,
    seconds: Annotated[float, typer.Option(help="Of each half.")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    with tempfile.TemporaryDirectory() as made:
        data = str(Path(made) / "data")
        with progress.status(f"adding {entries:,} entries"):
            build(data, entries, small_streams)
        config = Config(name="bench", region=1, cluster="bench", data=data, port=free_port(), replication_port=0)
        config = configured(config)
        with progress.status("measuring"):
            quiet, busy, checkpoints = uvloop.run(measure(config, seconds, small_streams))
    figures = {"quiet": summary(quiet), "checkpoints": summary(busy)}
    show(figures, checkpoints, as_json)
    raise typer.Exit(0 if figures["checkpoints"]["p99.9"] <= TARGET_MS else 1)


def configured(config: Config) -> Config:
    configure_logging(config)
    return config


def build(data: str, entries: int, small_streams: int) -> None:
    """In a process of its own, so that the region starts as after a kill."""
    filler = multiprocessing.get_context("fork").Process(target=fill, args=(data, entries, small_streams))
    filler.start()
    filler.join()
    assert filler.exitcode == 0, "the region was not filled"


def fill(data: str, entries: int, small_streams: int) -> None:
    region = Region(data)
    region.start()
    region.execute([b"XGROUP", b"CREATE", LARGE, b"group", b"0", b"MKSTREAM"])
    for number in range(entries // 2):
        region.execute([b"XADD", LARGE, b"*", b"field", VALUE])
        region.execute([b"XADD", b"small-%d" % (number % small_streams), b"*", b"field", VALUE])
        if number % 200 == 0:
            region.turn()
    count = b"%d" % (entries // 20)
    region.execute([b"XREADGROUP", b"GROUP", b"group", b"consumer", b"COUNT", count, b"STREAMS", LARGE, b">"])
    region.turn()
    region.log.sync()
    region.disk.close()


async def measure(config: Config, seconds: float, small_streams: int) -> tuple[list[float], list[float], int]:
    loop = Loop(config, RespServer)
    serving = asyncio.get_running_loop().create_task(loop.run())
    while loop.failed:
        await asyncio.sleep(0.01)
    context = multiprocessing.get_context("spawn")
    load = [context.Process(target=press, args=(config.port, seed, small_streams)) for seed in range(CLIENTS)]
    for process in load:
        process.start()
    await asyncio.sleep(3.0)
    quiet = await probe(seconds)
    saver = asyncio.get_running_loop().create_task(save_again_and_again(loop))
    busy = await probe(seconds)
    saver.cancel()
    for process in load:
        process.kill()
        process.join()
    loop.stop()
    await serving
    saving = loop.node.context.saving
    assert not saving.failure, saving.failure
    return quiet, busy, saving.request() - 1


async def probe(seconds: float) -> list[float]:
    """How late each wake-up was, in ms."""
    late_ms: list[float] = []
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        began_s = time.perf_counter()
        await asyncio.sleep(PROBE_S)
        late_ms.append(max(0.0, time.perf_counter() - began_s - PROBE_S) * 1000)
    return late_ms


async def save_again_and_again(loop: Loop) -> None:
    saving = loop.node.context.saving
    while True:
        if not saving.running and not saving.requested:
            saving.request()
        await asyncio.sleep(0.01)


def press(port: int, seed: int, small_streams: int) -> None:
    """A client that writes, reads and acknowledges until it is killed; the region goes first."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.nice(5)
    client: Any = redis.Redis(port=port)
    number = seed
    while True:
        pipeline = client.pipeline(transaction=False)
        for _ in range(DEPTH):
            number += CLIENTS
            key = LARGE if number % 2 else b"small-%d" % (number * 7919 % small_streams)
            pipeline.xadd(key if number % 50 else b"new-%d" % number, {b"field": VALUE})
        pipeline.xreadgroup(b"group", b"c%d" % seed, {LARGE: ">"}, count=10)
        entries = (pipeline.execute()[-1] or [[LARGE, []]])[0][1]
        if entries:
            client.xack(LARGE, b"group", *[entry_id for entry_id, _ in entries[1:]])
        time.sleep(PAUSE_S)


def summary(late_ms: list[float]) -> Figures:
    shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
    figures = {name: percentile(late_ms, share) for name, share in shares.items()}
    return {**figures, "max": max(late_ms), "probes": float(len(late_ms))}


def show(figures: dict[str, Figures], checkpoints: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**figures, "count": checkpoints, "target_ms": TARGET_MS}, indent=2))
        return
    table = Table(title=f"How late the event loop wakes, ms ({checkpoints} checkpoints; target p99.9 <= {TARGET_MS:g})")
    for name in ("while", "p50", "p99", "p99.9", "max", "probes"):
        table.add_column(name, justify="right" if name != "while" else "left")
    for name, figure in figures.items():
        values = [f"{figure[share]:.2f}" for share in ("p50", "p99", "p99.9", "max")]
        table.add_row(name, *values, f"{figure['probes']:.0f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
