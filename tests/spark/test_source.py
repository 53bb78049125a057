"""The source in a real session, with the cases that only Spark's own planning, replays and checkpoints can make."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from crdtstream.spark.ack import AckListener, committed
from crdtstream.spark.offsets import to_json
from tests.spark.fake_regions import Regions, until
from tests.spark.support import FAST

DEADLINE_S = 90
Source = Callable[..., Any]


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def given(regions: Regions, **more: object) -> dict[str, str]:
    return {"endpoints": regions.endpoints, **FAST, **{name: str(value) for name, value in more.items()}}


def load(spark: Any, regions: Regions, **more: object) -> Any:
    return spark.read.format("crdtstream").options(**given(regions, **more)).load()


def stream(spark: Any, regions: Regions, **more: object) -> Any:
    options = given(regions, startingOffsets="earliest", **more)
    return spark.readStream.format("crdtstream").options(**options).load().selectExpr("'out' as stream", "fields")


def run(frame: Any, regions: Regions, checkpoint: Path, **more: object) -> Any:
    """To the end of what is available; the query, which may have failed."""
    writer = frame.writeStream.format("crdtstream").options(**given(regions, **more))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(DEADLINE_S), "the query does not end"
    except Exception as error:
        assert query.exception() is not None, error
    return query


def rows_read(query: Any) -> int:
    return sum(progress.numInputRows for progress in query.recentProgress)


def values(frame: Any) -> list[bytes]:
    return [row.value for row in frame.selectExpr("bytes(fields[0].value) as value").collect()]


def test_every_column_comes_as_spark_has_it(spark: Any, regions: Regions) -> None:
    regions[1].add("s", [b"f", b"1", b"g", b"\xff"])
    for fields_as, shown in (
        ("array", [(b"f", b"1"), (b"g", b"\xff")]),
        ("map", {b"f": b"1", b"g": b"\xff"}),
        ("json", '{"f": "1", "g": "\ufffd"}'),
    ):
        (row,) = load(spark, regions, streams="s", fieldsAs=fields_as, includeMetadata="true").collect()
        found = {bytes(k): bytes(v) for k, v in row.fields.items()} if fields_as == "map" else row.fields
        found = [(bytes(pair.field), bytes(pair.value)) for pair in row.fields] if fields_as == "array" else found
        assert found == shown
        assert (row.stream, row.id, row.origin, row.seq) == ("s", "1700000000001-1", "1.ab01", 1)
        assert (row.region, row.id_ms, row.id_seq, row.region_read) == (1, 1_700_000_000_001, 1, "region1")
    (row,) = load(spark, regions, streams="s").selectExpr("unix_millis(timestamp) as ms").collect()
    assert row.ms == 1_700_000_000_001


def test_two_actions_joins_and_filters_on_one_dataframe(spark: Any, regions: Regions) -> None:
    regions[1].add("s", *numbered(30))
    frame = load(spark, regions, streams="s")
    assert frame.where("seq <= 10").count() == 10
    assert frame.count() == 30
    assert frame.where("seq <= 10").join(frame.select("id"), "id").count() == 10
    assert load(spark, regions, streams="nothing").count() == 0


def test_a_session_finds_the_format_by_itself(spark: Any, regions: Regions) -> None:
    assert load(spark.newSession(), regions, streams="s").columns[0] == "stream"


def test_options_are_refused_with_what_to_do(spark: Any, regions: Regions) -> None:
    with pytest.raises(
        Exception, match="starting_offsets is not an option of crdtstream: did you mean startingOffsets"
    ):
        load(spark, regions, starting_offsets="latest").count()
    with pytest.raises(Exception, match="use passwordFile or passwordEnv"):
        load(spark, regions, streams="s", password="hush").count()
    using = f"USING crdtstream OPTIONS (endpoints '{regions.endpoints}', streams 's')"
    with pytest.raises(Exception, match="use CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE lost {using}")
    spark.sql(f"CREATE TEMPORARY VIEW found {using}")
    assert spark.table("found").count() == 0
    with pytest.raises(Exception, match="use mode append"):
        spark.range(1).selectExpr("'s' as stream", "id").write.format("crdtstream").options(**given(regions)).mode(
            "overwrite"
        ).save()


def test_a_batch_write(spark: Any, regions: Regions) -> None:
    frame = spark.range(1000).selectExpr("'s' as stream", "id as n")
    for _ in range(2):
        frame.write.format("crdtstream").options(**given(regions, txnAppId="job", txnVersion=3)).mode("append").save()
    assert sorted(regions.values("s"), key=int) == numbered(1000)


def test_a_query_goes_on_where_it_was_with_new_streams_and_origins(
    spark: Any, regions: Regions, tmp_path: Path
) -> None:
    regions[1].add("s1", *numbered(10))
    frame = stream(spark, regions, streamsPattern="s*", maxOffsetsPerTrigger=4)
    assert rows_read(run(frame, regions, tmp_path)) == 10
    regions[1].restart()
    regions[1].add("s1", *numbered(5, 10))
    regions[2].add("s1", *numbered(5, 15))
    regions[2].add("s2", *numbered(5, 20))
    regions.sync()
    query = run(frame, regions, tmp_path)
    assert query.exception() is None and rows_read(query) == 15
    assert sorted(regions.values("out"), key=int) == numbered(25)


def test_a_lost_commit_log_adds_nothing_twice(spark: Any, regions: Regions, tmp_path: Path) -> None:
    regions[1].add("s", *numbered(10))
    frame = stream(spark, regions, streams="s", maxOffsetsPerTrigger=5)
    run(frame, regions, tmp_path)
    last = max(int(path.name) for path in (tmp_path / "commits").glob("[0-9]*"))
    (tmp_path / "commits" / str(last)).unlink()
    (tmp_path / "commits" / f".{last}.crc").unlink()
    regions[1].add("s", *numbered(10, 10))
    published = regions[1].count("Publish")
    query = run(frame, regions, tmp_path)
    assert query.exception() is None and rows_read(query) == 15
    assert regions[1].count("Publish") == published + 3
    assert regions.values("out") == numbered(20)


def test_a_task_that_fails_is_run_again(spark: Any, regions: Regions, tmp_path: Path) -> None:
    regions[1].add("s", *numbered(100))
    frame = stream(spark, regions, streams="s", minPartitions=2)
    codes = [grpc.StatusCode.INVALID_ARGUMENT]
    regions[1].fail("Stage", *codes)
    query = run(frame, regions, tmp_path)
    assert query.exception() is None
    assert regions[1].count("Stage") == 3
    assert regions.values("out") == numbered(100)


def test_what_was_trimmed_before_it_was_read(spark: Any, regions: Regions, tmp_path: Path) -> None:
    regions[1].add("s", *numbered(10))
    run(stream(spark, regions, streams="s"), regions, tmp_path)
    last = regions[1].add("s", *numbered(10, 10))
    regions[1].trim("s", regions[1].origin, last - 5)
    failed = run(stream(spark, regions, streams="s"), regions, tmp_path)
    assert f"stream 's', origin 1.ab01, seq 11 to {last - 5}." in str(failed.exception())
    query = run(stream(spark, regions, streams="s", failOnDataLoss="false"), regions, tmp_path)
    assert query.exception() is None
    assert regions.values("out") == [*numbered(10), *numbered(5, 15)]


def test_a_region_that_is_down(spark: Any, regions: Regions, tmp_path: Path) -> None:
    regions[1].add("s", *numbered(5))
    regions.sync()
    regions[1].stop()
    regions[2].add("s", *numbered(5, 5))
    frame = stream(spark, regions, streams="s")
    assert rows_read(run(frame, regions, tmp_path, region="region2")) == 10
    regions[1].start()
    regions[1].add("s", *numbered(5, 10))
    regions.sync()
    assert rows_read(run(frame, regions, tmp_path, region="region2")) == 5
    assert sorted(regions.values("out"), key=int) == numbered(15)


def test_idle_triggers_make_no_batches_and_groups_follow(spark: Any, regions: Regions, tmp_path: Path) -> None:
    regions[1].add("s", *numbered(5))
    regions[2].add("s", *numbered(5, 5))
    regions.sync()
    options = given(regions, streams="s,absent", startingOffsets="earliest", ackGroup="g")
    listener = AckListener(options, query_name="idle")
    spark.streams.addListener(listener)
    frame = spark.readStream.format("crdtstream").options(**options).load().selectExpr("'out' as stream", "fields")
    writer = frame.writeStream.format("crdtstream").options(**given(regions)).queryName("idle")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        until(lambda: len(regions.values("out")) == 10, DEADLINE_S)
        asked = regions[1].count("Heads")
        until(lambda: regions[1].count("Heads") >= asked + 10)
        assert [path.name for path in (tmp_path / "offsets").glob("[0-9]*")] == ["0"]
        # Spark has told the source of no commit yet.
        until(lambda: (b"s", b"g") in {**regions[1].acknowledged, **regions[2].acknowledged})
        source = query.lastProgress["sources"][0]
        assert json.loads(source["latestOffset"] or source["endOffset"])["s"] == to_json(committed(str(tmp_path)))["s"]
    finally:
        query.stop()
        spark.streams.removeListener(listener)
