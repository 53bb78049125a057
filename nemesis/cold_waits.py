"""`python -m nemesis.cold_waits`: clients that need nothing from the disk, beside readers of spilled blocks whose disk
is slow, or does not answer for seconds; exits with 1 if the first wait for the disk too.

The region runs on a disk that has nothing at once (`slow_disk`). Readers, each with a connection and one range at a
time, read ranges at random positions; meanwhile another process asks PING, adds an entry, and reads the tail of a
stream, one after the other. Phases:

    nobody reads        only that process asks
    as it is            each read is handed to a thread, and comes back at once
    20 ms               each read takes so long
    stalled for 3 s     no read comes back before that time is over; then all do, and the disk stalls again
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import redis
import typer
from rich.console import Console
from rich.table import Table

from crdtstream.processes.launching import CHECKOUT, Launcher, end_cleanly_at_signals
from crdtstream.processes.ports import HOST
from crdtstream.processes.region import RegionProcess
from crdtstream.processes.waiting import until
from nemesis import slow_disk

FAILURE = 1
KEY, TAIL = "cold", "tail"
VALUE_BYTES = 700
PIPELINE = 500
HOT_BYTES_MAX = 4 << 20
FILLED_S = 120.0
READERS = 16
RANGE_ENTRIES = 10
# So that readers, of which each waits for its own reply, leave the region some time.
READER_REST_S = 0.01
PAUSE_S = 0.001
BETWEEN_STALLS_S = 1.0
ASKED: dict[str, tuple[str, ...]] = {
    "PING": ("PING",),
    "XADD": ("XADD", TAIL, "*", "f", "v"),
    "XREVRANGE of a tail": ("XREVRANGE", TAIL, "+", "-", "COUNT", "10"),
}
RANGE = f"XRANGE of {RANGE_ENTRIES} cold entries"
SHARES = (0.5, 0.99, 0.999)

forked: Any = multiprocessing.get_context("fork")
Waits = dict[str, list[float]]


@dataclass(frozen=True)
class Line:
    """How long the replies to one kind of request took in one phase."""

    phase: str
    request: str
    count: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    longest_ms: float


def line_of(phase: str, request: str, waits_ms: list[float]) -> Line:
    ordered = sorted(waits_ms)
    p50_ms, p99_ms, p999_ms = [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in SHARES]
    return Line(phase, request, len(ordered), p50_ms, p99_ms, p999_ms, ordered[-1])


# Processes that ask


def client_at(port: int) -> Any:
    return redis.Redis(host=HOST, port=port, socket_timeout=FILLED_S)


def timed_ms(client: Any, words: tuple[str, ...]) -> float:
    began_s = time.perf_counter()
    client.execute_command(*words)
    return (time.perf_counter() - began_s) * 1000


def ask_hot(port: int, pipe: Pipe) -> None:
    """Ask for what is in memory until told to end, then report how long each reply took."""
    waits: Waits = {name: [] for name in ASKED}
    with client_at(port) as client:
        while not pipe.poll():
            for name, words in ASKED.items():
                waits[name].append(timed_ms(client, words))
                time.sleep(PAUSE_S)
    pipe.send(waits)


def ask_cold(port: int, first_ms: int, last_ms: int, pipe: Pipe) -> None:
    """The same with ranges, from many connections: each has its thread, which mostly waits."""
    waits_ms: list[float] = []
    ends = threading.Event()

    def read(seed: int) -> None:
        generator = random.Random(seed)
        with client_at(port) as client:
            while not ends.wait(READER_REST_S):
                start = str(generator.randint(first_ms, last_ms))
                waits_ms.append(timed_ms(client, ("XRANGE", KEY, start, "+", "COUNT", str(RANGE_ENTRIES))))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(READERS)]
    for thread in threads:
        thread.start()
    pipe.recv()
    ends.set()
    for thread in threads:
        thread.join()
    pipe.send({RANGE: waits_ms})


@contextmanager
def asking(target: Any, *arguments: int, into: Waits) -> Iterator[None]:
    """Run such a process meanwhile."""
    pipe, far = multiprocessing.Pipe()
    process = forked.Process(target=target, args=(*arguments, far), daemon=True)
    process.start()
    try:
        yield
        pipe.send("end")
        into.update(pipe.recv())
    finally:
        process.kill()
        process.join()


# The region


class SlowRegion:
    """A region that has spilled nearly all that it holds, and the orders of its disk."""

    def __init__(self, directory: Path, python: str) -> None:
        self.orders = directory / "orders"
        slow_disk.order(self.orders, 0)
        launcher = Launcher((python, str(Path(slow_disk.__file__)), str(self.orders)), (), CHECKOUT)
        self.process = RegionProcess(1, directory, launcher=launcher)
        self.first_ms = self.last_ms = 0

    def begin(self, entries: int) -> None:
        self.process.start(incarnation=0, hot_bytes_max=HOT_BYTES_MAX, open_blocks_bytes_max=HOT_BYTES_MAX // 4)
        self.process.await_serving()
        generator = random.Random(1)
        with self.process.client() as client:
            for begin in range(0, entries, PIPELINE):
                pipeline = client.pipeline(transaction=False)
                for number in range(begin, min(begin + PIPELINE, entries)):
                    # Each entry has a millisecond of its own, so that a reader can draw one.
                    pipeline.xadd(KEY, {"f": generator.randbytes(VALUE_BYTES)}, id=f"{number + 1}-*")
                pipeline.execute()
            client.execute_command("XADD", TAIL, "*", "f", "v")
            client.save()
        self.first_ms, self.last_ms = 1, entries
        until(self._has_spilled, lambda: f"{self.process} spills blocks{self.process.log_end()}", FILLED_S)

    def _has_spilled(self) -> bool:
        told = self.process.told
        return told("spilled_blocks") > 0 and told("hot_bytes") <= HOT_BYTES_MAX

    def phase(self, name: str, seconds: float, delay_ms: float = 0.0, stall_s: float = 0.0) -> list[Line]:
        """What both kinds of clients waited while the disk was so slow."""
        slow_disk.order(self.orders, delay_ms)
        port, waits = self.process.port, Waits()
        with asking(ask_cold, port, self.first_ms, self.last_ms, into=waits), asking(ask_hot, port, into=waits):
            self._keep_slow(seconds, delay_ms, stall_s)
        return [line_of(name, request, waits[request]) for request in (*ASKED, RANGE)]

    def _keep_slow(self, seconds: float, delay_ms: float, stall_s: float) -> None:
        end_s = time.monotonic() + seconds
        while stall_s and time.monotonic() < end_s:
            time.sleep(BETWEEN_STALLS_S)
            slow_disk.order(self.orders, delay_ms, stall_s)
            time.sleep(stall_s)
        time.sleep(max(0.0, end_s - time.monotonic()))
        slow_disk.order(self.orders, 0)

    def quiet(self, seconds: float) -> list[Line]:
        waits = Waits()
        with asking(ask_hot, self.process.port, into=waits):
            time.sleep(seconds)
        return [line_of("nobody reads", request, waits[request]) for request in ASKED]


def measured(
    directory: Path, entries: int, seconds: float, delay_ms: float, stall_s: float, python: str = sys.executable
) -> tuple[list[Line], int]:
    """The lines of all phases, and how many blocks the region itself waited for."""
    region = SlowRegion(directory, python)
    try:
        region.begin(entries)
        lines = region.quiet(seconds)
        lines += region.phase("as it is", seconds)
        lines += region.phase(f"{delay_ms:g} ms", seconds, delay_ms=delay_ms)
        lines += region.phase(f"stalled for {stall_s:g} s", seconds, stall_s=stall_s)
        return lines, region.process.told("cold_reads_waited")
    finally:
        region.process.kill()


def are_sound(lines: list[Line], stall_s: float) -> bool:
    """Whether readers of cold blocks waited for the stall, and nobody else did. On a busy machine a reader may ask some
    time after the stall has begun.
    """
    stalled = {line.request: line.longest_ms for line in lines if line.phase.startswith("stalled")}
    reader_ms = stalled.pop(RANGE)
    return reader_ms >= stall_s * 600 and max(stalled.values()) < stall_s * 500


def main(
    delay_ms: Annotated[float, typer.Option(min=0, help="What each read takes in the third phase.")] = 20.0,
    stall_s: Annotated[float, typer.Option(min=0.5, help="How long the disk does not answer in the fourth.")] = 3.0,
    seconds: Annotated[float, typer.Option(min=1, help="Duration of a phase, of the fourth at least.")] = 20.0,
    entries: Annotated[int, typer.Option(min=20_000, help="Entries of 700 bytes that the region holds.")] = 100_000,
    python: Annotated[
        str, typer.Option(help="Interpreter that runs the region, with the crdtstream installed there.")
    ] = sys.executable,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Ask a region for what it has in memory, beside readers that wait for a slow disk."""
    with TemporaryDirectory(prefix="cold-waits-") as directory:
        lines, waited = measured(Path(directory), entries, seconds, delay_ms, stall_s, python)
    if as_json:
        print(json.dumps({"lines": [asdict(line) for line in lines], "waited": waited}))
    else:
        Console().print(table_of(lines), f"the region itself waited for {waited} blocks")
    if waited or not are_sound(lines, stall_s):
        raise typer.Exit(FAILURE)


def table_of(lines: list[Line]) -> Table:
    table = Table("disk", "request", "replies", "p50, ms", "p99", "p99.9", "longest")
    for line in lines:
        figures = (line.p50_ms, line.p99_ms, line.p999_ms, line.longest_ms)
        table.add_row(line.phase, line.request, f"{line.count:,}", *[f"{figure:,.2f}" for figure in figures])
    return table


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
