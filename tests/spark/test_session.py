"""What is found without a session: the format's own module, and what is said where Spark is missing."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import pyspark_crdtstream
from crdtstream.processes.waiting import until
from crdtstream.spark import app, register
from crdtstream.spark.session import start_session
from crdtstream.spark.source import CrdtStreamSource
from tests.spark.fake_regions import Regions
from tests.spark.job_processes import ROOT, needs_java, said
from tests.spark.jobs.streams import filled


def test_spark_finds_the_source_by_the_name_of_its_module() -> None:
    assert pyspark_crdtstream.DefaultSource is CrdtStreamSource
    assert CrdtStreamSource.name() == "crdtstream"


def test_what_is_missing_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("crdtstream.spark.source", "pyspark"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ImportError, match=r"pip install 'crdtstream\[spark\]'"):
        register(None)
    with pytest.raises(ImportError, match=r"pip install 'crdtstream\[spark\]'"):
        start_session()
    # Whatever is wrong with it, a look-up of another format goes on.
    assert importlib.import_module("pyspark_crdtstream").__all__ == []


@pytest.mark.parametrize(("master", "prints_stacks"), [("local[2,4]", False), ("spark://host:7077", True)])
def test_only_a_local_session_of_a_job_has_its_settings(
    monkeypatch: pytest.MonkeyPatch, master: str, prints_stacks: bool
) -> None:
    given: dict[str, str] = {}

    class Builder:
        def __init__(self) -> None:
            self.dataSource = SimpleNamespace(register=lambda _source: None)

        def appName(self, _name: str) -> Builder:
            return self

        master = appName

        def config(self, key: str, value: str) -> Builder:
            given[key] = value
            return self

        def getOrCreate(self) -> Builder:
            return self

    pytest.importorskip("pyspark")
    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=Builder()))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "x")
    app.session_of("audit", master)
    options = given.get("spark.driver.extraJavaOptions", "")
    assert ("-Dcrdtstream.failures=off" not in options) == prints_stacks
    assert given["spark.sql.session.timeZone"] == "UTC"


IDLE_WORKER = """
import sys, time
from benchmarks.load.generator import Generator
from crdtstream.spark.session import start_session

spark = start_session()
spark.dataSource.register(Generator)
assert spark.read.format("generator").options(rows=10, tasks=2, streams=1).load().count() == 10
time.sleep(75)
spark.stop()
"""


@needs_java
@pytest.mark.slow
def test_workers_that_spark_closes_print_nothing() -> None:
    """Spark closes a worker after a minute without a task."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", IDLE_WORKER], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    assert "BrokenPipeError" not in done.stderr and "Traceback" not in done.stderr, done.stderr


JOBS = """
import sys
from crdtstream.spark.app import main

endpoints, directory = sys.argv[1:]
archive = ["archive", directory + "/archive", "--endpoints", endpoints, "--streams-pattern", "*"]
# The query fails in its first batch.
load = ["backfill", directory + "/files", "--endpoints", endpoints, "--checkpoint", directory + "/state"]
for words in (archive, [*load, "--format", "json"]):
    try:
        main(words)
    except SystemExit as end:
        print("exit", end.code)
"""


@needs_java
def test_a_job_prints_nothing_where_nothing_is_wrong_and_a_sentence_where_it_fails(
    regions: Regions, tmp_path: Path
) -> None:
    filled(regions)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "1.json").write_text('{"stream": "s", "fields": {"f": "v"}, "more": 1}\n')
    done = subprocess.run(
        [sys.executable, "-c", JOBS, regions.endpoints, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert [line for line in done.stdout.splitlines() if line.startswith("exit")] == ["exit 0", "exit 3"], done.stderr
    (text,) = said(done.stderr)
    assert text.startswith("crdtstream spark: column ")


@needs_java
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_is_stopped_ends_as_if_all_were_done(regions: Regions, tmp_path: Path, sent: signal.Signals) -> None:
    filled(regions)
    words = ["spark", "archive", str(tmp_path / "archive"), "--endpoints", regions.endpoints, "--streams-pattern", "*"]
    with (tmp_path / "said").open("w") as stderr, (tmp_path / "done").open("w") as done:
        job = subprocess.Popen(
            [sys.executable, "-m", "crdtstream", *words, "--continuous", "--interval-s", "0.2"],
            cwd=ROOT,
            stdout=done,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            until(lambda: "batch 0" in (tmp_path / "done").read_text(), "a batch", 200)
            # As Ctrl-C and a manager of services send it: to all processes.
            os.killpg(job.pid, sent)
            assert job.wait(120) == 0
        finally:
            job.kill()
    assert "merged files" in (tmp_path / "done").read_text()
    assert said((tmp_path / "said").read_text()) == []


def test_register_hands_over_the_class() -> None:
    class Known:
        def __init__(self) -> None:
            self.dataSource = self
            self.found: list[type] = []

        def register(self, source: type) -> None:
            self.found.append(source)

    register(known := Known())
    assert known.found == [CrdtStreamSource]
