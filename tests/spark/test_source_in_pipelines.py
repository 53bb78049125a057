"""The declarative pipeline of docs/spark-runtimes.md, run twice by Spark's own command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark.pipelines")
pytest.importorskip("grpc_status", reason="needs the packages of pyspark[pipelines]")
pytest.importorskip("zstandard", reason="needs the packages of pyspark[pipelines]")

import pyarrow.parquet as parquet

from tests.spark.fake_regions import Regions
from tests.spark.job_processes import ROOT, needs_java

RECIPE = ROOT / "docs" / "examples" / "pipeline"
DEADLINE_S = 240


def project(regions: Regions, directory: Path) -> None:
    """The recipe, with these regions and this directory instead of its own."""
    shutil.copytree(RECIPE, directory, ignore=shutil.ignore_patterns("__pycache__"))
    for name, documented, here in (
        ("spark-pipeline.yml", "file:///srv/pipelines/orders", f"file://{directory}/state"),
        ("transformations/orders.py", "10.0.0.5:7201,10.1.0.5:7201", regions.endpoints),
    ):
        text = (directory / name).read_text()
        assert text.count(documented) == 1
        (directory / name).write_text(text.replace(documented, here))


def run(directory: Path) -> None:
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = Path(sys.executable).parent / "spark-pipelines"
    # The first of these is of the page, the other one is for machines with few cores.
    settings = ("catalogImplementation=hive", "shuffle.partitions=1")
    words = [word for setting in settings for word in ("--conf", f"spark.sql.{setting}")]
    done = subprocess.run(
        [command, "run", *words], cwd=directory, env=environment, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def table(directory: Path, name: str, *columns: str) -> list[tuple[object, ...]]:
    rows = parquet.read_table(directory / "spark-warehouse" / name, columns=list(columns))
    return sorted(zip(*(rows[column].to_pylist() for column in columns), strict=True))


@needs_java
@pytest.mark.slow
@pytest.mark.timeout(2 * DEADLINE_S)
def test_a_pipeline_reads_and_writes_what_is_new(regions: Regions, tmp_path: Path) -> None:
    directory = tmp_path / "orders"
    project(regions, directory)
    regions[1].add("orders", [b"number", b"1", b"item", b"desk"], [b"number", b"2", b"item", b"lamp"])
    run(directory)
    assert table(directory, "orders", "number", "item") == [(1, "desk"), (2, "lamp")]
    regions[2].add("orders", [b"number", b"3", b"item", b"desk"])
    run(directory)
    assert table(directory, "orders", "number", "item") == [(1, "desk"), (2, "lamp"), (3, "desk")]
    assert table(directory, "items", "item", "count") == [("desk", 2), ("lamp", 1)]
    assert sorted(regions.values("copy")) == [b"1", b"2", b"3"]
