"""Two regions of two shards as processes: queries and jobs over all of them, while shards are killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import DEADLINE_S, until
from crdtstream.protocols.hash_slots import shard_of
from crdtstream.spark.ack import advance
from crdtstream.spark.jobs.archive import archive
from crdtstream.spark.jobs.audit import audit
from crdtstream.spark.options import Options
from crdtstream.spark.sharded import client_of

SHARDS = 2
KEYS = tuple(f"in{number}" for number in range(6))
EACH = 250

pytestmark = pytest.mark.timeout(280)
Pair = tuple[ShardedRegion, ShardedRegion]


def shard_with(key: str) -> int:
    return shard_of(key.encode(), SHARDS)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ShardedRegion(1, tmp_path, SHARDS, bulk=True) as one, ShardedRegion(2, tmp_path, SHARDS, bulk=True) as two:
        one.start(two)
        two.start(one)
        for region in (one, two):
            region.await_serving()
        yield one, two


def add(region: ShardedRegion, key: str, *values: object) -> None:
    for value in values:
        region.ask_shard(shard_with(key), "XADD", key, "*", "n", f"{value}")


def given(*regions: ShardedRegion, **more: object) -> dict[str, str]:
    endpoints = ",".join(region.bulk_address for region in regions)
    fast = {"fetchOffset.retryIntervalMs": "200", "fetchOffset.numRetries": "5", "discoveryIntervalMs": "50"}
    return {"endpoints": endpoints, **fast, **{name: str(value) for name, value in more.items()}}


def values_in(region: ShardedRegion, key: str) -> list[int]:
    return sorted(int(entry[1][1]) for entry in region.ask_shard(shard_with(key), "XRANGE", key, "-", "+"))


def agree(pair: Pair) -> None:
    until(lambda: pair[0].digests() == pair[1].digests(), "the shards of both regions agree")


def filled(pair: Pair) -> None:
    for number, key in enumerate(KEYS):
        add(pair[number % 2], key, *range(20))
    agree(pair)
    assert {shard_with(key) for key in KEYS} == {0, 1}


def load(spark: Any, *regions: ShardedRegion, **more: object) -> Any:
    return spark.read.format("crdtstream").options(**given(*regions, **more)).load()


def found(frame: Any) -> list[tuple[str, int]]:
    return sorted((row.stream, int(bytes(row.fields[0].value))) for row in frame.collect())


def test_a_batch_read_has_the_streams_of_all_shards_while_one_is_down(spark: Any, pair: Pair) -> None:
    filled(pair)
    expected = sorted((key, number) for key in KEYS for number in range(20))
    assert found(load(spark, *pair, streamsPattern="in*")) == expected
    assert found(load(spark, *pair, streams=",".join(KEYS[:2]), maxPartitions=1)) == expected[:40]
    pair[0].kill_shard(1)
    assert found(load(spark, *pair, streamsPattern="in*")) == expected


def test_one_write_is_published_once_in_each_shard(spark: Any, pair: Pair) -> None:
    frame = spark.range(1000).selectExpr("concat('out', id % 6) as stream", "id as n")
    for _ in range(2):
        frame.write.format("crdtstream").options(**given(*pair, txnAppId="job", txnVersion=1)).mode("append").save()
    frame.write.format("crdtstream").options(**given(*pair, delivery="at-least-once")).mode("append").save()
    for number in range(6):
        expected = sorted(2 * [each for each in range(1000) if each % 6 == number])
        assert values_in(pair[0], f"out{number}") == expected
    one = spark.range(10).selectExpr("'other' as stream", "id as n")
    with pytest.raises(Exception, match="was published with others"):
        one.write.format("crdtstream").options(**given(*pair, txnAppId="job", txnVersion=1)).mode("append").save()
    agree(pair)
    assert all(pair[1].ask_shard(shard_with(f"out{number}"), "XLEN", f"out{number}") for number in range(6))


class Writer(threading.Thread):
    """Adds numbers to all streams, at the region that no shard of is killed."""

    def __init__(self, region: ShardedRegion) -> None:
        super().__init__(daemon=True)
        self._region = region

    def run(self) -> None:
        for number in range(EACH):
            for key in KEYS:
                add(self._region, key, number)


def started(spark: Any, pair: Pair, checkpoint: Path) -> Any:
    source = spark.readStream.format("crdtstream").options(
        **given(*pair, streamsPattern="in*", startingOffsets="earliest", maxOffsetsPerTrigger=400, ackGroup="g")
    )
    rows = source.load().selectExpr("concat('out', substring(stream, 3)) as stream", "fields")
    writer = rows.writeStream.format("crdtstream").options(**given(*pair)).option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="50 milliseconds").start()


def out(region: ShardedRegion) -> dict[str, list[int]]:
    return {key: values_in(region, f"out{key[2:]}") for key in KEYS}


def test_a_query_moves_each_entry_once_while_shards_are_killed(spark: Any, pair: Pair, tmp_path: Path) -> None:
    east, west = pair
    add(west, KEYS[0], *range(1_000_000, 1_000_001))
    agree(pair)
    writer = Writer(west)
    writer.start()
    expected = {key: list(range(EACH)) for key in KEYS}
    expected[KEYS[0]].append(1_000_000)
    kills, restarts = [1, 0, 1], 0
    query = started(spark, pair, tmp_path / "checkpoint")

    def moved() -> bool:
        nonlocal query, restarts
        done = sum(map(len, out(west).values()))
        if kills and done > (4 - len(kills)) * EACH:
            shard = kills.pop()
            east.kill_shard(shard)
            east.await_shard(shard)
        if not query.isActive:
            restarts += 1
            query = started(spark, pair, tmp_path / "checkpoint")
        return not writer.is_alive() and out(west) == expected

    until(moved, lambda: f"all is moved: { ({key: len(values) for key, values in out(west).items()}) }", 4 * DEADLINE_S)
    query.stop()
    assert not kills
    agree(pair)
    assert out(east) == expected, "nothing is lost, and nothing is there twice"


def test_archive_audit_and_group_over_shards(spark: Any, pair: Pair, tmp_path: Path) -> None:
    filled(pair)
    assert archive(spark, given(*pair, streamsPattern="in*"), str(tmp_path / "archive")).rows == 20 * len(KEYS)
    table = pyarrow.dataset.dataset(tmp_path / "archive", format="parquet").to_table()
    assert sorted(set(table["stream"].to_pylist())) == list(KEYS)
    heads = client_of(Options(given(*pair))).heads(KEYS)
    positions = {
        head.stream.decode(): {each.origin: each.head for each in head.origins} for answer in heads for head in answer
    }
    assert advance(given(*pair, ackGroup="g"), positions) == 20 * len(KEYS)
    agree(pair)
    audited = audit(spark, given(*pair, streamsPattern="in*"))
    assert (audited.streams, audited.entries, audited.divergences) == (len(KEYS), 2 * 20 * len(KEYS), [])
    assert audited.regions == ["region1", "region2"]
