"""Executors in processes of their own: a cluster inside one process tree, and a standalone master with two workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow.dataset

from crdtstream.processes.ports import free_port
from tests.spark.fake_regions import Regions
from tests.spark.job_processes import ROOT, needs_java

BIN = Path(sys.executable).parent
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
START_S = 60.0

pytestmark = [pytest.mark.timeout(280), needs_java]


def environment() -> dict[str, str]:
    """As a user's shell has it: nothing says where the checkout lies."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHONPATH"))}
    return {**kept, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def run(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def archived(directory: Path) -> list[tuple[str, str]]:
    table = pyarrow.dataset.dataset(directory, format="parquet").to_table()
    return sorted(zip(table["stream"].to_pylist(), table["id"].to_pylist(), strict=True))


def filled(regions: Regions) -> list[tuple[str, str]]:
    for region in regions.regions:
        for stream in ("a", "b"):
            region.add(stream, *[b"%d" % number for number in range(500)])
    regions.sync()
    return sorted(
        (stream.decode(), f"{entry[1]}-{entry[2]}")
        for stream, origins in regions.streams.items()
        for entries in origins.values()
        for entry in entries
    )


def test_a_job_runs_on_executors_of_their_own(regions: Regions, tmp_path: Path) -> None:
    expected = filled(regions)
    job = (BIN / "crdtstream", "spark", "archive", tmp_path / "archive", "--master", LOCAL_CLUSTER)
    shown = run(*job, "--endpoints", regions.endpoints, "--streams-pattern", "*", cwd=tmp_path)
    assert "2,000" in shown
    assert archived(tmp_path / "archive") == expected


@contextmanager
def service(log: Path, name: str, *arguments: object) -> Iterator[None]:
    """A process of Spark's own; its whole group ends with the context."""
    command = [str(BIN / "spark-class"), f"org.apache.spark.deploy.{name}", *map(str, arguments)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment(), stdout=out, stderr=out, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def await_line(log: Path, pattern: str, count: int = 1) -> None:
    deadline_s = time.monotonic() + START_S
    while len(re.findall(pattern, log.read_text(errors="replace"))) < count:
        assert time.monotonic() < deadline_s, log.read_text(errors="replace")[-2000:]
        time.sleep(0.05)


@pytest.mark.slow
def test_a_job_is_submitted_to_a_standalone_master_with_two_workers(regions: Regions, tmp_path: Path) -> None:
    expected = filled(regions)
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    package = tmp_path / "crdtstream.zip"
    run(BIN / "crdtstream", "spark", "package", package)
    with ExitStack() as services:
        log = tmp_path / "master.log"
        services.enter_context(
            service(log, "master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", free_port())
        )
        await_line(log, "I have been elected leader")
        for number in (1, 2):
            directory = ("--work-dir", tmp_path / f"work{number}")
            options = ("--host", "127.0.0.1", "--webui-port", free_port(), "-c", 1, "-m", "1g", *directory)
            services.enter_context(service(tmp_path / f"worker{number}.log", "worker.Worker", *options, master))
        await_line(log, "Registering worker", 2)
        submit = (BIN / "spark-submit", "--master", master, "--executor-memory", "512m", "--py-files", package)
        job = (ROOT / "deploy" / "spark_job.py", "archive", tmp_path / "archive")
        run(*submit, *job, "--endpoints", regions.endpoints, "--streams-pattern", "*", cwd=tmp_path)
    assert archived(tmp_path / "archive") == expected
    executors = [path for number in (1, 2) for path in (tmp_path / f"work{number}").glob("app-*/*")]
    assert len(executors) >= 2, "both workers ran executors"
