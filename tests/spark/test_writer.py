"""Writers, called as Spark calls them: a pickled copy for each task, another one for the commit."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from crdtstream.spark import writer as writer_module
from crdtstream.spark.options import OptionError
from crdtstream.spark.regions import BulkError
from crdtstream.spark.rows import RowError
from crdtstream.spark.writer import BatchWriter, StreamWriter
from tests.spark.fake_regions import Regions
from tests.spark.support import options

FLAT = StructType([StructField("stream", StringType()), StructField("f", StringType())])


class FakeContext:
    """What a task is told."""

    def __init__(self) -> None:
        self.partition = 0
        self.properties = {"streaming.sql.batchId": "0", "sql.streaming.queryId": "query"}

    def partitionId(self) -> int:
        return self.partition

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> FakeContext:
    made = FakeContext()
    monkeypatch.setattr(writer_module, "context", lambda: made)
    return made


def batch_writer(regions: Regions, **given: object) -> BatchWriter:
    return BatchWriter(options(regions, **given), FLAT, False)


def stream_writer(regions: Regions, **given: object) -> StreamWriter:
    return StreamWriter(options(regions, **given), FLAT, False)


def rows(*values: str) -> Iterator[pa.RecordBatch]:
    for value in values:
        yield pa.record_batch({"stream": ["s"], "f": [value]})


def run_tasks(task: FakeContext, writer: Any, *partitions: list[str]) -> list[Any]:
    """The commit messages of these partitions, as they come back from the executors."""
    messages = []
    for number, values in enumerate(partitions):
        task.partition = number
        copy = pickle.loads(pickle.dumps(writer))
        messages.append(pickle.loads(pickle.dumps(copy.write(rows(*values)))))
    return messages


def test_a_batch_is_there_after_its_commit_and_once(regions: Regions, task: FakeContext) -> None:
    writer = batch_writer(regions, txnAppId="job", txnVersion=0)
    messages = run_tasks(task, writer, ["a", "b"], [], ["c"])
    assert regions.values("s") == []
    copy = pickle.loads(pickle.dumps(writer))
    copy.commit(messages[::-1])
    copy.commit(messages)
    assert regions.values("s") == [b"a", b"b", b"c"]
    assert regions[1].stages == {} and regions[2].count("Stage") == 0


def test_writes_without_a_name_are_different_ones(regions: Regions, task: FakeContext) -> None:
    for _ in range(2):
        writer = batch_writer(regions)
        writer.commit(run_tasks(task, writer, ["a"]))
    assert regions.values("s") == [b"a", b"a"]


def test_a_write_without_a_name_leaves_no_ledger(regions: Regions, task: FakeContext) -> None:
    """An answer that is lost is asked for again, so the ledger leaves only once the writer knows of it."""
    regions[1].fail("Publish", grpc.StatusCode.DEADLINE_EXCEEDED)
    writer = batch_writer(regions)
    writer.commit(run_tasks(task, writer, ["a"]))
    assert (regions.values("s"), regions[1].published) == ([b"a"], {})
    empty = batch_writer(regions)
    calls = len(regions[1].calls)
    empty.commit(run_tasks(task, empty, []))
    assert "Discard" not in regions[1].calls[calls:]


def test_a_ledger_that_cannot_leave_does_not_fail_the_write(regions: Regions, task: FakeContext) -> None:
    regions[1].fail("Discard", *[grpc.StatusCode.UNAVAILABLE] * 10)
    writer = batch_writer(regions)
    writer.commit(run_tasks(task, writer, ["a"]))
    assert regions.values("s") == [b"a"] and len(regions[1].published) == 1


def test_writes_with_a_name_and_version_are_done_once(regions: Regions, task: FakeContext) -> None:
    for version in (4, 4, 5):
        writer = batch_writer(regions, txnAppId="job", txnVersion=version)
        writer.commit(run_tasks(task, writer, [str(version)]))
    assert regions.values("s") == [b"4", b"5"]


@pytest.mark.parametrize(("version", "text"), [(5, "was published with others"), (3, "a later batch was begun")])
def test_other_rows_under_a_published_version_are_refused_or_left_out(
    regions: Regions, task: FakeContext, caplog: pytest.LogCaptureFixture, version: int, text: str
) -> None:
    def write(value: str, version: int, **given: object) -> None:
        writer = batch_writer(regions, txnAppId="job", txnVersion=version, **given)
        writer.commit(run_tasks(task, writer, [value, "x"]))

    write("4", 5)
    with pytest.raises(BulkError, match=text):
        write("others", version)
    write("others", version, skipPublished="true")
    assert regions.values("s") == [b"4", b"x"]
    assert f"batch {version} of job, or a later one, was published before: its 2 rows are left out" in caplog.text


def test_a_checkpoint_that_was_deleted_does_not_lose_rows(regions: Regions, task: FakeContext) -> None:
    """A query with a fixed name begins again with batch 0, and has other rows."""
    for batch in ("0", "1"):
        task.properties["streaming.sql.batchId"] = batch
        stream_writer(regions).commit(run_tasks(task, stream_writer(regions, txnAppId="job"), [batch]), int(batch))
    task.properties["streaming.sql.batchId"] = "0"
    with pytest.raises(BulkError, match="a later batch was begun"):
        stream_writer(regions).commit(run_tasks(task, stream_writer(regions, txnAppId="job"), ["new"]), 0)
    assert regions.values("s") == [b"0", b"1"]


def test_a_micro_batch_that_is_replayed_adds_nothing(regions: Regions, task: FakeContext) -> None:
    for batch in ("0", "0", "1"):
        task.properties["streaming.sql.batchId"] = batch
        messages = run_tasks(task, stream_writer(regions), [batch], [batch + "b"])
        stream_writer(regions).commit(messages, int(batch))
    assert regions.values("s") == [b"0", b"0b", b"1", b"1b"]
    assert regions[1].published == {"query": 1}


def test_a_task_that_runs_twice_counts_once(regions: Regions, task: FakeContext) -> None:
    writer = stream_writer(regions, txnAppId="job")
    run_tasks(task, writer, ["lost"])
    writer.commit(run_tasks(task, writer, ["kept"]), 0)
    assert regions.values("s") == [b"kept"]
    assert regions[1].published == {"job": 0}


def test_abort_discards(regions: Regions, task: FakeContext) -> None:
    writer = stream_writer(regions)
    messages = run_tasks(task, writer, ["a"])
    writer.abort([None, *messages], 0)
    assert regions[1].stages == {}
    writer.abort([None], 0)
    batch = batch_writer(regions)
    run_tasks(task, batch, ["a"])
    batch.abort([None])
    assert regions[1].stages == {} and regions.values("s") == []
    regions[1].stop()
    batch.abort([None])


def test_the_region_that_publishes_is_the_first_or_the_one_that_is_named(regions: Regions, task: FakeContext) -> None:
    for given, number in (({}, 1), ({"region": "region2"}, 2), ({"region": "2"}, 2)):
        writer = batch_writer(regions, **given)
        writer.commit(run_tasks(task, writer, ["a"]))
        assert [call for call in regions[number].calls if call != "Describe"][-2:] == ["Publish", "Discard"]
    with pytest.raises(BulkError, match="region 7 answers at none of the endpoints"):
        run_tasks(task, batch_writer(regions, region="7"), ["a"])


def test_exactly_once_never_turns_to_another_region(regions: Regions, task: FakeContext) -> None:
    regions[1].stop()
    with pytest.raises(BulkError, match="the only region to which this sink publishes: UNAVAILABLE"):
        run_tasks(task, batch_writer(regions), ["a"])
    assert set(regions[2].calls) == {"Describe"}, "it is asked how many shards there are, and nothing else"


def test_calls_that_fail_for_a_moment_are_repeated(regions: Regions, task: FakeContext) -> None:
    regions[1].fail("Stage", grpc.StatusCode.UNAVAILABLE)
    regions[1].fail("Publish", grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    writer = batch_writer(regions)
    writer.commit(run_tasks(task, writer, ["a", "b"]))
    assert regions.values("s") == [b"a", b"b"]


def test_a_stage_that_is_gone_fails_the_commit(regions: Regions, task: FakeContext) -> None:
    writer = batch_writer(regions)
    messages = run_tasks(task, writer, ["a"])
    regions[1].restart()
    with pytest.raises(BulkError, match="ABORTED: a stage is not there any more"):
        writer.commit(messages)


def test_at_least_once_writes_at_once_and_anywhere(regions: Regions, task: FakeContext) -> None:
    regions[1].stop()
    writer = stream_writer(regions, delivery="at-least-once")
    messages = run_tasks(task, writer, ["a"])
    assert regions.values("s") == [b"a"]
    writer.commit(messages, 0)
    writer.abort(messages, 0)
    assert regions.values("s") == [b"a"]
    assert not {"Stage", "Publish", "Discard"} & set(regions[2].calls)


def test_at_least_once_bounds_what_it_holds(
    regions: Regions, task: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "CALL_BYTES", 40)
    run_tasks(task, stream_writer(regions, delivery="at-least-once"), ["a", "b", "c", "d", "e"])
    assert regions[1].count("Write") == 2
    assert regions.values("s") == [b"a", b"b", b"c", b"d", b"e"]


def test_a_spark_that_does_not_tell_the_batch_is_refused(regions: Regions, task: FakeContext) -> None:
    task.properties = {}
    with pytest.raises(OptionError, match="use foreachBatch with txnAppId"):
        stream_writer(regions).write(rows("a"))


def test_what_cannot_work_is_refused_before_any_row(regions: Regions) -> None:
    with pytest.raises(OptionError, match="use mode append"):
        BatchWriter(options(regions), FLAT, True)
    with pytest.raises(OptionError, match="txnAppId and txnVersion belong together"):
        batch_writer(regions, txnAppId="a")
    with pytest.raises(OptionError, match="txnVersion is for batches"):
        stream_writer(regions, txnVersion=1)
    with pytest.raises(RowError, match="no column stream"):
        BatchWriter(options(regions), StructType([StructField("f", StringType())]), False)


NESTED = {
    "flat array": ("f", ArrayType(StringType()), "column f holds list"),
    "flat map": ("f", MapType(StringType(), StringType()), "column f holds map"),
    "flat struct": ("f", StructType([StructField("a", StringType())]), "column f holds struct"),
    "array of texts as fields": ("fields", ArrayType(StringType()), "column fields has type list"),
    "struct of three as fields": (
        "fields",
        ArrayType(StructType([StructField(name, StringType()) for name in "abc"])),
        "column fields has type list",
    ),
    "map of arrays as fields": ("fields", MapType(StringType(), ArrayType(StringType())), "column fields holds list"),
    "nested id": ("id", ArrayType(StringType()), "column id holds list"),
    "nested stream": ("stream", ArrayType(StringType()), "column stream holds list"),
}


@pytest.mark.parametrize(("name", "kind", "text"), NESTED.values(), ids=NESTED)
def test_a_column_that_cannot_be_a_field_is_refused_when_planned(
    regions: Regions, name: str, kind: DataType, text: str
) -> None:
    schema = StructType([StructField("other", StringType()), StructField(name, kind)])
    if name == "fields":
        schema = StructType([StructField(name, kind)])
    for writer in (BatchWriter, StreamWriter):
        with pytest.raises(RowError, match=text):
            writer(options(regions, stream="s"), schema, False)


@pytest.mark.parametrize(
    "kind",
    [
        StringType(),
        BinaryType(),
        MapType(StringType(), LongType()),
        ArrayType(StructType([StructField("k", StringType()), StructField("v", DoubleType())])),
    ],
    ids=str,
)
def test_every_form_of_fields_is_planned(regions: Regions, kind: DataType) -> None:
    BatchWriter(options(regions, stream="s"), StructType([StructField("fields", kind)]), False)


PLAIN = [
    BooleanType(),
    ByteType(),
    DateType(),
    DecimalType(20, 5),
    DoubleType(),
    LongType(),
    TimestampNTZType(),
    TimestampType(),
]


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_every_plain_column_is_planned(regions: Regions, kind: DataType) -> None:
    BatchWriter(options(regions, stream="s"), StructType([StructField("f", kind)]), False)
