"""Heads of several regions as one, and what options mean by them."""

from __future__ import annotations

from typing import Any

import pytest

from crdtstream.bulk.bulk_pb2 import OriginHead, StreamHead
from crdtstream.spark.heads import Head, ask, before, earliest, latest, merge, resolve
from crdtstream.spark.options import Options, StreamOffsets
from tests.spark.support import FAST

A, B = 257, 258
HEADS = {"s": {A: Head(head=9, trimmed=2, at=5), B: Head(head=7, at=7)}, "t": {A: Head(head=4)}}


def test_each_number_is_the_highest_that_a_region_told() -> None:
    one = [StreamHead(stream=b"s", origins=[OriginHead(origin=A, head=9, trimmed=1, at=3, length=5, waiting=2)])]
    other = [
        StreamHead(
            stream=b"s",
            origins=[OriginHead(origin=A, head=8, trimmed=2, at=4, length=4, waiting=3), OriginHead(origin=B, head=1)],
        ),
        StreamHead(stream=b"t"),
    ]
    assert merge([one, other]) == merge([other, one])
    assert merge([one, other]) == {"s": {A: Head(9, 2, 4, 5, 3), B: Head(head=1)}, "t": {}}


def test_positions_that_heads_give() -> None:
    assert latest(HEADS) == {"s": {A: 9, B: 7}, "t": {A: 4}}
    assert earliest(HEADS) == {"s": {A: 2, B: 0}, "t": {A: 0}}
    assert before(HEADS) == {"s": {A: 5, B: 7}, "t": {A: 0}}


@pytest.mark.parametrize(
    ("given", "default", "position"),
    [
        (-2, "latest", {A: 2, B: 0}),
        (-1, "earliest", {A: 9, B: 7}),
        ({A: 5}, "earliest", {A: 5, B: 0}),
        ({A: 5}, "latest", {A: 5, B: 7}),
        ({A: -1, B: -2}, "latest", {A: 9, B: 0}),
        ({99: 3, 98: -1}, "earliest", {A: 2, B: 0, 99: 3, 98: 0}),
    ],
)
def test_given_positions(given: StreamOffsets, default: str, position: dict[int, int]) -> None:
    found = resolve(HEADS, {"s": given}, default)
    assert found["s"] == position
    assert found["t"] == {A: 0 if default == "earliest" else 4}


def test_words() -> None:
    assert resolve(HEADS, "earliest", "latest") == earliest(HEADS)
    assert resolve(HEADS, "latest", "earliest") == latest(HEADS)


class Told:
    """A client whose region tells of these streams."""

    def heads(self, *asked: object, deleted: bool) -> list[list[StreamHead]]:
        return [[StreamHead(stream=name) for name in (b"a", b"crdtstream:published:job")]]


def test_a_pattern_means_no_ledgers() -> None:
    client: Any = Told()
    options = {"endpoints": "eu:1", **FAST}
    assert set(ask(client, Options({**options, "streamsPattern": "*"}))) == {"a"}
    assert "crdtstream:published:job" in ask(client, Options({**options, "streams": "crdtstream:published:job"}))
