"""What is found without a session: the format's own module, and what is said where Spark is missing."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pyspark_crdtstream
from crdtstream.spark import register
from crdtstream.spark.session import start_session
from crdtstream.spark.source import CrdtStreamSource

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.mark.slow
def test_workers_that_spark_closes_print_nothing() -> None:
    """Spark closes a worker after a minute without a task."""
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", IDLE_WORKER], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    assert "BrokenPipeError" not in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_register_hands_over_the_class() -> None:
    class Known:
        def __init__(self) -> None:
            self.dataSource = self
            self.found: list[type] = []

        def register(self, source: type) -> None:
            self.found.append(source)

    register(known := Known())
    assert known.found == [CrdtStreamSource]
