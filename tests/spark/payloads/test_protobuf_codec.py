"""Protobuf in one field, by a descriptor set that protoc has made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from grpc_tools import protoc
from pyspark.sql.types import LongType, StringType

from crdtstream.spark.options import OptionError
from crdtstream.spark.payloads.errors import UndecodablePayload, UnencodableRow
from crdtstream.spark.payloads.protobuf_codec import ProtobufCodec
from tests.spark.payloads.typed import CORRUPT, payloads, typed

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message Order {
  message Item { string name = 1; uint32 count = 2; }
  enum State { NEW = 0; PAID = 1; }
  int64 order = 1;
  optional string note = 2;
  State state = 3;
  repeated Item items = 4;
  map<string, Item> by_name = 5;
  google.protobuf.Timestamp at = 6;
  google.protobuf.Duration took = 7;
  google.protobuf.StringValue buyer = 8;
  bytes raw = 9;
  uint64 big = 10;
  repeated double prices = 11;
  Item first = 12;
}
"""
ROW: dict[str, Any] = {
    "order": 7,
    "note": None,
    "state": "PAID",
    "items": [{"name": "book", "count": 2}],
    "by_name": {"book": {"name": "book", "count": 2}},
    "at": datetime(2026, 11, 27, 6, tzinfo=UTC),
    "took": timedelta(seconds=3),
    "buyer": "ann",
    "raw": b"\x00\xff",
    "big": 2**64 - 1,
    "prices": [1.5, 2.5],
    "first": None,
}
LONELY = 'syntax = "proto3"; message A {} message B { B b = 1; }'


def compiled(directory: Path, text: str) -> Path:
    (directory / "it.proto").write_text(text)
    target = directory / "it.desc"
    own = str(files("grpc_tools") / "_proto")
    arguments = ["protoc", f"-I{directory}", f"-I{own}", "--include_imports", f"--descriptor_set_out={target}"]
    assert protoc.main([*arguments, "it.proto"]) == 0
    return target


@pytest.fixture
def order(tmp_path: Path) -> Path:
    return compiled(tmp_path, ORDER)


def test_types_are_those_of_from_protobuf(order: Path) -> None:
    item = "struct<`name` string, `count` bigint>"
    assert ProtobufCodec(order.read_bytes(), "").ddl == (
        f"`order` bigint, `note` string, `state` string, `items` array<{item}>, `by_name` map<string, {item}>,"
        " `at` timestamp, `took` interval day to second, `buyer` string, `raw` binary, `big` decimal(20, 0),"
        f" `prices` array<double>, `first` {item}"
    )


def test_messages_come_and_go(order: Path) -> None:
    codec = ProtobufCodec(order.read_bytes(), "shop.Order")
    assert codec.decode(codec.encode({**ROW, "big": Decimal(2**64 - 1)})) == ROW
    assert codec.decode(codec.encode({**ROW, "by_name": list(ROW["by_name"].items())})) == ROW
    empty = codec.decode(b"")
    assert (empty["order"], empty["note"], empty["at"], empty["items"]) == (0, None, None, [])


def test_columns_of_protobuf(order: Path) -> None:
    codec = ProtobufCodec(order.read_bytes(), "")
    right, wrong = typed(
        payloads([codec.encode(ROW), b"\xff\xff"]),
        {"order": LongType(), "state": StringType()},
        payloadSchema=str(order),
    )
    assert right == {"order": 7, "state": "PAID", CORRUPT: None}
    assert wrong["order"] is None and wrong[CORRUPT].startswith("payload is no shop.Order: ")


def test_rows_that_are_no_message(order: Path) -> None:
    codec = ProtobufCodec(order.read_bytes(), "")
    with pytest.raises(UnencodableRow, match="no shop"):
        codec.encode({"order": "seven"})
    with pytest.raises(UnencodableRow, match="no shop"):
        codec.encode({"order": 2**70})
    with pytest.raises(UndecodablePayload):
        codec.decode(b"\x0a")


def test_files_that_are_refused(order: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is no descriptor set"):
        ProtobufCodec(b"\xff", "")
    with pytest.raises(OptionError, match="does not describe the message"):
        ProtobufCodec(order.read_bytes(), "shop.None")
    several = compiled(tmp_path, LONELY).read_bytes()
    with pytest.raises(OptionError, match="has the messages A, B: name one with payloadMessage"):
        ProtobufCodec(several, "")
    with pytest.raises(OptionError, match="nests B in itself"):
        _ = ProtobufCodec(several, "B").ddl
