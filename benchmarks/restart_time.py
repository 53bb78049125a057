"""How long a region takes to restart: from its log alone, and from a checkpoint.

    python -m benchmarks.restart_time [--entries 5000000] [--streams 1000] [--directory PATH] [--json]

A node with its log on a real disk is filled in this process, without sockets. Every start is a separate process, as
after a kill, and the files are in the page cache, as they would be then. Entries are added to `streams` streams in
rotation, in turns of `TURN_COMMANDS` commands; a group reads a tenth of them, which stays pending.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from crdtstream.region.node import Node
from crdtstream.settings.config import Config
from crdtstream.storage.checkpoint import Checkpointer
from crdtstream.storage.disk import RealDisk
from crdtstream.storage.log import Log
from crdtstream.storage.restore import open_storage

TURN_COMMANDS = 500
SEGMENT_BYTES = 64 << 20
CLIENT = 1
VALUE = b"v" * 16
STEP_UNITS = 1_000
LOG, CHECKPOINT = "log", "checkpoint"

progress = Console(stderr=True)

Figures = dict[str, float]


def main(
    entries: Annotated[int, typer.Option(help="Number of entries, of one field with 16 bytes.")] = 5_000_000,
    streams: Annotated[int, typer.Option(help="Number of streams.")] = 1_000,
    directory: Annotated[Path | None, typer.Option(help="Where the data directory is created.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    measure: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    if measure:
        assert directory is not None
        print(json.dumps(measure_start(str(directory), measure == LOG)))
        return
    with tempfile.TemporaryDirectory(dir=directory) as made:
        data = str(Path(made) / "data")
        with progress.status(f"adding {entries:,} entries"):
            build(data, entries, streams)
        with progress.status("starting from the log, then taking checkpoints"):
            first = child(data, LOG)
        with progress.status("starting from the checkpoint"):
            second = child(data, CHECKPOINT)
    show(first, second, entries, streams, as_json)


def child(data: str, measure: str) -> Figures:
    """Run this program in a separate process."""
    command = [sys.executable, "-m", "benchmarks.restart_time", "--measure", measure, "--directory", data]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


class Region:
    """A node on its disk."""

    def __init__(self, data: str) -> None:
        self.disk = RealDisk(data)
        self.node = Node(Config(name="bench", region=1, cluster="bench", data=data), now_ms())
        self.log: Log
        self.checkpointer: Checkpointer
        self.log, self.checkpointer = open_storage(
            self.disk, self.node, salt=1 + os.getpid(), segment_bytes_max=SEGMENT_BYTES
        )

    def start(self) -> None:
        self.node.start(self.log, os.getpid(), now_ms())
        self.turn()
        self.node.synced(self.log.sync())
        self.node.connect(CLIENT, "127.0.0.1:0", now_ms())

    def execute(self, argv: list[bytes]) -> None:
        self.node.execute(CLIENT, argv, now_ms())

    def turn(self) -> None:
        ready = self.node.ready()
        while ready is not None:
            self.log.append(ready.records)
            ready = self.node.ready()

    def checkpoint(self) -> float:
        """Take a checkpoint without pauses; return its duration in seconds."""
        began_s = time.perf_counter()
        capture = self.checkpointer.begin()
        while not capture.done:
            capture.step(STEP_UNITS)
            self.checkpointer.write(capture.drain_output())
        self.checkpointer.commit(now_ms())
        self.node.synced(self.log.synced_position)
        self.log.delete(self.checkpointer.conclude())
        self.checkpointer.clean()
        return time.perf_counter() - began_s


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def build(data: str, entries: int, streams: int) -> None:
    region = Region(data)
    region.start()
    keys = [b"stream-%d" % number for number in range(streams)]
    for number in range(entries):
        region.execute([b"XADD", keys[number % streams], b"*", b"field", VALUE])
        if number % TURN_COMMANDS == 0:
            region.turn()
    for key in keys:
        region.execute([b"XGROUP", b"CREATE", key, b"group", b"0"])
        count = b"%d" % (entries // streams // 10)
        region.execute([b"XREADGROUP", b"GROUP", b"group", b"consumer", b"COUNT", count, b"STREAMS", key, b">"])
        region.turn()
    region.log.sync()
    region.disk.close()


def measure_start(data: str, checkpoints: bool) -> Figures:
    gc.disable()
    began_s = time.perf_counter()
    region = Region(data)
    figures = {"start_s": time.perf_counter() - began_s, "log_bytes": float(region.log.appended_bytes)}
    gc.enable()
    gc.freeze()
    figures["entries"] = float(sum(stream.length for stream in region.node.replica.keyspace.databases[0].values()))
    if checkpoints:
        region.start()
        figures["checkpoint_s"] = region.checkpoint()
        figures["again_s"] = region.checkpoint()
        files = [name for name in region.disk.names() if not name.startswith("log-")]
        figures["checkpoint_bytes"] = float(sum(region.disk.size(name) for name in files))
        region.log.sync()
    region.disk.close()
    return figures


def show(first: Figures, second: Figures, entries: int, streams: int, as_json: bool) -> None:
    assert first["entries"] == second["entries"] == entries, "entries are missing"
    if as_json:
        print(json.dumps({"entries": entries, "streams": streams, LOG: first, CHECKPOINT: second}, indent=2))
        return
    table = Table(title=f"{entries:,} entries in {streams:,} streams")
    table.add_column("what")
    table.add_column("seconds", justify="right")
    table.add_column("MiB", justify="right")
    rows = [
        ("start from the log alone", first["start_s"], first["log_bytes"]),
        ("first checkpoint", first["checkpoint_s"], first["checkpoint_bytes"]),
        ("checkpoint with nothing new", first["again_s"], None),
        ("start from the checkpoint", second["start_s"], first["checkpoint_bytes"]),
    ]
    for what, seconds, size in rows:
        table.add_row(what, f"{seconds:.2f}", "" if size is None else f"{size / (1 << 20):.0f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
