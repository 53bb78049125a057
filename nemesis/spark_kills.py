"""`python -m nemesis.spark_kills`: a streaming query copies a stream; its whole process tree is killed during batches,
and sometimes its commit log is lost as well. In the end every row must be there exactly once, otherwise it exits with
1.

Driver, JVM and workers are one session of processes, which SIGKILL ends at once. A batch that is planned (`offsets`)
and not yet committed (`commits`) is running. Kills rotate: as soon as rows of a running batch are in the sink, so that
Spark repeats what was published; as soon as a batch is committed, after which its commit log is deleted unless another
batch is planned, so that Spark repeats this one too; and at a random moment. With `--delivery at-least-once` the same
kills produce duplicates.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from crdtstream.processes.launching import end_cleanly_at_signals
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until
from nemesis.cluster import ROOT

SOURCE, SINK = "orders", "copies"
REGIONS = (1, 2)
BATCH_DEADLINE_S = 240.0
MOMENT_S_MAX = 1.0
PUBLISHED, COMMITTED, ANY = "published", "committed", "any"
TURNS = (PUBLISHED, COMMITTED, ANY)
FAILURE = 1

progress = Console(stderr=True)


@dataclass(frozen=True)
class Plan:
    """The parameters of a run."""

    rows: int = 30_000
    kills: int = 10
    rows_per_batch: int = 500
    seed: int = 1
    delivery: str = "exactly-once"


@dataclass
class Outcome:
    """The result of a run; the first four fields are the promise."""

    rows_expected: int
    rows_found: int = 0
    duplicates: int = 0
    missing: int = 0
    kills: int = 0
    kills_in_mid_batch: int = 0
    kills_after_publish: int = 0
    commit_logs_lost: int = 0
    batches: int = 0
    seconds: float = 0.0

    @property
    def exact(self) -> bool:
        return self.rows_found == self.rows_expected and not self.duplicates and not self.missing


def job(checkpoint: str, endpoints: str, rows_per_batch: int, delivery: str) -> None:
    """The job that is killed: copies everything present, and ends."""
    from crdtstream.spark.session import start_session

    spark = start_session("spark-kills")
    where = {"endpoints": endpoints}
    source = {**where, "streams": SOURCE, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(rows_per_batch)}
    rows = spark.readStream.format("crdtstream").options(**source, minPartitions="2").load()
    writer = rows.select("fields").writeStream.format("crdtstream").options(**where, stream=SINK, delivery=delivery)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    spark.stop()


class Job:
    """One run of the query, as a session of processes."""

    def __init__(self, checkpoint: Path, plan: Plan, endpoints: str, log: Path) -> None:
        self.checkpoint = checkpoint
        arguments = (str(checkpoint), endpoints, plan.rows_per_batch, plan.delivery)
        call = f"from nemesis.spark_kills import job; job(*{arguments!r})"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", call],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )

    def numbers(self, name: str) -> list[int]:
        return sorted(int(path.name) for path in (self.checkpoint / name).glob("[0-9]*"))

    def in_batch(self) -> bool:
        planned, committed = self.numbers("offsets"), self.numbers("commits")
        return bool(planned) and planned[-1] > (committed[-1] if committed else -1)

    def ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """Kill all processes of the session: Spark's daemon creates its own process group within it."""
        for pid in session_of(self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()

    def lose_commit(self) -> bool:
        """Delete the commit of the newest batch: Spark resumes with that batch and checks no earlier commits."""
        committed = self.numbers("commits")
        if not committed or self.in_batch():
            return False
        (self.checkpoint / "commits" / str(committed[-1])).unlink()
        (self.checkpoint / "commits" / f".{committed[-1]}.crc").unlink(missing_ok=True)
        return True


def session_of(leader: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            found.append(int(path.parent.name))
    return found


def write_rows(region: RegionProcess, count: int) -> None:
    with region.client() as client:
        for low in range(0, count, 1000):
            pipe = client.pipeline(transaction=False)
            for number in range(low, min(low + 1000, count)):
                pipe.execute_command("XADD", SOURCE, "*", "n", f"{region.number}-{number}")
            pipe.execute()


def values_of(region: RegionProcess, stream: str) -> Counter[bytes]:
    values: Counter[bytes] = Counter()
    start = b"-"
    while True:
        rows: list[Any] = region.ask("XRANGE", stream, start, "+", "COUNT", 10_000)
        values.update(row[1][1] for row in rows)
        if not rows:
            return values
        start = b"(" + rows[-1][0]


def run(directory: Path, plan: Plan) -> Outcome:
    began = time.monotonic()
    with regions_in(directory) as owned:
        regions = owned.make(*REGIONS, bulk=True)
        for region in regions:
            region.start(*[peer for peer in regions if peer is not region])
        for region in regions:
            region.await_serving()
            write_rows(region, plan.rows // len(regions))
        owned.await_agreement()
        outcome = Outcome(len(regions) * (plan.rows // len(regions)))
        endpoints = ",".join(region.bulk_address for region in regions)
        under_kills(directory, plan, endpoints, regions[0], outcome)
        judge(values_of(regions[0], SOURCE), values_of(regions[0], SINK), outcome)
    outcome.seconds = round(time.monotonic() - began, 1)
    return outcome


def under_kills(directory: Path, plan: Plan, endpoints: str, sink: RegionProcess, outcome: Outcome) -> None:
    checkpoint, log = directory / "checkpoint", directory / "spark.log"
    chance = random.Random(plan.seed)
    while True:
        one = Job(checkpoint, plan, endpoints, log)
        try:
            if outcome.kills == plan.kills:
                until(one.ended, lambda: f"the query ends; {tail(log)}", BATCH_DEADLINE_S)
                assert one.process.returncode == 0, f"the query failed: {tail(log)}"
                outcome.batches = len(one.numbers("offsets"))
                return
            turn = TURNS[outcome.kills % len(TURNS)]
            began = strike(one, turn, sink, chance, log)
        finally:
            one.kill()
        # After the kill: record whether it hit a batch, and what else is lost.
        outcome.kills += 1
        outcome.kills_in_mid_batch += one.in_batch()
        outcome.kills_after_publish += turn == PUBLISHED and began.published(one, sink)
        outcome.commit_logs_lost += turn == COMMITTED and one.lose_commit()
        progress.print(f"kill {outcome.kills} of {plan.kills}: {len(one.numbers('commits'))} batches committed")


@dataclass
class Moment:
    """The state when a batch began: batches committed, and rows in the sink."""

    commits: int
    rows: int

    def published(self, one: Job, sink: RegionProcess) -> bool:
        """Return whether rows of a batch are in the sink while its commit is not in the log."""
        commits = len(one.numbers("commits"))
        if commits > self.commits:
            self.commits, self.rows = commits, length(sink)
        return one.in_batch() and length(sink) > self.rows and len(one.numbers("commits")) == self.commits


def strike(one: Job, turn: str, sink: RegionProcess, chance: random.Random, log: Path) -> Moment:
    """Wait for the moment of the kill."""

    def ready() -> bool:
        assert not one.ended(), f"the query ended before its kill: take more rows; {tail(log)}"
        return one.in_batch()

    until(ready, lambda: f"a batch; {tail(log)}", BATCH_DEADLINE_S)
    began = Moment(len(one.numbers("commits")), length(sink))
    commits = began.commits
    if turn == PUBLISHED:
        until(lambda: ready() and began.published(one, sink), lambda: f"rows; {tail(log)}", BATCH_DEADLINE_S)
    elif turn == COMMITTED:
        until(lambda: len(one.numbers("commits")) > commits, lambda: f"a commit; {tail(log)}", BATCH_DEADLINE_S)
    else:
        time.sleep(chance.uniform(0, MOMENT_S_MAX))
    # A kill of a query that has ended would hit nothing.
    assert not one.ended(), f"the query ended before its kill: take more rows; {tail(log)}"
    return began


def length(region: RegionProcess) -> int:
    return int(region.ask("XLEN", SINK))


def judge(expected: Counter[bytes], found: Counter[bytes], outcome: Outcome) -> None:
    outcome.rows_found = found.total()
    outcome.duplicates = (found - expected).total()
    outcome.missing = (expected - found).total()


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:] if log.exists() else ""


def show(outcome: dict[str, object], as_json: bool) -> None:
    """Print what a run came to, as a table or as JSON."""
    if as_json:
        print(json.dumps(outcome))
        return
    table = Table("", "")
    for name, value in outcome.items():
        table.add_row(name.replace("_", " "), str(value))
    Console().print(table)


def main(
    rows: Annotated[int, typer.Option(min=2, help="Number of rows to copy.")] = 30_000,
    kills: Annotated[int, typer.Option(min=0, help="How many times the query is killed.")] = 10,
    rows_per_batch: Annotated[int, typer.Option(min=1, help="Maximum rows of a batch.")] = 500,
    seed: Annotated[int, typer.Option(help="Determines when it is killed.")] = 1,
    delivery: Annotated[str, typer.Option(help="With at-least-once, duplicates must appear.")] = "exactly-once",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Check exactly-once delivery while the whole process tree is killed."""
    with TemporaryDirectory(prefix="spark-kills-") as directory:
        outcome = run(Path(directory), Plan(rows, kills, rows_per_batch, seed, delivery))
    show(asdict(outcome), as_json)
    if not outcome.exact:
        raise typer.Exit(FAILURE)


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
