"""Instructions that a server process executes in user mode: a cost that does not depend on what else the machine does.

The processor counts them for `perf stat` where it has a counter for that; most virtual machines do not. Elsewhere the
server runs under valgrind, whose callgrind counts every instruction and makes the server about 50 times slower. Where
there is neither, `find_counter` returns None. Only what happens inside `counted` counts, so that the start of a server
and the filling of a stream do not.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT
from typing import Protocol

from crdtstream.processes.waiting import ProcessError

EVENT = "instructions:u"
ORDER_S = 60


@dataclass(slots=True)
class Count:
    """The count of one context; it is there when the context has ended."""

    instructions: int = 0


class Counter(Protocol):
    """Counts for servers that were started with `before` as the beginning of their command."""

    name: str
    before: tuple[str, ...]

    def counted(self, process_id: int) -> AbstractContextManager[Count]: ...


def find_counter(directory: Path) -> Counter | None:
    """Return what counts here; it keeps its files in that directory."""
    if shutil.which("perf") is not None and perf_counts(EVENT):
        return Perf(directory)
    if shutil.which("valgrind") is not None and shutil.which("vgdb") is not None:
        return Callgrind(directory)
    return None


# By the processor


def perf_counts(event: str) -> bool:
    command = ["perf", "stat", "-e", event, "-x", ",", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0 and perf_total(done.stderr) is not None


def perf_total(text: str) -> int | None:
    """Return the count in the CSV of `perf stat`, None if there is none. A processor with two kinds of cores has a line
    for each of them.
    """
    fields = [line.split(",") for line in text.splitlines()]
    counts = [float(line[0]) for line in fields if len(line) > 2 and re.fullmatch(r"[\d.]+", line[0])]
    return round(sum(counts)) if counts else None


class Perf:
    """The processor's own counter; the server runs at full speed."""

    name = "perf stat"
    before: tuple[str, ...] = ()

    def __init__(self, directory: Path, event: str = EVENT) -> None:
        self._path = directory / "perf.csv"
        self._event = event

    @contextmanager
    def counted(self, process_id: int) -> Iterator[Count]:
        count = Count()
        perf = self._attach(process_id)
        try:
            self._order(perf, b"enable\n")
            yield count
            self._order(perf, b"disable\n")
        finally:
            perf.send_signal(SIGINT)
            _, errors = perf.communicate()
        total = perf_total(self._path.read_text())
        if total is None:
            raise ProcessError(f"perf counted no {self._event}: {errors.decode(errors='replace')}")
        count.instructions = total

    def _attach(self, process_id: int) -> subprocess.Popen[bytes]:
        """Start perf, which counts nothing before it is ordered to, and acknowledges orders."""
        command = ["perf", "stat", "-e", self._event, "-x", ",", "-o", str(self._path), "-p", str(process_id)]
        command += ["--delay", "-1", "--control", "fd:0,1"]
        return subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def _order(self, perf: subprocess.Popen[bytes], order: bytes) -> None:
        assert perf.stdin is not None and perf.stdout is not None
        perf.stdin.write(order)
        if b"ack" not in perf.stdout.readline():  # some releases send a NUL behind the end of the line
            raise ProcessError(f"perf did not {order.decode().strip()} the counter of {self._event}")


# By valgrind


class Callgrind:
    """Counts in a server that runs under valgrind from its start, and is orders of magnitude slower meanwhile."""

    name = "valgrind --tool=callgrind"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pipes = f"--vgdb-prefix={directory / 'vgdb-pipe'}"
        # An interpreter may be a script that ends by becoming the real one.
        options = ("--instr-atstart=no", "--trace-children=yes", f"--callgrind-out-file={directory / 'callgrind.%p'}")
        self.before: tuple[str, ...] = ("valgrind", "--tool=callgrind", self._pipes, *options)

    @contextmanager
    def counted(self, process_id: int) -> Iterator[Count]:
        count = Count()
        self._order(process_id, "instrumentation on")
        self._order(process_id, "zero")
        yield count
        self._order(process_id, "dump")
        self._order(process_id, "instrumentation off")
        for path in self._directory.glob(f"callgrind.{process_id}.*"):
            count.instructions += callgrind_total(path.read_text())
            path.unlink()

    def _order(self, process_id: int, order: str) -> None:
        command = ["vgdb", self._pipes, f"--pid={process_id}", f"--cmd-time-out={ORDER_S}", *order.split()]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * ORDER_S)
        if done.returncode:
            raise ProcessError(f"callgrind did not obey {order!r}: {done.stderr or done.stdout}")


def callgrind_total(text: str) -> int:
    found = re.search(r"^totals: (\d+)", text, re.MULTILINE)
    if found is None:
        raise ProcessError("callgrind wrote a file without totals")
    return int(found[1])
