"""Payloads with a schema in real queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.fake_regions import Regions
from tests.spark.support import FAST

DEADLINE_S = 90
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def given(regions: Regions, **more: object) -> dict[str, str]:
    return {"endpoints": regions.endpoints, **FAST, **{name: str(value) for name, value in more.items()}}


def load(spark: Any, regions: Regions, **more: object) -> Any:
    return spark.read.format("crdtstream").options(**given(regions, **more)).load()


def test_spark_has_the_columns_and_their_types(spark: Any, regions: Regions) -> None:
    regions[1].add("s", [b"n", b"1", b"tags", b'["a"]'], [b"n", b"x"])
    frame = load(spark, regions, streams="s", payloadSchema="n INT, tags ARRAY<STRING>, d DECIMAL(4, 1)")
    assert frame.columns[5:] == ["fields", "n", "tags", "d", "_corrupt_record"]
    assert [tuple(row) for row in frame.select("n", "tags", "d", "_corrupt_record").collect()] == [
        (1, ["a"], None, None),
        (None, None, None, "n is 'x', which is no int"),
    ]
    chosen = spark.read.schema("n INT, stream STRING").format("crdtstream")
    rows = chosen.options(**given(regions, streams="s", payloadSchema="n INT, other STRING")).load().collect()
    assert [tuple(row) for row in rows] == [(1, "s"), (None, "s")]


def test_failing_fast_names_the_entry(spark: Any, regions: Regions) -> None:
    regions[1].add("s", [b"n", b"x"])
    with pytest.raises(Exception, match="stream 's', entry 1700000000001-1: n is 'x', which is no int"):
        load(spark, regions, streams="s", payloadSchema="n INT", mode="failfast").collect()


def test_a_query_from_text_to_avro_with_dead_letters(spark: Any, regions: Regions, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(SCHEMA))
    good = [[b"number", b"%d" % number, b"at", b"2026-11-27T06:00:00Z"] for number in range(20)]
    regions[1].add("in", *good, [b"number", b"none"])
    options = given(regions, streams="in", payloadSchema="number BIGINT, at TIMESTAMP", startingOffsets="earliest")
    frame = spark.readStream.format("crdtstream").options(**options, maxOffsetsPerTrigger=8).load()
    typed = frame.drop("stream", "id")
    sink = given(regions, stream="out", payloadSchema=file, deadLetterStream="bad")
    for _ in range(2):
        writer = (
            typed.writeStream.format("crdtstream").options(**sink).option("checkpointLocation", str(tmp_path / "c"))
        )
        assert writer.trigger(availableNow=True).start().awaitTermination(DEADLINE_S)
    assert regions.values("bad") == [b"none"]
    back = load(spark, regions, streams="out", payloadSchema=file).selectExpr("number", "unix_millis(at) as ms")
    assert sorted(tuple(row) for row in back.collect()) == [(number, 1_795_759_200_000) for number in range(20)]
    rows = load(spark, regions, streams="in", payloadSchema="number BIGINT, at TIMESTAMP").drop("id")
    writer = rows.write.format("crdtstream").options(**given(regions, payloadSchema=file)).mode("append")
    with pytest.raises(Exception, match="a row is corrupt"):
        writer.save()
