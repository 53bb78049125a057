"""Counts of perf and callgrind: what they print, and that only what happens inside a context counts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import instructions
from benchmarks.instructions import Callgrind, Counter, Perf, callgrind_total, find_counter, perf_counts, perf_total
from crdtstream.processes.waiting import ProcessError
from tests.benchmarks.valgrind import needs_valgrind

SOFTWARE_EVENT = "task-clock:u"
# Does as much work as a line says, and answers with a line.
WORKER = """
import sys
for line in sys.stdin:
    for _ in range(int(line)):
        pass
    print("done", flush=True)
"""


class Worker:
    """A process whose work can be counted; it is in the middle of its life when that begins."""

    def __init__(self, counter: Counter) -> None:
        command = [*counter.before, sys.executable, "-S", "-c", WORKER]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.pid = self._process.pid
        self.work(1)

    def work(self, amount: int) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(amount, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def worker_of(counter: Counter) -> Iterator[Worker]:
    worker = Worker(counter)
    try:
        yield worker
    finally:
        worker.end()


def counted(counter: Counter, worker: Worker, amount: int) -> int:
    with counter.counted(worker.pid) as count:
        worker.work(amount)
    return count.instructions


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("1234,,instructions:u,812345,100.00,,\n", 1_234),
        ("# started on Mon\n\n7,,cpu_atom/instructions:u/,1,9.00,,\n3,,cpu_core/instructions:u/,1,91.00,,\n", 10),
        ("<not counted>,,cpu_atom/instructions:u/,0,0.00,,\n3,,cpu_core/instructions:u/,1,100.00,,\n", 3),
        ("<not supported>,,instructions:u,0,100.00,,\n", None),
        ("", None),
    ],
)
def test_perf_prints_a_line_for_each_kind_of_core(text: str, total: int | None) -> None:
    assert perf_total(text) == total


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_perf_counts_inside_the_context_only(tmp_path: Path) -> None:
    """By an event of the kernel's own, because a virtual machine may have no counter of instructions."""
    if not perf_counts(SOFTWARE_EVENT):
        pytest.skip("the kernel does not allow counting")
    counter = Perf(tmp_path, SOFTWARE_EVENT)
    with worker_of(counter) as worker:
        worker.work(20_000_000)
        little, much = counted(counter, worker, 1_000), counted(counter, worker, 20_000_000)
    assert little * 5 < much


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_perf_says_why_it_cannot_count(tmp_path: Path) -> None:
    counter = Perf(tmp_path, "no-such-event")
    with worker_of(counter) as worker, pytest.raises(ProcessError, match="no-such-event"):
        counted(counter, worker, 1)


@needs_valgrind
def test_callgrind_counts_inside_the_context_only(tmp_path: Path) -> None:
    counter = Callgrind(tmp_path)
    with worker_of(counter) as worker:
        worker.work(20_000)
        once, twice, again = (counted(counter, worker, amount) for amount in (20_000, 40_000, 20_000))
    assert again == pytest.approx(once, rel=0.01)
    assert 1.8 * once < twice < 2.2 * once
    assert not list(tmp_path.glob("callgrind.*.*")), "dumps are removed once they are read"


@needs_valgrind
def test_callgrind_needs_the_process(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="instrumentation on"), Callgrind(tmp_path).counted(1):
        pass


def test_a_dump_has_totals() -> None:
    assert callgrind_total("version: 1\nevents: Ir\nsummary: 7\n\ntotals: 12345\n") == 12_345
    with pytest.raises(ProcessError, match="totals"):
        callgrind_total("version: 1\n")


@pytest.mark.parametrize(
    ("programs", "event_counts", "found"),
    [
        ({"perf", "valgrind", "vgdb"}, True, "perf stat"),
        ({"perf", "valgrind", "vgdb"}, False, "valgrind --tool=callgrind"),
        ({"valgrind", "vgdb"}, True, "valgrind --tool=callgrind"),
        ({"perf", "valgrind"}, False, None),
        (set(), True, None),
    ],
)
def test_perf_is_preferred_where_it_counts(
    programs: set[str], event_counts: bool, found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name if name in programs else None)
    monkeypatch.setattr(instructions, "perf_counts", lambda _event: event_counts)
    counter = find_counter(tmp_path)
    assert (None if counter is None else counter.name) == found
