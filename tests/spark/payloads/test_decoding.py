"""What is the same for every kind of payload."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from crdtstream.spark.options import OptionError, Options
from crdtstream.spark.payloads.decoding import ddl_of, payload_columns
from crdtstream.spark.payloads.errors import CorruptRecord
from tests.spark.payloads.typed import CORRUPT, typed


def test_what_spark_is_told() -> None:
    assert ddl_of(Options({"payloadSchema": "a INT"})) == ", a INT, `_corrupt_record` string"
    named = Options({"payloadSchema": "a INT", "payloadColumn": "p", "columnNameOfCorruptRecord": "why"})
    assert ddl_of(named) == ", `p` struct<a INT>, `why` string"
    assert ddl_of(Options({})) == ""


def test_one_column_for_the_whole_payload() -> None:
    kind = StructType([StructField("id", LongType()), StructField("item", StringType())])
    rows = typed(
        [[b"id", b"7"], [b"id", b"x", b"item", b"y"]], {"p": kind}, payloadSchema="id, item", payloadColumn="p"
    )
    assert [row["p"] for row in rows] == [{"id": 7, "item": None}, {"id": None, "item": "y"}]
    assert [row[CORRUPT] for row in rows] == [None, "id is 'x', which is no bigint"]


@pytest.mark.parametrize("name", ["id", "Seq", CORRUPT, "a", "A"])
def test_names_that_are_there_already(name: str) -> None:
    with pytest.raises(OptionError, match=f"has a column {name}, and there is one of that name"):
        typed([[b"a", b"1"]], {"a": LongType()}, payloadSchema=f"a INT, `{name}` INT")


def test_columns_of_corrupt_entries_are_null() -> None:
    options = Options({"payloadSchema": "a INT NOT NULL"})
    schema = StructType([StructField("a", LongType(), nullable=False)])
    with pytest.raises(OptionError, match="says NOT NULL of a"):
        payload_columns(options, schema, [])


def test_failing_fast() -> None:
    rows = [[b"a", b"1"], [b"a", b"x"], [b"a", b"y"]]
    with pytest.raises(CorruptRecord, match=r"stream 's', entry 5-1: a is 'x', which is no bigint\. Without mode=FAIL"):
        typed(rows, {"a": LongType()}, payloadSchema="a", mode="FAILFAST")
