"""`python -m nemesis.cold_operations`: what operators do with a region that has most of its entries on the disk only;
exits with 1 if a region holds anything else afterwards.

Each operation is done as a whole, with the most anonymous memory (RssAnon) that it takes, and again with `kill -9` at a
random moment in the middle, after which it is repeated. Digests are compared after each. A digest takes the sums of
spilled blocks from the checkpoint, so at the end every entry is read, and must be one that was written.

    start         from the checkpoint and the log, after a kill
    checkpoint    of what was added since the last one, two fifths of what may be in memory
    transfer      of the whole state to an empty region; once the one that receives is killed, once the other
    audit         of both regions, which sum what they hold and compare
    backup        written by the region; `verify` is the tool that checks it
    restore       of the backup into an empty directory, by the tool, which is killed too
"""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import redis
import typer
from rich.console import Console
from rich.table import Table

from crdtstream.processes.launching import CHECKOUT, Launcher, end_cleanly_at_signals
from crdtstream.processes.memory import PeakMemory
from crdtstream.processes.ports import HOST
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.server import SERVES
from crdtstream.processes.waiting import until

FAILURE = 1
MB = 1_000_000
STREAMS = ("a", "b", "c")
VALUE_BYTES = 1_000
PIPELINE = 500
# Of so many pipelines, sent again and again, the entries consist: many more than a block has.
DISTINCT = 16
# Of what may be in memory: by itself a region takes a checkpoint once half of that was written.
MORE_PART = 0.4
PAGE = 1_000
SYNCED_S = 1.5
ASKED_S = 0.1
OPERATION_S = 1_800.0
# What was compared is not compared again before it changes, unless the audit is turned off and on.
AUDIT_MS, NO_AUDIT_MS = 200, 0
AUDIT_ENTRIES_MAX = 100_000
KILLED_BETWEEN = (0.2, 0.8)


@dataclass(frozen=True)
class Line:
    """One operation, or one that was killed: its time until then and its memory, and whether the data is the same."""

    operation: str
    of: str
    seconds: float
    peak_bytes: int
    is_equal: bool


class Operations:
    """Two regions of one cluster, of which the second comes and goes, and the tool."""

    def __init__(self, directory: Path, regions: list[RegionProcess], tool: list[str], seed: int) -> None:
        self.main, self.other, self.restored = regions
        self.lines: list[Line] = []
        self._tool = tool
        self._backups = directory / "backups"
        self._log = directory / "tool.log"
        self._random = random.Random(seed)
        self._values = [self._random.randbytes(VALUE_BYTES) for _ in range(DISTINCT * PIPELINE)]
        self._pipelines = [self._pipeline(number) for number in range(DISTINCT)]
        self._added = 0
        self._hot_bytes_max = 0

    def run(self, entries: int, hot_bytes_max: int) -> Iterator[Line]:
        self._hot_bytes_max = hot_bytes_max
        steps: list[Callable[[], None]] = [lambda: self._fill(entries), self._start]
        more = int(hot_bytes_max * MORE_PART) // VALUE_BYTES
        steps += [lambda: self._checkpoint(more), self._transfer, self._audit]
        steps += [lambda: self._backup(more), self._restore, self._read_all]
        for step in steps:
            step()
            yield from self.lines
            self.lines.clear()

    # Regions and their entries

    def _launch(self, region: RegionProcess, *peers: RegionProcess) -> None:
        region.start(
            *peers,
            name="main" if region is self.restored else region.name,
            incarnation=0,
            hot_bytes_max=self._hot_bytes_max,
            audit_interval_ms=NO_AUDIT_MS,
            audit_entries_max=AUDIT_ENTRIES_MAX,
            backup_directory=self._backups,
        )

    def _serve(self, region: RegionProcess, *peers: RegionProcess) -> None:
        self._launch(region, *peers)
        region.await_serving(OPERATION_S)

    def _pipeline(self, number: int) -> bytes:
        key = STREAMS[number % len(STREAMS)].encode()
        head = b"*5\r\n$4\r\nXADD\r\n$1\r\n%b\r\n$1\r\n*\r\n$1\r\nf\r\n$%d\r\n" % (key, VALUE_BYTES)
        values = self._values[number * PIPELINE : (number + 1) * PIPELINE]
        return b"".join([head + value + b"\r\n" for value in values])

    def _add(self, entries: int) -> None:
        """Add so many, and wait until they are on the disk."""
        with socket.create_connection((HOST, self.main.port), OPERATION_S) as connection:
            for number in range(max(1, entries // PIPELINE)):
                connection.sendall(self._pipelines[number % DISTINCT])
                self._added += PIPELINE
                missing = 2 * PIPELINE
                while missing:
                    data = connection.recv(1 << 16)
                    assert data and b"-ERR" not in data and b"-OOM" not in data, f"an entry is refused: {data[:200]!r}"
                    missing -= data.count(b"\n")
        time.sleep(SYNCED_S)

    def _ask(self, *words: str) -> Any:
        """A request to the main region that may take long."""
        with self.main.client(OPERATION_S) as client:
            return client.execute_command(*words)

    def _agree(self) -> bool:
        """Whether both regions hold the same; they are asked seldom, because that costs them time."""
        time.sleep(ASKED_S)
        if self.other.state() != SERVES or self.main.state() != SERVES:
            return False
        return self.other.vector() == self.main.vector() and self.other.digest() == self.main.digest()

    def _await_agreement(self) -> None:
        until(self._agree, lambda: f"both hold the same{self.main.log_end()}{self.other.log_end()}", OPERATION_S)

    # Doing something once, and killing what does it

    def _whole(self, operation: str, run: Callable[[], object], *regions: RegionProcess) -> float:
        """Do it; returns the seconds."""
        with ExitStack() as stack:
            peaks = [stack.enter_context(PeakMemory(region.pid)) for region in regions]
            began_s = time.monotonic()
            run()
            seconds = time.monotonic() - began_s
        for region, peak in zip(regions, peaks, strict=True):
            self.lines.append(Line(operation, str(region), seconds, peak.peak_bytes, True))
        return seconds

    def _kill(self, operation: str, region: RegionProcess, seconds: float, run: Callable[[], object]) -> None:
        """Do it in the background, and kill the region in the middle; the next line says what came of it."""
        after_s = seconds * self._random.uniform(*KILLED_BETWEEN)
        thread = threading.Thread(target=ignoring_its_end, args=(run,), daemon=True)
        with PeakMemory(region.pid) as memory:
            thread.start()
            time.sleep(after_s)
            region.kill()
        thread.join(OPERATION_S)
        self.lines.append(Line(f"{operation}, killed", str(region), after_s, memory.peak_bytes, False))

    def _came_of_it(self, is_equal: bool) -> None:
        line = self.lines.pop()
        self.lines.append(Line(line.operation, line.of, line.seconds, line.peak_bytes, is_equal))

    # The operations

    def _fill(self, entries: int) -> None:
        self._backups.mkdir()
        self._serve(self.main)
        self._whole("fill", lambda: self._add(entries), self.main)
        self._ask("SAVE")
        until(self._has_spilled, lambda: f"{self.main} spills blocks{self.main.log_end()}", OPERATION_S)

    def _has_spilled(self) -> bool:
        return self.main.told("spilled_blocks") > 0 and self.main.told("hot_bytes") <= self._hot_bytes_max

    def _start(self) -> None:
        before = digests(self.main)
        self.main.kill()
        self._launch(self.main, self.other)
        seconds = self._whole("start", lambda: self.main.await_serving(OPERATION_S), self.main)
        self._came_of_it(digests(self.main) == before)
        self.main.kill()
        self._launch(self.main, self.other)
        self._kill("start", self.main, seconds, lambda: None)
        self._serve(self.main, self.other)
        self._came_of_it(digests(self.main) == before)

    def _checkpoint(self, more: int) -> None:
        self._add(more)
        before = digests(self.main)
        seconds = self._whole("checkpoint", lambda: self._ask("SAVE"), self.main)
        self._came_of_it(digests(self.main) == before)
        self._add(more)
        before = digests(self.main)
        self._kill("checkpoint", self.main, seconds, lambda: self._ask("SAVE"))
        self._serve(self.main, self.other)
        self._came_of_it(digests(self.main) == before)

    def _begin_empty(self) -> None:
        self.other.kill()
        shutil.rmtree(self.other.data, ignore_errors=True)
        self._launch(self.other, self.main)

    def _transfer(self) -> None:
        before = digests(self.main)
        self._begin_empty()
        seconds = self._whole("transfer", self._await_agreement, self.main, self.other)
        for region in (self.other, self.main):
            self._begin_empty()
            self._kill("transfer", region, seconds, lambda: None)
            self._serve(region, self.main if region is self.other else self.other)
            self._await_agreement()
            self._came_of_it(digests(self.main) == before)

    def _audit(self) -> None:
        before = digests(self.main)
        seconds = self._whole("audit", self._await_comparison, self.main, self.other)
        self._came_of_it(self._differences() == 0)
        self._kill("audit", self.main, seconds, self._audit_again)
        self._serve(self.main, self.other)
        self._await_agreement()
        self._await_comparison()
        self._came_of_it(self._differences() == 0 and digests(self.main) == before)

    def _audit_again(self) -> None:
        for region in (self.main, self.other):
            region.ask("CONFIG", "SET", "audit-interval-ms", AUDIT_MS)

    def _await_comparison(self) -> None:
        """Wait for one more comparison, and have no further ones."""
        before = self.main.told("audit_comparisons", "replication")
        self._audit_again()
        until(lambda: self.main.told("audit_comparisons", "replication") > before, "an audit ends", OPERATION_S)
        for region in (self.main, self.other):
            region.ask("CONFIG", "SET", "audit-interval-ms", NO_AUDIT_MS)

    def _differences(self) -> int:
        return sum(region.told("audit_differences", "replication") for region in (self.main, self.other))

    def _backup(self, more: int) -> None:
        whole, killed = self._backups / "whole", self._backups / "killed"
        self._add(more)
        seconds = self._whole("backup", lambda: self._ask("CRDT.BACKUP", str(self._backups / "first")), self.main)
        self._add(more)
        before = digests(self.main)
        self._kill("backup", self.main, seconds, lambda: self._ask("CRDT.BACKUP", str(killed)))
        self._serve(self.main, self.other)
        self._came_of_it(digests(self.main) == before)
        self._await_agreement()
        self._ask("CRDT.BACKUP", str(whole))
        self._run_tool("verify", "backup", "--verify", str(whole))

    def _restore(self) -> None:
        words = ("restore", str(self._backups / "whole"), "--data", str(self.restored.data))
        seconds = self._run_tool("restore", *words)
        self._came_of_it(self._is_restored())
        shutil.rmtree(self.restored.data)
        tool = self._start_tool(*words)
        after_s = seconds * self._random.uniform(*KILLED_BETWEEN)
        with PeakMemory(tool.pid) as memory:
            time.sleep(after_s)
            tool.kill()
            tool.wait()
        shutil.rmtree(self.restored.data, ignore_errors=True)
        self._run_tool("restore again", *words)
        self.lines.pop()
        self.lines.append(Line("restore, killed", "the tool", after_s, memory.peak_bytes, self._is_restored(keep=True)))

    def _is_restored(self, keep: bool = False) -> bool:
        """Start from what was restored, alone."""
        self._serve(self.restored)
        is_equal = digests(self.restored) == digests(self.main)
        if not keep:
            self.restored.kill()
        return is_equal

    def _start_tool(self, *words: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen([*self._tool, *words], cwd=directory_of(self._tool[0]), stdout=log, stderr=log)

    def _run_tool(self, operation: str, *words: str) -> float:
        """Run it to its end; returns the seconds."""
        began_s = time.monotonic()
        tool = self._start_tool(*words)
        with PeakMemory(tool.pid) as memory:
            code = tool.wait(OPERATION_S)
        assert code == 0, f"{words} ended with {code}: {self._log.read_text(errors='replace')[-2000:]}"
        seconds = time.monotonic() - began_s
        self.lines.append(Line(operation, "the tool", seconds, memory.peak_bytes, True))
        return seconds

    # Every entry

    def _read_all(self) -> None:
        """Read all regions from end to end, and compare them with what was written."""
        written = set(self._values)
        for region in (self.main, self.other, self.restored):
            began_s = time.monotonic()
            with PeakMemory(region.pid) as memory:
                is_equal = self._holds(region, written)
            seconds = time.monotonic() - began_s
            self.lines.append(Line("read all", str(region), seconds, memory.peak_bytes, is_equal))

    def _holds(self, region: RegionProcess, written: set[bytes]) -> bool:
        found, unknown = 0, 0
        with region.client(OPERATION_S) as client:
            for name in STREAMS:
                start: bytes = b"-"
                while page := client.execute_command("XRANGE", name, start, "+", "COUNT", PAGE):
                    found += len(page)
                    unknown += sum(pair[1] not in written for _, pair in page)
                    start = b"(" + page[-1][0]
        return found == self._added and unknown == 0


def digests(region: RegionProcess) -> list[bytes]:
    """Those of the streams: that of a whole region has its members too, which change with each start."""
    return [region.digest(name) for name in STREAMS]


def ignoring_its_end(run: Callable[[], object]) -> None:
    """What was asked of a region that is killed meanwhile has no answer."""
    try:
        run()
    except (redis.RedisError, OSError):
        return


def directory_of(python: str) -> Path | None:
    """A checkout is found from its own directory; another interpreter has a crdtstream of its own."""
    return CHECKOUT if python == sys.executable else None


def operated(
    directory: Path, megabytes: int, hot_bytes_max: int, seed: int, python: str = sys.executable
) -> Iterator[Line]:
    """The lines of all operations on a region of so many entries."""
    launcher = Launcher((python, "-m", "crdtstream"), (), directory_of(python) or directory)
    with regions_in(directory) as owned:
        names = {"main": 1, "other": 2, "restored": 1}
        owned.running += [RegionProcess(number, directory, name, launcher) for name, number in names.items()]
        operations = Operations(directory, owned.running, list(launcher.command), seed)
        yield from operations.run(megabytes * MB // VALUE_BYTES, hot_bytes_max)


def main(
    megabytes: Annotated[int, typer.Option(min=30, help="Of entries with values of 1,000 random bytes.")] = 300,
    hot_bytes_max: Annotated[int, typer.Option(min=1, help="The setting of that name.")] = 30 * MB,
    seed: Annotated[int, typer.Option(help="Of what is written, and of the moments of the kills.")] = 1,
    python: Annotated[
        str, typer.Option(help="Interpreter that runs the regions, with the crdtstream installed there.")
    ] = sys.executable,
    directory: Annotated[Path | None, typer.Option(help="Where the data directories are made.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Operate a region that has most of its entries on the disk only, and kill it in the middle."""
    progress = Console(stderr=True)
    lines: list[Line] = []
    with TemporaryDirectory(prefix="cold-operations-", dir=directory) as own:
        for line in operated(Path(own), megabytes, hot_bytes_max, seed, python):
            lines.append(line)
            progress.print(asdict(line), soft_wrap=True)
    if as_json:
        print(json.dumps([asdict(line) for line in lines], indent=2))
    else:
        Console().print(table_of(lines))
    if not all(line.is_equal for line in lines):
        raise typer.Exit(FAILURE)


def table_of(lines: list[Line]) -> Table:
    table = Table("operation", "of", "seconds", "memory at most", "data")
    for line in lines:
        memory, data = f"{line.peak_bytes / MB:,.0f} MB", "equal" if line.is_equal else "DIFFERENT"
        table.add_row(line.operation, line.of, f"{line.seconds:,.2f}", memory, data)
    return table


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
