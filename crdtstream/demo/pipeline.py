"""The second part of the demo: three regions under load, while Spark archives them to a Delta table. One region is
killed and restarted, and the job that writes the table twice. Then everything is archived to Parquet files, too.

It succeeds if both archives have every acknowledged add exactly once, the table is equal to the streams at its
vector, and the regions are alike. With a directory to keep, the archives stay in DIR/archive and DIR/delta, and the
acknowledged IDs in DIR/acknowledged.jsonl.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset
import redis
from redis.exceptions import RedisClusterException
from rich.console import Console
from rich.table import Table

from crdtstream.demo.archiver import TableArchiver
from crdtstream.demo.cluster import NAMES, Cluster, DemoError
from crdtstream.demo.region import Region
from crdtstream.spark.jobs.archive import archive
from crdtstream.spark.jobs.audit import Audited, audit
from crdtstream.spark.jobs.table_audit import TableAudited, audit_table
from crdtstream.spark.session import MASTER, start_session

STREAMS = ("orders", "payments", "clicks")
PATTERN = "*"
# Writes sent together, and the pause after them: thousands of writes per second from all regions.
PIPELINE = 20
PAUSE_S = 0.03
REPLY_TIMEOUT_S = 5.0
VICTIM = "west"
ACT_S = 5.0

# Stream and ID.
Answered = tuple[str, str]


class PipelineWriter(threading.Thread):
    """A client of one region: adds entries until it is stopped, and records the replies.

    While its region is down it retries; an add without a reply may or may not have happened, and does not count.
    """

    def __init__(self, region: Region) -> None:
        super().__init__(name=f"writes to {region.name}", daemon=True)
        self._region = region
        self._ended = threading.Event()
        self.answered: list[Answered] = []
        self.lost_connections = 0

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        number = 0
        while not self._ended.is_set():
            try:
                with self._region.cluster_client(REPLY_TIMEOUT_S) as client:
                    while not self._ended.is_set():
                        number = self._add(client, number)
                        self._ended.wait(PAUSE_S)
            except (redis.RedisError, RedisClusterException):
                self.lost_connections += 1
                self._ended.wait(PAUSE_S)

    def _add(self, client: Any, number: int) -> int:
        streams = [STREAMS[(number + at) % len(STREAMS)] for at in range(PIPELINE)]
        pipeline = client.pipeline(transaction=False)
        for at, stream in enumerate(streams):
            pipeline.xadd(stream, {"from": self._region.name, "number": str(number + at)})
        self.answered += zip(streams, pipeline.execute(), strict=True)
        return number + PIPELINE


@dataclass(frozen=True)
class Compared:
    """The archive compared with the acknowledged adds."""

    answered: int
    archived: int
    missing: list[Answered]
    twice: list[Answered]

    @property
    def holds(self) -> bool:
        return not self.missing and not self.twice and self.answered > 0


def run_pipeline(console: Console, keep: Path | None = None, master: str = MASTER, shards: int = 1) -> list[str]:
    """Run; return what did not hold. Raises ProcessError if it cannot continue."""
    with Cluster(bulk=True, shards=shards) as cluster, workplace(keep) as directory:
        return Pipeline(console, cluster, directory, master).run()


@contextmanager
def workplace(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="crdtstream-demo-") as made:
            yield Path(made)
        return
    if keep.exists() and any(keep.iterdir()):
        raise DemoError(f"{keep} is not empty: name a directory that is, or that does not exist")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep


class Pipeline:
    """The acts, one after the other."""

    def __init__(self, console: Console, cluster: Cluster, directory: Path, master: str) -> None:
        self._console = console
        self._cluster = cluster
        self._directory = directory
        self._master = master
        self._archive = str(directory / "archive")
        self._began_s = time.monotonic()
        endpoints = ",".join(region.bulk_address for region in cluster.regions.values())
        self._options = {"endpoints": endpoints, "streamsPattern": PATTERN}
        log_path = cluster.directory / "archiver.log"
        self._archiver = TableArchiver(endpoints, PATTERN, directory / "delta", master, log_path)

    def run(self) -> list[str]:
        writers = [PipelineWriter(region) for region in self._cluster.regions.values()]
        try:
            self._act(writers)
            self._say("archiving the rest to the table")
            self._archiver.finish()
        finally:
            self._archiver.kill()
        answered = [each for writer in writers for each in writer.answered]
        self._keep(answered)
        self._say("archiving everything to files")
        spark = start_session("crdtstream demo", self._master)
        try:
            archive(spark, self._options, self._archive)
            self._say("auditing")
            audited = audit(spark, self._options)
            table = audit_table(spark, self._options, self._archiver.table)
        finally:
            spark.stop()
        files = compare(answered, rows_of_files(self._archive))
        rows = compare(answered, rows_of_table(self._archiver))
        return self._verdict(files, rows, audited, table, writers)

    def _act(self, writers: list[PipelineWriter]) -> None:
        """Run the load with the job of the table beside it; kill and restart a region, and twice the job."""
        victim = self._cluster.regions[VICTIM]
        self._say(f"writing to {', '.join(NAMES)}")
        for writer in writers:
            writer.start()
        self._say(f"archiving to a table meanwhile, {self._master}")
        self._archiver.start()
        self._archiver.await_commit()
        self._say("killing the job")
        self._archiver.kill()
        self._say(f"killing {VICTIM}")
        victim.kill()
        self._archiver.start()
        time.sleep(ACT_S)
        self._say(f"starting {VICTIM} again")
        self._cluster.restart(victim)
        self._archiver.await_commit()
        self._say("killing the job again")
        self._archiver.kill()
        for writer in writers:
            writer.stop()
        self._say("writes have ended; waiting until the regions agree")
        self._cluster.await_agreement(NAMES)

    def _keep(self, answered: list[Answered]) -> None:
        with (self._directory / "acknowledged.jsonl").open("w", encoding="utf-8") as file:
            for stream, entry_id in answered:
                file.write(json.dumps({"stream": stream, "id": entry_id}) + "\n")

    def _verdict(
        self,
        files: Compared,
        rows: Compared,
        audited: Audited,
        table: TableAudited,
        writers: list[PipelineWriter],
    ) -> list[str]:
        shown = Table(
            "", "files", "Delta table", title="The archives compared with acknowledged adds", title_justify="left"
        )
        both = (files, rows)
        shown.add_row("acknowledged adds", *[f"{each.answered:,}" for each in both])
        shown.add_row("entries in the archive", *[f"{each.archived:,}" for each in both])
        shown.add_row("acknowledged, not in the archive", *[f"{len(each.missing):,}" for each in both])
        shown.add_row("in the archive more than once", *[f"{len(each.twice):,}" for each in both])
        shown.add_row("kills of the job", "0", "2")
        shown.add_row("files after merging", f"{self._files()}", f"{len(self._archiver.files())}")
        shown.add_row("differences from the streams at its vector", "", f"{len(table.differences)}")
        lost = sum(each.lost_connections for each in writers)
        shown.caption = (
            f"{lost:,} connections lost while {VICTIM} was down; {audited.entries:,} entries audited in all regions,"
            f" {len(audited.divergences)} divergences"
        )
        self._console.print(shown)
        apart = [f"the table and the streams differ: {each}" for each in table.differences[:10]]
        return complaints_of(files, audited) + complaints_of(rows, audited, "table") + apart

    def _files(self) -> int:
        return len(list(Path(self._archive).glob("stream_part=*/date=*/*.parquet")))

    def _say(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._began_s:5.1f} s  {text}", style="dim")


def rows_of_files(archive: str) -> list[Answered]:
    """Read the Parquet files as any reader would, without knowledge of the job."""
    return answered_in(pyarrow.dataset.dataset(archive, format="parquet").to_table(columns=["stream", "id"]))


def rows_of_table(archiver: TableArchiver) -> list[Answered]:
    """Read the table as any reader would."""
    table = archiver.table.table()
    return [] if table is None else answered_in(table.to_pyarrow_table(columns=["stream", "id"]))


def answered_in(table: Any) -> list[Answered]:
    return list(zip(table["stream"].to_pylist(), table["id"].to_pylist(), strict=True))


def compare(answered: list[Answered], archived: list[Answered]) -> Compared:
    held = Counter(archived)
    missing = [each for each in answered if not held[each]]
    return Compared(len(answered), held.total(), missing, [each for each, times in held.items() if times > 1])


def complaints_of(compared: Compared, audited: Audited, archive: str = "archive") -> list[str]:
    complaints = [f"acknowledged, but not in the {archive}: {each}" for each in compared.missing[:10]]
    complaints += [f"more than once in the {archive}: {each}" for each in compared.twice[:10]]
    complaints += [f"regions differ: {each}" for each in audited.divergences[:10]]
    if not compared.answered:
        complaints.append("no add was acknowledged")
    return complaints
