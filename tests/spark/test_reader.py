"""Readers, called as Spark calls them; `test_source.py` has the same with a JVM."""

from __future__ import annotations

import json
import time
from typing import Any

import grpc
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from crdtstream.spark.losses import DataLoss
from crdtstream.spark.offsets import origin_text
from crdtstream.spark.options import OptionError
from crdtstream.spark.reader import MissingStream
from crdtstream.spark.regions import BulkError
from tests.spark.fake_regions import Regions
from tests.spark.support import batch_reader, rows_of, stream_reader, values_of

ALL = ReadAllAvailable()


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def read_all(reader: Any) -> list[bytes]:
    return values_of(rows_of(reader, reader.partitions()))


def step(reader: Any, start: dict[str, Any], limit: Any = ALL) -> tuple[dict[str, Any], list[bytes]]:
    """One micro-batch: its end, and what it read."""
    end = json.loads(json.dumps(reader.latestOffset(start, limit)))
    return end, values_of(rows_of(reader, reader.partitions(start, end)))


def test_a_batch_reads_all_entries_of_all_origins(regions: Regions) -> None:
    regions[1].add("s", *numbered(10), skip=2)
    regions[2].add("s", *numbered(5, 10))
    regions[2].add("other", b"no")
    regions.sync()
    rows = rows_of(reader := batch_reader(regions, streams="s"), reader.partitions())
    assert sorted(values_of(rows), key=int) == numbered(15)
    assert {row["origin"] for row in rows} == {origin_text(regions[1].origin), origin_text(regions[2].origin)}
    assert [row["seq"] for row in rows[:2]] == [3, 6]
    assert rows[0]["id"] == "1700000000001-1" and rows[0]["timestamp"].timestamp() == 1_700_000_000.001
    assert {row["stream"] for row in rows} == {"s"}


def test_a_batch_ends_where_it_was_planned(regions: Regions) -> None:
    regions[1].add("s", *numbered(3))
    reader = batch_reader(regions, streams="s")
    tasks = reader.partitions()
    regions[1].add("s", b"late")
    assert values_of(rows_of(reader, tasks)) == numbered(3)


def test_an_empty_range_has_no_tasks(regions: Regions) -> None:
    reader = batch_reader(regions, streams="nothing")
    assert reader.partitions() == []
    assert list(reader.read(None)) == []


def test_a_pattern_names_streams(regions: Regions) -> None:
    for name in ("a1", "a2", "b1"):
        regions[1].add(name, name.encode())
    assert read_all(batch_reader(regions, streamsPattern="a*")) == [b"a1", b"a2"]


def test_positions_and_times_bound_a_batch(regions: Regions) -> None:
    regions[1].add("s", *numbered(10))
    regions[2].add("s", *numbered(10, 10))
    regions.sync()
    one, two = origin_text(regions[1].origin), origin_text(regions[2].origin)
    given = batch_reader(
        regions,
        streams="s",
        startingOffsets=json.dumps({"s": {one: 3, two: -1}}),
        endingOffsets=json.dumps({"s": {one: 5}}),
    )
    assert read_all(given) == numbered(2, 3)
    by_time = batch_reader(regions, streams="s", startingTimestamp=1_700_000_000_009, endingTimestamp=1_700_000_000_012)
    assert read_all(by_time) == numbered(3, 8)


@pytest.mark.parametrize("fields_as", ["array", "map", "json"])
def test_metadata_and_forms_of_fields(regions: Regions, fields_as: str) -> None:
    regions[1].add("s", [b"a", b"1", b"b", b"x\ny"])
    reader = batch_reader(regions, streams="s", fieldsAs=fields_as, includeMetadata="true", region="region2")
    regions.sync()
    (row,) = rows_of(reader, reader.partitions())
    forms = {
        "array": [{"field": b"a", "value": b"1"}, {"field": b"b", "value": b"x\ny"}],
        "map": [(b"a", b"1"), (b"b", b"x\ny")],
        "json": '{"a": "1", "b": "x\\u000ay"}',
    }
    assert row["fields"] == forms[fields_as]
    assert (row["region"], row["id_ms"], row["id_seq"], row["region_read"]) == (1, 1_700_000_000_001, 1, "region2")


def test_tasks_are_cut_and_packed(regions: Regions) -> None:
    for stream in range(20):
        regions[1].add(f"s{stream:02}", *numbered(50, 50 * stream))
    reader = batch_reader(regions, streamsPattern="*", minPartitions=4)
    tasks = reader.partitions()
    assert len(tasks) == 4
    sizes = [len(rows_of(reader, [task])) for task in tasks]
    assert sum(sizes) == 1000 and min(sizes) >= 200
    assert values_of(rows_of(reader, tasks)) == numbered(1000)
    assert len(batch_reader(regions, streamsPattern="*", maxPartitions=1).partitions()) == 1
    one = batch_reader(regions, streams="s00", minPartitions=10)
    assert len(one.partitions()) == 10
    assert read_all(one) == numbered(50)


def test_a_region_that_is_down_slows_nothing(regions: Regions) -> None:
    regions[1].add("s", *numbered(3))
    regions.sync()
    regions[1].stop()
    began = time.monotonic()
    assert read_all(batch_reader(regions, streams="s")) == numbered(3)
    assert time.monotonic() - began < 3


def test_a_region_that_hangs_costs_one_short_timeout(regions: Regions) -> None:
    regions[1].add("s", *numbered(3))
    regions.sync()
    reader = batch_reader(regions, streams="s")
    with regions[1].hanging():
        began = time.monotonic()
        assert read_all(reader) == numbered(3)
        first = time.monotonic() - began
        assert read_all(reader) == numbered(3)
        assert time.monotonic() - began - first < 0.5 < first < 3


@pytest.mark.parametrize(
    ("code", "reads"), [(grpc.StatusCode.UNAVAILABLE, [1, 1]), (grpc.StatusCode.DEADLINE_EXCEEDED, [2, 0])]
)
def test_a_read_that_ends_early_goes_on(regions: Regions, code: grpc.StatusCode, reads: list[int]) -> None:
    """In another region, but in the same one where only the time was up."""
    regions[1].entries_each = regions[2].entries_each = 10
    regions[1].add("s", *numbered(100))
    regions.sync()
    reader = batch_reader(regions, streams="s", region="1", maxPartitions=1)
    tasks = reader.partitions()
    fail_in_the_middle(regions[1], code)
    assert values_of(rows_of(reader, tasks)) == numbered(100)
    assert [regions[1].count("Read"), regions[2].count("Read")] == reads


def fail_in_the_middle(region: Any, code: grpc.StatusCode) -> None:
    """The first message of the first call is served, the second one ends it."""
    enter = region.enter

    def once(call: str, context: Any) -> None:
        enter(call, context)
        if call == "Read" and region.count("Read") == 1:
            region.fail("Read", code)

    region.enter = once


def test_a_region_that_is_behind_is_not_asked(regions: Regions) -> None:
    regions[1].add("s", *numbered(3))
    assert read_all(batch_reader(regions, streams="s", region="2")) == numbered(3)
    assert regions[2].count("Read") == 0


def test_nobody_who_has_an_interval_is_an_error_that_says_who_has_what(regions: Regions) -> None:
    regions[1].add("s", *numbered(3))
    reader = batch_reader(regions, streams="s")
    tasks = reader.partitions()
    regions[1].stop()
    with pytest.raises(BulkError, match=r"no region that answers has applied origin 1\.ab01 up to 3.*is at 0"):
        rows_of(reader, tasks)


def test_a_wrong_password_is_said_at_once(regions: Regions, monkeypatch: pytest.MonkeyPatch) -> None:
    regions.password = "right"
    monkeypatch.setenv("BULK_PASSWORD", "wrong")
    reader = batch_reader(regions, streams="s", passwordEnv="BULK_PASSWORD")
    with pytest.raises(BulkError, match="UNAUTHENTICATED: wrong password"):
        reader.partitions()
    monkeypatch.setenv("BULK_PASSWORD", "right")
    assert reader.partitions() == []


# Streaming


def test_a_query_reads_each_entry_once(regions: Regions) -> None:
    regions[1].add("s", *numbered(5))
    reader = stream_reader(regions, streams="s", startingOffsets="earliest")
    offset = reader.initialOffset()
    offset, first = step(reader, offset)
    regions[2].add("s", *numbered(5, 5))
    regions[1].add("s", *numbered(5, 10))
    regions.sync()
    offset, second = step(reader, offset)
    assert first == numbered(5)
    assert sorted(second, key=int) == numbered(10, 5)
    assert step(reader, offset) == (offset, [])


def test_a_new_query_begins_at_the_latest(regions: Regions) -> None:
    regions[1].add("s", *numbered(5))
    reader = stream_reader(regions, streams="s")
    offset = reader.initialOffset()
    assert step(reader, offset)[1] == []
    regions[1].add("s", b"new")
    assert step(reader, offset)[1] == [b"new"]


def test_offsets_that_name_no_stream_begin_at_the_earliest(regions: Regions) -> None:
    regions[1].add("s", b"1", b"2")
    assert stream_reader(regions, streams="s", startingOffsets="{}").initialOffset() == {
        "s": {origin_text(regions[1].origin): 0}
    }


def test_new_streams_and_origins_begin_at_the_earliest(regions: Regions) -> None:
    regions[1].add("s1", *numbered(5))
    reader = stream_reader(regions, streamsPattern="s*")
    offset = reader.initialOffset()
    regions[1].restart()
    regions[1].add("s1", *numbered(2, 5))
    regions[2].add("s2", *numbered(2, 7))
    offset, values = step(reader, offset)
    assert sorted(values) == numbered(4, 5)
    assert len(offset["s1"]) == 2


def test_offsets_are_stable_and_never_fall(regions: Regions) -> None:
    regions[1].add("s", *numbered(5))
    regions[2].add("s", *numbered(5, 5))
    regions.sync()
    patient = {"fetchOffset.retryIntervalMs": "100", "fetchOffset.numRetries": "6"}
    reader = stream_reader(regions, streams="s,absent", startingOffsets="earliest", **patient)
    offset = reader.latestOffset(reader.initialOffset(), ALL)
    text = json.dumps(offset)
    assert text == json.dumps(offset, sort_keys=True)
    assert set(offset) == {"absent", "s"}
    for number in (1, 2):
        regions[number].stop()
        assert json.dumps(reader.latestOffset(json.loads(text), ALL)) == text
        regions[number].start()
    regions[1].applied.clear()
    regions[2].applied.clear()
    other = stream_reader(regions, streams="s,absent")
    with pytest.raises(DataLoss, match="names origins that no region knows"):
        other.latestOffset(json.loads(text), ALL)
    lenient = stream_reader(regions, streams="s,absent", failOnDataLoss="false")
    assert json.dumps(lenient.latestOffset(json.loads(text), ALL)) == text


def test_a_stream_that_is_missing_is_told_and_on_request_refused(
    regions: Regions, caplog: pytest.LogCaptureFixture
) -> None:
    regions[1].add("orders", *numbered(5))
    assert read_all(batch_reader(regions, streams="orders")) == numbered(5) and not caplog.text
    assert read_all(batch_reader(regions, streams="ordres")) == []
    assert "no region that answers has 'ordres': is it misspelt?" in caplog.text
    refused = {"streams": "orders,ordres", "failOnMissingStream": "true"}
    with pytest.raises(MissingStream, match="'ordres'"):
        batch_reader(regions, **refused).partitions()
    with pytest.raises(MissingStream, match="'ordres'"):
        stream_reader(regions, **refused).initialOffset()
    with pytest.raises(MissingStream, match="'ordres'"):
        stream_reader(regions, **refused).latestOffset({}, ALL)
    with pytest.raises(MissingStream, match="'n\\*'"):
        batch_reader(regions, streamsPattern="n*", failOnMissingStream="true").partitions()
    regions[1].make("empty")
    assert batch_reader(regions, streams="empty", failOnMissingStream="true").partitions() == []


def test_idle_triggers_ask_the_regions_seldom(regions: Regions) -> None:
    regions[1].add("s", *numbered(5))
    reader = stream_reader(regions, streams="s", discoveryIntervalMs="60000")
    offset = reader.latestOffset({}, ALL)
    reader.latestOffset(offset, ALL)
    asked = regions[1].count("Heads")
    for _ in range(100):
        assert reader.latestOffset(offset, ALL) == offset
    assert regions[1].count("Heads") == asked == 2
    reader.latestOffset(offset, ReadMaxRows(1))
    assert regions[1].count("Heads") == 3


def test_a_limit_is_shared_fairly(regions: Regions) -> None:
    regions[1].add("big", *numbered(1000))
    regions[1].add("small", *numbered(5, 1000))
    regions[2].add("big", *numbered(1000, 2000))
    regions.sync()
    reader = stream_reader(regions, streams="big,small", startingOffsets="earliest", maxOffsetsPerTrigger=105)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(105)
    offset, values = step(reader, reader.initialOffset(), limit)
    numbers = sorted(map(int, values))
    assert numbers == [*range(50), *range(1000, 1005), *range(2000, 2050)]
    seen = len(values)
    while seen < 2005:
        offset, values = step(reader, offset, limit)
        assert 0 < len(values) <= 105
        seen += len(values)
    assert step(reader, offset, limit) == (offset, [])


def test_available_now_ends_where_it_began(regions: Regions) -> None:
    regions[1].add("s1", *numbered(10))
    reader = stream_reader(regions, streamsPattern="s*", startingOffsets="earliest", maxOffsetsPerTrigger=7)
    reader.prepareForTriggerAvailableNow()
    offset = reader.initialOffset()
    regions[1].add("s1", b"late")
    regions[2].add("s2", b"late")
    seen: list[bytes] = []
    while True:
        end, values = step(reader, offset, reader.getDefaultReadLimit())
        if end == offset:
            break
        offset, seen = end, seen + values
    assert seen == numbered(10)


def test_a_batch_is_planned_and_read_again_as_it_was(regions: Regions) -> None:
    regions[1].add("s", *numbered(500))
    reader = stream_reader(regions, streams="s", startingOffsets="earliest", minPartitions=3)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    first = [rows_of(reader, [task]) for task in reader.partitions(start, end)]
    regions[1].add("s", *numbered(5000, 500))
    regions.sync()
    regions[1].stop()
    again = stream_reader(regions, streams="s", minPartitions=3)
    second = [rows_of(again, [task]) for task in again.partitions(start, end)]
    assert len(first) == 3
    assert first == second


def test_what_was_trimmed_fails_or_is_left_out(regions: Regions) -> None:
    regions[1].add("s", *numbered(10))
    strict = stream_reader(regions, streams="s", startingOffsets="earliest")
    start = strict.initialOffset()
    end = strict.latestOffset(start, ALL)
    regions[1].trim("s", regions[1].origin, 4)
    with pytest.raises(DataLoss, match=r"stream 's', origin 1\.ab01, seq 1 to 4.*failOnDataLoss"):
        strict.partitions(start, end)
    lenient = stream_reader(regions, streams="s", failOnDataLoss="false")
    assert values_of(rows_of(lenient, lenient.partitions(start, end))) == numbered(6, 4)
    assert read_all(batch_reader(regions, streams="s")) == numbered(6, 4)


def test_what_is_trimmed_between_plan_and_task_fails(regions: Regions) -> None:
    regions[1].add("s", *numbered(10))
    reader = batch_reader(regions, streams="s")
    tasks = reader.partitions()
    regions[1].trim("s", regions[1].origin, 4)
    with pytest.raises(DataLoss, match="seq 1 to 4"):
        rows_of(reader, tasks)


def test_gaps_and_removals_are_no_loss(regions: Regions) -> None:
    regions[1].add("s", *numbered(10), skip=3)
    regions[1].remove("s", regions[1].origin, 4, 8)
    assert read_all(batch_reader(regions, streams="s")) == numbered(8, 2)


def test_lag_is_reported(regions: Regions) -> None:
    regions[1].add("s", *numbered(10))
    reader = stream_reader(regions, streams="s", startingOffsets="earliest", maxOffsetsPerTrigger=3)
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert reader.reportLatestOffset() == {"s": {"1.ab01": 10}}


def test_a_committed_vector_moves_the_group(regions: Regions) -> None:
    regions[1].add("s", *numbered(10))
    reader = stream_reader(regions, streams="s", startingOffsets="earliest", ackGroup="g")
    reader.commit(reader.latestOffset(reader.initialOffset(), ALL))
    assert regions[1].acknowledged[b"s", b"g"] == {regions[1].origin: 10}
    for region in regions.regions:
        region.stop()
    reader.commit({"s": {"1.ab01": 10}})


def test_a_group_is_moved_where_the_entries_are(regions: Regions) -> None:
    regions[1].add("s", b"1")
    regions[2].add("s", b"2")
    reader = stream_reader(regions, streams="s", startingOffsets="earliest", ackGroup="g", region="1")
    reader.commit(reader.latestOffset(reader.initialOffset(), ALL))
    assert regions[1].acknowledged[b"s", b"g"] == {regions[1].origin: 1}
    assert regions[2].acknowledged[b"s", b"g"] == {regions[2].origin: 1}
    # What no region has any more holds nothing up.
    reader.commit({"s": {"9.99": 5, "1.ab01": 1}})


def test_names_that_are_no_text_are_kept(regions: Regions) -> None:
    regions[1].add(b"s\xff", b"1")
    reader = stream_reader(regions, streamsPattern="s*", startingOffsets="earliest")
    offset = json.loads(json.dumps(reader.latestOffset(reader.initialOffset(), ALL)))
    (row,) = rows_of(reader, reader.partitions({}, offset))
    assert row["stream"] == "s\\xff"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "neither streams nor streamsPattern"),
        ({"streams": "s", "startingOffsets": "latest"}, "a batch would read nothing"),
        ({"streams": "s", "ackGroup": "g"}, "ackGroup is for streaming"),
    ],
)
def test_a_batch_refuses(regions: Regions, given: dict[str, str], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        batch_reader(regions, **given)


def test_a_query_refuses_an_end(regions: Regions) -> None:
    with pytest.raises(OptionError, match="a streaming query has no end"):
        stream_reader(regions, streams="s", endingOffsets="latest")


def test_a_schema_may_leave_columns_out_but_not_add_any(regions: Regions) -> None:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from crdtstream.spark.reader import BatchReader
    from tests.spark.support import options

    regions[1].add("s", b"1")
    some = StructType([StructField("seq", LongType()), StructField("stream", StringType())])
    reader = BatchReader(options(regions, streams="s"), some)
    assert rows_of(reader, reader.partitions()) == [{"seq": 1, "stream": "s"}]
    more = StructType([StructField("payload", LongType())])
    with pytest.raises(OptionError, match="column payload: crdtstream has stream, id"):
        BatchReader(options(regions, streams="s"), more)
