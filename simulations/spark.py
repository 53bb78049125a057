"""A sweep on Spark executors: the same runs, with their outcomes as Parquet.

The columns are `seed`, `violation`, `trace`, which only a failed run has, and two maps, `injected` and `statistics`. A
task runs many seeds one after the other. A run depends on nothing but its seed, so place and order do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql import SparkSession

from crdtstream.spark.session import start_session
from crdtstream.spark.shipping import ship
from simulations.sweeping import Outcome, run_seed

SEEDS_A_BATCH = 16
TASKS_A_CORE = 4
SCHEMA = (
    "seed bigint, violation string, injected map<string, bigint>, statistics map<string, bigint>, trace array<string>"
)


def sweep(master: str, first: int, seeds: int, out: Path) -> Iterator[Outcome]:
    """Run the seeds, write their outcomes to `out`, and read them from there in the order of the seeds."""
    spark = start_session("crdtstream sweep", master)
    ship(spark, "crdtstream", "simulations")
    tasks = max(1, min(seeds, TASKS_A_CORE * spark.sparkContext.defaultParallelism))
    numbers = spark.range(first, first + seeds, 1, tasks)
    numbers.mapInArrow(run_batches, SCHEMA).write.parquet(out.absolute().as_uri())
    yield from read(spark, out)


def read(spark: SparkSession, out: Path) -> Iterator[Outcome]:
    for row in spark.read.parquet(out.absolute().as_uri()).orderBy("seed").toLocalIterator():
        yield Outcome(row.seed, row.violation, row.injected, row.statistics, tuple(row.trace))


def run_batches(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Run in an executor: yields one row for each seed, a few at a time, so that the traces of failed runs do not pile
    up.
    """
    schema = arrow_schema()
    for batch in batches:
        seeds = batch.column(0).to_pylist()
        for at in range(0, len(seeds), SEEDS_A_BATCH):
            rows = [row_of(run_seed(seed)) for seed in seeds[at : at + SEEDS_A_BATCH]]
            yield pyarrow.RecordBatch.from_pylist(rows, schema)


def row_of(outcome: Outcome) -> dict[str, Any]:
    return {
        "seed": outcome.seed,
        "violation": outcome.violation,
        "injected": list(outcome.injected.items()),
        "statistics": list(outcome.statistics.items()),
        "trace": list(outcome.trace),
    }


def arrow_schema() -> pyarrow.Schema:
    counts = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    return pyarrow.schema(
        [
            ("seed", pyarrow.int64()),
            ("violation", pyarrow.string()),
            ("injected", counts),
            ("statistics", counts),
            ("trace", pyarrow.list_(pyarrow.string())),
        ]
    )
