"""`python -m nemesis.table_kills`: a job archives streams to a Delta or an Iceberg table while clients write, and is
killed again and again. In the end the table must hold each entry that a client was answered once, and nothing else,
otherwise it exits with 1.

Kills rotate: everything at a random moment; everything between the files of a batch and their commit; everything once a
commit is made, after which the whole checkpoint is removed, or only the query's record of the batch; the JVM alone; the
driver alone; one worker. A job that has survived a kill goes on; one that has ended is started again. A kill that finds
no living process is none: only those that hit one are counted.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer
from rich.console import Console

from crdtstream.processes.launching import end_cleanly_at_signals
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until
from nemesis.cluster import ROOT
from nemesis.spark_kills import session_of, show, tail

REGIONS: Final = (1, 2)
STREAMS: Final = ("orders:1", "orders:2", "orders:3")
DEADLINE_S: Final = 300.0
MOMENT_S_MAX: Final = 3.0
PAUSE_S: Final = 0.2
BURST: Final = 20
MOMENT, STAGED, CHECKPOINT, COMMIT, JVM, DRIVER, WORKER = (
    "at a random moment",
    "between files and commit",
    "checkpoint removed",
    "record of a batch removed",
    "JVM",
    "driver",
    "worker",
)
TURNS: Final = (STAGED, CHECKPOINT, JVM, WORKER, MOMENT, COMMIT, DRIVER)
FAILURE: Final = 1
# States of processes in /proc: zombie, dead.
ENDED: Final = ("Z", "X")
MISSED_MAX: Final = 20

progress = Console(stderr=True)
Rows = Counter[tuple[str, str]]


@dataclass
class TableOutcome:
    """The result of a run; the first four fields are the promise."""

    rows_acknowledged: int = 0
    rows_found: int = 0
    twice: int = 0
    missing: int = 0
    unknown: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    missed: int = 0
    with_files_and_no_commit: int = 0
    commits: int = 0
    files_of_no_commit: int = 0
    seconds: float = 0.0

    @property
    def exact(self) -> bool:
        return self.rows_found == self.rows_acknowledged and not (self.twice or self.missing or self.unknown)


class Clients:
    """A thread that adds entries to all regions, and remembers which it was answered."""

    def __init__(self, regions: list[RegionProcess]) -> None:
        self._regions = regions
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.acknowledged: Rows = Counter()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._ended.wait(PAUSE_S):
            for region in self._regions:
                self._burst(region)

    def _burst(self, region: RegionProcess) -> None:
        with region.client() as client:
            pipe = client.pipeline(transaction=False)
            names = [STREAMS[number % len(STREAMS)] for number in range(BURST)]
            for name in names:
                pipe.execute_command("XADD", name, "*", "from", region.number)
            for name, entry_id in zip(names, pipe.execute(), strict=True):
                self.acknowledged[name, entry_id.decode()] += 1


class ArchiveJob:
    """`crdtstream spark archive --table`, as a session of processes: driver, JVM and workers."""

    def __init__(self, directory: Path, kind: str, endpoints: str, log: Path) -> None:
        from crdtstream.spark.tables.opening import table_of

        self.directory = directory
        self.table = table_of(kind, str(directory))
        self.log = log
        self._words = ["spark", "archive", str(directory), "--table", kind, "--endpoints", endpoints]
        self._words += ["--streams-pattern", "orders:*"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "crdtstream", *self._words, *more],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )

    def run_again(self) -> None:
        """Start it unless it runs."""
        if self.ended():
            self.kill()
            self.start("--continuous", "--interval-s", "0")

    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def finish(self) -> None:
        """Archive what is left, and end."""
        self.kill()
        self.start()
        until(self.ended, lambda: f"the job ends; {tail(self.log)}", DEADLINE_S)
        assert self._process is not None and self._process.returncode == 0, f"the job failed: {tail(self.log)}"

    def pids(self, part: str = "") -> list[int]:
        """The processes of the session whose command line has this text."""
        leader = self._process.pid if self._process is not None else 0
        return [pid for pid in session_of(leader) if leader and part in command_of(pid)]

    def kill(self, pids: list[int] | None = None) -> bool:
        """Kill these processes, or all; return whether one of them was alive: of all, whether the driver was."""
        chosen = self.pids() if pids is None else pids
        living = killed(chosen)
        if pids is not None or self._process is None:
            return bool(living)
        self._process.wait()
        return self._process.pid in living

    def driver(self) -> list[int]:
        return [] if self._process is None else [self._process.pid]

    def staged(self) -> int:
        """How many files were written, whether they are in a commit or not."""
        return sum(1 for _ in (self.directory / "data").rglob("*.parquet"))

    def commits(self) -> int:
        """How many commits there are in the format's own log."""
        log = self.directory / ("_delta_log" if self.table.kind == "delta" else "metadata")
        return len({path.name for path in log.glob("*.json")})

    def await_more(self, what: str, count: int) -> None:
        """Wait until there are more files, or more commits; start the job again if it has ended."""
        counted = self.staged if what == "files" else self.commits

        def more() -> bool:
            self.run_again()
            return counted() > count

        until(more, lambda: f"more {what}; {tail(self.log)}", DEADLINE_S)


def killed(pids: list[int]) -> set[int]:
    """Kill these processes; return those that were alive. One that has ended and was not waited for is not."""
    living = set()
    for pid in pids:
        if is_alive(pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            living.add(pid)
    return living


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ENDED
    except OSError:
        return False


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@dataclass(frozen=True)
class Strike:
    """What a kill met: whether a process that was alive, and whether files were there whose commit was not."""

    hit: bool
    with_files_and_no_commit: bool = False


def strike(job: ArchiveJob, turn: str, chance: random.Random) -> Strike:
    """Wait for the moment of the kill, and kill. The job has committed since the last one."""
    job.await_more("commits", job.commits())
    commits, files = job.commits(), job.staged()
    if turn == STAGED:
        job.await_more("files", files)
    elif turn not in (CHECKPOINT, COMMIT):
        time.sleep(chance.uniform(0, MOMENT_S_MAX))
    targets = {JVM: job.pids("java")[-1:], WORKER: job.pids("pyspark.daemon")[-1:], DRIVER: job.driver()}
    if not job.kill(targets.get(turn)):
        return Strike(hit=False)
    lose(job.directory / "_checkpoint", turn)
    return Strike(True, job.staged() > files and job.commits() == commits)


def lose(checkpoint: Path, turn: str) -> None:
    """Remove what is lost besides the processes."""
    if turn == CHECKPOINT:
        shutil.rmtree(checkpoint)
    if turn == COMMIT:
        commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        for path in commits[-1:]:
            path.unlink()
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def rows_of(job: ArchiveJob) -> Rows:
    from crdtstream.spark.tables.files import batches_of

    version = job.table.table()
    rows: Rows = Counter()
    for file in job.table.files(version):
        for part in batches_of(file, ("stream", "id")):
            rows.update(zip(part.column(0).to_pylist(), part.column(1).to_pylist(), strict=True))
    return rows


def run(directory: Path, kind: str, kills: int, seed: int) -> TableOutcome:
    began = time.monotonic()
    outcome = TableOutcome(kills=dict.fromkeys(TURNS, 0))
    with regions_in(directory) as owned:
        regions = owned.make(*REGIONS, bulk=True)
        for region in regions:
            region.start(*[peer for peer in regions if peer is not region])
        for region in regions:
            region.await_serving()
        endpoints = ",".join(region.bulk_address for region in regions)
        job = ArchiveJob(directory / "table", kind, endpoints, directory / "archive.log")
        clients = Clients(regions)
        clients.start()
        try:
            under_kills(job, kills, random.Random(seed), outcome)
            clients.stop()
            owned.await_agreement()
            job.finish()
        finally:
            clients.stop()
            job.kill()
        judge(clients.acknowledged, rows_of(job), outcome)
        outcome.commits = job.commits()
        outcome.files_of_no_commit = job.staged() - len(job.table.files(job.table.table()))
    outcome.seconds = round(time.monotonic() - began, 1)
    return outcome


def under_kills(job: ArchiveJob, kills: int, chance: random.Random, outcome: TableOutcome) -> None:
    while (number := sum(outcome.kills.values())) < kills:
        turn = TURNS[number % len(TURNS)]
        done = strike(job, turn, chance)
        if not done.hit:
            outcome.missed += 1
            assert outcome.missed < MISSED_MAX, f"no {turn} to be killed; {tail(job.log)}"
            continue
        outcome.with_files_and_no_commit += done.with_files_and_no_commit
        outcome.kills[turn] += 1
        progress.print(f"kill {number + 1} of {kills}: {turn}; {job.commits()} commits")


def judge(acknowledged: Rows, found: Rows, outcome: TableOutcome) -> None:
    outcome.rows_acknowledged = acknowledged.total()
    outcome.rows_found = found.total()
    outcome.twice = sum(count - 1 for count in found.values())
    outcome.missing = (acknowledged - found).total()
    outcome.unknown = sum(1 for row in found if row not in acknowledged)


def main(
    kind: Annotated[str, typer.Option("--table", help="delta or iceberg.")] = "delta",
    kills: Annotated[int, typer.Option(min=0, help="How many times the job is killed.")] = 30,
    seed: Annotated[int, typer.Option(help="Determines when it is killed.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Check that a table holds what clients were answered, exactly once, while the job that archives is killed."""
    with TemporaryDirectory(prefix="table-kills-") as directory:
        outcome = run(Path(directory), kind, kills, seed)
    show(asdict(outcome), as_json)
    if not outcome.exact:
        raise typer.Exit(FAILURE)


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
