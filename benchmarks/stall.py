"""How long a region's event loop stalls: without checkpoints, during checkpoints, and beside large requests.

    python -m benchmarks.stall [--entries 2000000] [--seconds 10] [--json]

A complete region runs in this process, on a real disk. It is first filled with `entries` entries: half of them in one
stream, with a group that holds a tenth of them pending, half in many small streams. Other processes load it: `CLIENTS`
connections add entries in pipelines of `DEPTH`, to old and new streams, and read and acknowledge in the large group,
each with a pause of `PAUSE_S`, because the delay of a saturated loop says nothing about checkpoints. Inside, a probe
sleeps `PROBE_S` repeatedly: its delay is the time that a client which just arrived had to wait. From the second part
on, checkpoints follow one another without a pause. In the third, other processes also scan all keys and delete some,
and request pipelines of large ranges and CRDT.DIGEST, repeatedly. On a machine that does other work, that work causes
delays too: `chrt --fifo 10 python -m benchmarks.stall` gives the region priority.
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

from benchmarks.report.figures import percentile
from benchmarks.restart_time import Region
from crdtstream.processes.ports import free_port
from crdtstream.runtime.logs.logging import configure_logging
from crdtstream.runtime.loop import Loop
from crdtstream.runtime.redis.resp_server import RespServer
from crdtstream.settings.config import Config

TARGET_MS = 10.0
PROBE_S = 0.001
CLIENTS = 3
DEPTH = 16
PAUSE_S = 0.01
RANGE_ENTRIES = 10_000
VALUE = b"v" * 16
LARGE = b"large"

progress = Console(stderr=True)

Figures = dict[str, float]


def main(
    entries: Annotated[int, typer.Option(help="Number of entries before the load begins.")] = 2_000_000,
    small_streams: Annotated[int, typer.Option(help="Number of streams for half of the entries.")] = 50_000,
    seconds: Annotated[float, typer.Option(help="Duration of each part.")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    with tempfile.TemporaryDirectory() as made:
        data = str(Path(made) / "data")
        with progress.status(f"adding {entries:,} entries"):
            build(data, entries, small_streams)
        config = Config(name="bench", region=1, cluster="bench", data=data, port=free_port(), replication_port=0)
        config = configured(config)
        with progress.status("measuring"):
            parts, checkpoints = uvloop.run(measure(config, seconds, small_streams))
    figures = {name: summary(late_ms) for name, late_ms in parts.items()}
    show(figures, checkpoints, as_json)
    raise typer.Exit(0 if figures["checkpoints"]["p99.9"] <= TARGET_MS else 1)


def configured(config: Config) -> Config:
    configure_logging(config)
    return config


def build(data: str, entries: int, small_streams: int) -> None:
    """Fill in a separate process, so that the region starts as after a kill."""
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


async def measure(config: Config, seconds: float, small_streams: int) -> tuple[dict[str, list[float]], int]:
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
    holds = [context.Process(target=hold, args=(config.port,)) for hold in (scan, read_pipelines, digest)]
    for process in holds:
        process.start()
    await asyncio.sleep(1.0)
    held = await probe(seconds)
    saver.cancel()
    for process in [*load, *holds]:
        process.kill()
        process.join()
    loop.stop()
    await serving
    saving = loop.node.context.saving
    assert not saving.failure, saving.failure
    return {"quiet": quiet, "checkpoints": busy, "holds": held}, saving.request() - 1


async def probe(seconds: float) -> list[float]:
    """Return how late each wake-up was, in ms."""
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
    """Run a client that writes, reads and acknowledges until it is killed; the region has priority."""
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


def beside(port: int) -> Any:
    """Return a client whose process yields to the region."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.nice(5)
    return redis.Redis(port=port)


def scan(port: int) -> None:
    client = beside(port)
    cursor, number = 0, 0
    while True:
        cursor, _ = client.scan(cursor, count=10)
        client.delete(b"new-%d" % number)
        number += 1


def read_pipelines(port: int) -> None:
    client = beside(port)
    while True:
        pipeline = client.pipeline(transaction=False)
        for _ in range(DEPTH):
            pipeline.execute_command("XRANGE", LARGE, "-", "+", "COUNT", RANGE_ENTRIES)
        pipeline.execute()


def digest(port: int) -> None:
    client = beside(port)
    while True:
        client.execute_command("CRDT.DIGEST")


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
