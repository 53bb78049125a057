"""`python -m benchmarks.curves`: what a region takes and how fast it is, by the number of its entries and of its
streams, with blocks on the disk (`hot_bytes_max`) and without.

Each point has a region of its own. It is filled with entries of 16 bytes in eight streams, or with streams of one
entry; then it rests until it has packed or spilled what it will, takes a checkpoint, is read, killed and started again,
and written to once more. A point that would take more memory than is allowed, judged by the one before, is left out.

    memory, load      anonymous memory (RssAnon) at rest, and at most while it was filled
    each              the growth of it since the region was empty, for each entry or stream
    XADD              a second, to one more stream, pipelines of 128 from eight connections; CPU of the region for each
    XRANGE            of ten entries at a random position, the median as one client sees it that waits for each reply:
                      if the system has what is read in its cache, and if it has dropped the block files from there
    reads             spilled blocks that were read for each of these
    start             from kill -9 until it serves, and the anonymous memory then
    checkpoint        SAVE, after the rest
    disk              the data directory; of that, block files
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.bench import Node, find_node, memory_field
from benchmarks.load.loads import Exchanges, drive
from benchmarks.load.repeated import WRITERS, entries_in, stream_steps
from benchmarks.load.wire import Connection
from benchmarks.report.figures import percentile
from benchmarks.servers import EVERYSEC, BenchmarkError, Region, region_in
from crdtstream.processes.launching import Launcher, end_cleanly_at_signals
from crdtstream.processes.memory import PeakMemory
from crdtstream.processes.waiting import until

ENTRIES, STREAMS = "entries", "streams"
SMALLEST = {ENTRIES: 1_000, STREAMS: 1}
STEP = 10
# Filled between two rests, so that what is not packed yet takes little beside what is.
AT_ONCE = {ENTRIES: 10_000_000, STREAMS: 1_000_000}
MORE = 200_000
READS = 2_000
PAGE = 10
HOT_BYTES_MAX = 200_000_000
REST_S = 600.0
SETTLE_S = 1.5
VOLUME_PART = 0.8

progress = Console(stderr=True)
Spans = list[tuple[int, int]]


@dataclass(slots=True)
class Point:
    """One region: its figures by name, or why it was left out."""

    kind: str
    count: int
    spills: bool
    left_out: str = ""
    figures: dict[str, float] = field(default_factory=dict)


# One region


class Measured:
    """A region that is filled and measured."""

    def __init__(self, node: Node, directory: Path, point: Point, hot_bytes_max: int) -> None:
        launcher = Launcher((node.python, "-m", "crdtstream"), (), directory, node.environment)
        self.region: Region = region_in(directory, 1, launcher)
        self.region.hot_bytes_max = hot_bytes_max if point.spills else 0
        self.point = point
        self.spans: Spans = []

    def run(self) -> None:
        figures = self.point.figures
        self.region.begin((), EVERYSEC)
        figures["empty_bytes"] = self.region.anonymous_bytes()
        with PeakMemory(self.region.pid) as memory:
            self._fill()
        figures["loading_peak_bytes"] = memory.peak_bytes
        figures["checkpoint_s"] = self._save()
        if self.point.spills:
            self._rest()
        self._measure_size()
        self._measure_reads("xrange")
        self._drop_cache()
        self._measure_reads("xrange_disk")
        self._restart()
        self._add_more()

    # Filling

    def _fill(self) -> None:
        at_once = AT_ONCE[self.point.kind]
        for begin in range(0, self.point.count, at_once):
            began_ms = int(time.time() * 1000)
            self._fill_some(begin, min(at_once, self.point.count - begin))
            self.spans.append(self._span(began_ms))
            self._rest()

    def _span(self, began_ms: int) -> tuple[int, int]:
        """The milliseconds of the first entry since then and of the last one."""
        with Connection(self.region.port) as connection:
            connection.send("XRANGE", "stream:0", began_ms, "+", "COUNT", 1)
            first, _ = connection.entries()
            connection.send("XREVRANGE", "stream:0", "+", "-", "COUNT", 1)
            last, _ = connection.entries()
        low, high = [int(ids[0].split(b"-")[0]) if ids else began_ms for ids in (first, last)]
        return low, max(low, high)

    def _fill_some(self, begin: int, count: int) -> None:
        if self.point.kind == ENTRIES:
            load = entries_in(self.region.port, [f"stream:{writer}" for writer in range(WRITERS)], count)
        else:
            names = [f"stream:{number}" for number in range(begin, begin + count)]
            scripts = [stream_steps(names[writer::WRITERS], writer) for writer in range(WRITERS)]
            load = Exchanges(self.region.port, [steps for steps in scripts if steps], count, by_lines=True)
        drive(self.region, load)

    def _rest(self) -> None:
        """Wait until nothing is left to pack, or little enough is in memory."""
        if self.point.spills:
            until(self._is_small, f"{self.region} has spilled what it may not keep", REST_S)
        else:
            begun = memory_field(self.region, "blocks_walks") + 1
            until(lambda: self._is_packed(begun), f"{self.region} has packed its blocks", REST_S)
        time.sleep(SETTLE_S)

    def _is_small(self) -> bool:
        hot, bound = (memory_field(self.region, name) for name in ("hot_bytes", "hot_bytes_unspillable"))
        return hot <= max(self.region.hot_bytes_max, bound)

    def _is_packed(self, walks: int) -> bool:
        packed = memory_field(self.region, "blocks_cold") == memory_field(self.region, "blocks_full")
        return packed and memory_field(self.region, "blocks_walks") > walks

    # Measuring

    def _save(self) -> float:
        began_s = time.perf_counter()
        with Connection(self.region.port, REST_S) as connection:
            connection.ask("SAVE")
        return time.perf_counter() - began_s

    def _measure_size(self) -> None:
        figures = self.point.figures
        anonymous = self.region.anonymous_bytes()
        figures["anonymous_bytes"] = anonymous
        figures["each_bytes"] = (anonymous - figures["empty_bytes"]) / self.point.count
        for name in ("hot_bytes", "hot_bytes_unspillable", "spilled_blocks", "spilled_bytes"):
            figures[name] = memory_field(self.region, name)
        sizes = {path.name: path.stat().st_size for path in self.region.data.iterdir()}
        figures["disk_bytes"] = sum(sizes.values())
        figures["block_file_bytes"] = sum(size for name, size in sizes.items() if name.startswith("blocks-"))

    def _measure_reads(self, name: str) -> None:
        generator = random.Random(name)  # what one measurement opened is still in memory in the next one
        before = memory_field(self.region, "cold_reads")
        waits_us: list[float] = []
        began_cpu_s = self.region.cpu_s()
        with Connection(self.region.port) as connection:
            for _ in range(READS):
                request = self._range(generator)
                began_s = time.perf_counter()
                connection.send(*request)
                connection.entries()
                waits_us.append((time.perf_counter() - began_s) * 1e6)
        figures = self.point.figures
        figures[f"{name}_cpu_us"] = (self.region.cpu_s() - began_cpu_s) / READS * 1e6
        figures[f"{name}_us"] = sum(waits_us) / READS
        figures[f"{name}_p50_us"], figures[f"{name}_p99_us"] = (percentile(waits_us, share) for share in (0.5, 0.99))
        figures[f"{name}_reads"] = (memory_field(self.region, "cold_reads") - before) / READS

    def _range(self, generator: random.Random) -> list[str | int]:
        if self.point.kind == STREAMS:
            return ["XRANGE", f"stream:{generator.randrange(self.point.count)}", "-", "+", "COUNT", PAGE]
        began_ms, ended_ms = generator.choice(self.spans)
        key = f"stream:{generator.randrange(WRITERS)}"
        return ["XRANGE", key, generator.randint(began_ms, ended_ms), "+", "COUNT", PAGE]

    def _drop_cache(self) -> None:
        """Have the system forget the block files."""
        for path in self.region.data.glob("blocks-*"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)

    def _restart(self) -> None:
        keys = self.region.ask("DBSIZE")
        entries = [self.region.ask("XLEN", f"stream:{number}") for number in range(min(WRITERS, keys))]
        self.region.kill()
        began_s = time.perf_counter()
        self.region.begin((), EVERYSEC)
        self.point.figures["start_s"] = time.perf_counter() - began_s
        self.point.figures["start_anonymous_bytes"] = self.region.anonymous_bytes()
        found = [self.region.ask("XLEN", f"stream:{number}") for number in range(len(entries))]
        if found != entries or self.region.ask("DBSIZE") != keys:
            raise BenchmarkError(f"{self.region} had {entries} entries in its first streams, and has {found}")

    def _add_more(self) -> None:
        added = drive(self.region, entries_in(self.region.port, ["more"], MORE))
        self.point.figures["adds_per_s"] = added.rate
        self.point.figures["add_cpu_us"] = added.cpu_us


# The curves


def curve(
    node: Node, directory: Path, kind: str, counts: range, spills: bool, memory_max: int, hot_bytes_max: int
) -> Iterator[Point]:
    """The points of which the number is in this range, from the smallest one up; the first that does not fit is the
    last.
    """
    count = SMALLEST[kind]
    while count < counts.start:
        count *= STEP
    before: Point | None = None
    while count in counts:
        point = Point(kind, count, spills)
        point.left_out = "" if before is None else why_not(before, count, memory_max, free_bytes(directory))
        if point.left_out:
            yield point
            return
        yield measured(node, directory, point, hot_bytes_max)
        before, count = point, count * STEP


def free_bytes(directory: Path) -> int:
    volume = os.statvfs(directory)
    return volume.f_bavail * volume.f_frsize


def why_not(before: Point, count: int, memory_max: int, disk_bytes: int) -> str:
    """Why so many do not fit, as far as the point before shows; empty if they do."""
    times = count / before.count
    figures = before.figures
    held = max(figures["anonymous_bytes"], figures["start_anonymous_bytes"]) - figures["empty_bytes"]
    # What spills grows with its index only, which the smaller points hardly show: their memory is that of hot blocks.
    grown = held * times if not before.spills or before.kind == STREAMS else held + figures["spilled_blocks"] * 600
    memory, disk = figures["empty_bytes"] + grown, figures["disk_bytes"] * times
    if memory > memory_max:
        return f"about {memory / 1e9:,.1f} GB of memory, {memory_max / 1e9:,.1f} GB are allowed"
    if disk > VOLUME_PART * disk_bytes:
        return f"about {disk / 1e9:,.1f} GB of disk, {disk_bytes / 1e9:,.1f} GB are free"
    return ""


def measured(node: Node, directory: Path, point: Point, hot_bytes_max: int) -> Point:
    with tempfile.TemporaryDirectory(dir=directory, prefix="curve-") as own:
        run = Measured(node, Path(own), point, hot_bytes_max)
        try:
            run.run()
        finally:
            run.region.kill()
    return point


def main(
    entries: Annotated[int, typer.Option(min=0, help="Entries of the largest region; a power of ten.")] = 1_000_000,
    streams: Annotated[int, typer.Option(min=0, help="Streams of the largest region of streams.")] = 100_000,
    smallest: Annotated[int, typer.Option(min=1, help="Leave smaller ones out.")] = 1,
    spilling: Annotated[
        bool | None, typer.Option("--spilling/--no-spilling", help="Only regions that spill, or that do not.")
    ] = None,
    memory_max: Annotated[int, typer.Option(min=1, help="Bytes of memory that a region may take.")] = 6_000_000_000,
    hot_bytes_max: Annotated[
        int, typer.Option(min=1, help="The setting of that name, of regions that spill.")
    ] = HOT_BYTES_MAX,
    python: Annotated[
        str, typer.Option(help="Interpreter that runs the region, with the crdtstream installed there.")
    ] = sys.executable,
    directory: Annotated[Path | None, typer.Option(help="Where the data directories are made.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure regions of more and more entries and streams, with and without spilling."""
    node = find_node(python)
    place = directory or Path(tempfile.gettempdir())
    points = []
    for kind, largest in ((ENTRIES, entries), (STREAMS, streams)):
        counts = range(smallest, largest + 1)
        for spills in (False, True) if spilling is None else (spilling,):
            for point in curve(node, place, kind, counts, spills, memory_max, hot_bytes_max):
                points.append(point)
                progress.print(json.dumps(asdict(point)), markup=False, soft_wrap=True)
    if as_json:
        print(json.dumps({"compiled": node.compiled, "points": [asdict(point) for point in points]}, indent=2))
    else:
        Console(width=180).print(table_of(points))


def table_of(points: Sequence[Point]) -> Table:
    columns = ("", "spills", "memory", "load", "each", "XADD/s", "CPU", "XRANGE", "CPU", "reads", "from disk", "reads")
    table = Table(*columns, "start", "memory then", "checkpoint", "disk", "blocks on disk")
    for point in points:
        name, spills = f"{point.count:,} {point.kind}", "yes" if point.spills else "no"
        if point.left_out:
            table.add_row(name, spills, f"left out: {point.left_out}")
        else:
            table.add_row(name, spills, *cells(point.figures))
    return table


def cells(figures: dict[str, float]) -> list[str]:
    def mb(name: str) -> str:
        return f"{figures[name] / 1e6:,.0f} MB"

    return [
        mb("anonymous_bytes"),
        mb("loading_peak_bytes"),
        f"{figures['each_bytes']:,.1f} B",
        f"{figures['adds_per_s']:,.0f}",
        f"{figures['add_cpu_us']:.2f} µs",
        f"{figures['xrange_p50_us']:,.0f} µs",
        f"{figures['xrange_cpu_us']:,.0f} µs",
        f"{figures['xrange_reads']:.2f}",
        f"{figures['xrange_disk_p50_us']:,.0f} µs",
        f"{figures['xrange_disk_reads']:.2f}",
        f"{figures['start_s']:.2f} s",
        mb("start_anonymous_bytes"),
        f"{figures['checkpoint_s']:.2f} s",
        mb("disk_bytes"),
        f"{figures['spilled_blocks']:,.0f}",
    ]


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
