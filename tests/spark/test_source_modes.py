"""What Spark does with sources in Python, and what it refuses, as docs/spark-runtimes.md says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.fake_regions import Regions
from tests.spark.support import FAST

DEADLINE_S = 60


def options(regions: Regions, **more: str) -> dict[str, str]:
    return {"endpoints": regions.endpoints, "streams": "s", **FAST, **more}


def test_real_time_mode_is_refused_by_spark(spark: Any, regions: Regions, tmp_path: Path) -> None:
    frame = spark.readStream.format("crdtstream").options(**options(regions)).load()
    writer = frame.writeStream.format("console").outputMode("update").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(realTime="5 seconds").start()
    with pytest.raises(Exception, match="INPUT_STREAM_NOT_SUPPORTED"):
        query.awaitTermination(DEADLINE_S)


def test_continuous_processing_is_refused_by_spark(spark: Any, regions: Regions, tmp_path: Path) -> None:
    frame = spark.readStream.format("crdtstream").options(**options(regions)).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match="Data source crdtstream does not support continuous processing"):
        writer.trigger(continuous="1 second").start()


def test_a_view_has_typed_columns(spark: Any, regions: Regions) -> None:
    regions[1].add("s", [b"n", b"1"], [b"n", b"2"])
    given = ", ".join(f"`{name}` '{value}'" for name, value in options(regions, payloadSchema="n BIGINT").items())
    spark.sql(f"CREATE TEMPORARY VIEW typed USING crdtstream OPTIONS ({given})")
    assert spark.sql("SELECT sum(n) FROM typed").first()[0] == 3
    with pytest.raises(Exception, match="typed is not a temp view of streaming logical plan"):
        spark.readStream.table("typed")
