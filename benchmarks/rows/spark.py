"""Rows of the Spark data source: one region with its bulk port, and Spark on this machine.

Reads and writes are compared with Spark's own limit for the same rows: a source that generates them, into a sink that
discards them. A row warms Spark up before it measures.
"""

from __future__ import annotations

import os
import statistics
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.bench import Bench
from benchmarks.report.figures import AT_LEAST, AT_MOST, Result, Side, Target
from benchmarks.rows.bulk import TIMEOUT_S, stub_of
from benchmarks.servers import BenchmarkError, Region
from crdtstream.bulk import bulk_pb2

STREAMS = 8
TASKS = 4
WARM_ROWS = 20_000
BATCHES = 20
READ_TARGET = Target(AT_LEAST, 0.5)
WRITE_TARGET = Target(AT_LEAST, 300_000)
STREAM_TARGET = Target(AT_LEAST, 200_000)
OFFSET_TARGET = Target(AT_MOST, 8_192)


@contextmanager
def session(bench: Bench) -> Iterator[Any]:
    try:
        from benchmarks.load.generator import Generator
        from crdtstream.spark.session import start_session
    except ImportError as error:
        raise BenchmarkError(f"{error}: pip install 'crdtstream[spark]', and Java 17") from error
    # Workers import this package too.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(bench.tools()), os.environ.get("PYTHONPATH", "")])
    spark = start_session("crdtstream benchmarks")
    spark.dataSource.register(Generator)
    try:
        yield spark
    finally:
        spark.stop()


def seconds(run: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    run()
    return time.perf_counter() - began_s


def generated(spark: Any, rows: int) -> Any:
    return spark.read.format("generator").options(rows=rows, tasks=TASKS, streams=STREAMS).load()


def discard(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def load(spark: Any, server: Region, rows: int) -> None:
    writer = generated(spark, rows).drop("id").write.format("crdtstream").options(endpoints=server.bulk_address)
    writer.mode("append").save()


def count(spark: Any, rows: int) -> None:
    generated(spark, rows).drop("id").write.format("generator").mode("append").save()


def read(spark: Any, server: Region) -> Any:
    return spark.read.format("crdtstream").options(endpoints=server.bulk_address, streamsPattern="s*").load()


def rates(bench: Bench, rows: int, run: Callable[[], object]) -> list[float]:
    return [rows / seconds(run) for _ in range(bench.scale.repetitions)]


def side(values: Sequence[float]) -> Side:
    return Side(statistics.median(values), low=min(values), high=max(values))


def batch_read(bench: Bench, name: str) -> list[Result]:
    rows = bench.scale.spark_rows
    server = bench.region(bulk=True)
    with session(bench) as spark:
        load(spark, server, rows)
        discard(generated(spark, WARM_ROWS))
        discard(read(spark, server).limit(WARM_ROWS))
        floors = rates(bench, rows, lambda: discard(generated(spark, rows)))
        ours = rates(bench, rows, lambda: discard(read(spark, server)))
        streamed = rates(bench, rows, lambda: stream(spark, server, bench))
    floor = statistics.median(floors)
    shares = side([rate / floor for rate in ours])
    return [
        Result(name, "Spark batch read, of what Spark reaches alone", "", shares, target=READ_TARGET),
        Result(f"{name}-rows", "Spark batch read", "rows/s", side(ours), details={"floor": floor}),
        Result(f"{name}-stream", "Spark streaming read, AvailableNow", "rows/s", side(streamed), target=STREAM_TARGET),
    ]


def stream(spark: Any, server: Region, bench: Bench) -> None:
    options = {"endpoints": server.bulk_address, "streamsPattern": "s*", "startingOffsets": "earliest"}
    query = spark.readStream.format("crdtstream").options(**options).load().writeStream.format("noop")
    state = bench.directory / f"checkpoint-{time.monotonic_ns()}"
    query.option("checkpointLocation", str(state)).trigger(availableNow=True).start().awaitTermination()


def batch_write(bench: Bench, name: str) -> list[Result]:
    rows = bench.scale.spark_rows
    server = bench.region(bulk=True)
    with session(bench) as spark:
        load(spark, server, WARM_ROWS)
        count(spark, WARM_ROWS)
        floors = rates(bench, rows, lambda: count(spark, rows))
        ours = rates(bench, rows, lambda: load(spark, server, rows))
    floor = statistics.median(floors)
    shares = side([rate / floor for rate in ours])
    return [
        Result(
            name, "Spark batch write, exactly once", "rows/s", side(ours), target=WRITE_TARGET, details={"floor": floor}
        ),
        Result(f"{name}-share", "Spark batch write, of what a sink in Python reaches that only counts", "", shares),
    ]


def micro_batches(bench: Bench, name: str) -> list[Result]:
    """Measure a micro-batch with one new entry, from its trigger to its commit."""
    server = bench.region(bulk=True)
    server.ask("XADD", "s0", "*", "field", "value")
    progress = batches_of(bench, server, streams="s0")
    return [Result(name, "Spark micro-batch of one entry", "ms", side(durations_ms(progress)))]


def many_streams(bench: Bench, name: str) -> list[Result]:
    """The same beside many streams without new entries, and what the offset then takes in the checkpoint."""
    server, count = bench.region(bulk=True), bench.scale.spark_streams
    with stub_of(server) as stub:
        stub.Write(iter([rows_of_streams(count)]), timeout=TIMEOUT_S)
    progress = batches_of(bench, server, streamsPattern="s*", discoveryIntervalMs="0")
    offsets = [len(each["sources"][0]["endOffset"]) for each in progress]
    streams = f"{count:,} streams"
    return [
        Result(name, f"Spark micro-batch of one entry, of {streams}", "ms", side(durations_ms(progress))),
        Result(f"{name}-offset", f"Spark offset of {streams}", "bytes", side(offsets), target=OFFSET_TARGET),
    ]


def rows_of_streams(count: int) -> bulk_pb2.Rows:
    """One row for each stream."""
    row = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
    return bulk_pb2.Rows(
        streams=[b"s%d" % number for number in range(count)],
        stream_of=array("I", range(count)).tobytes(),
        count=count,
        ends=array("I", range(len(row), (count + 1) * len(row), len(row))).tobytes(),
        data=row * count,
    )


def batches_of(bench: Bench, server: Region, **given: str) -> list[dict[str, Any]]:
    """Return the progress of micro-batches with one new entry of stream s0 each."""
    with session(bench) as spark:
        options = {"endpoints": server.bulk_address, "startingOffsets": "earliest", **given}
        frame = spark.readStream.format("crdtstream").options(**options).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(bench.directory / "checkpoint"))
        query = writer.start()
        query.processAllAvailable()
        for _ in range(BATCHES):
            server.ask("XADD", "s0", "*", "field", "value")
            query.processAllAvailable()
        progress = [each for each in query.recentProgress if each["numInputRows"]]
        query.stop()
    return progress[-BATCHES:]


def durations_ms(progress: list[dict[str, Any]]) -> list[float]:
    return [each["durationMs"]["triggerExecution"] for each in progress]
