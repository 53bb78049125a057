"""Calls of partitioned streams on the wire: the recorded bytes, which regions of other releases send and read."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.partitions.calls import (
    CALLS,
    LocateCall,
    PutCall,
    RefusalReply,
    ResetCall,
    ResetReply,
    call_in,
    expect,
    pack_reply,
    refusal_of,
    unpack_call,
    unpack_reply,
)
from crdtstream.partitions.shapes import CallMalformed, Shape
from crdtstream.partitions.state import NUMBER_BITS
from crdtstream.partitions.value_shapes import BOOKMARK, GENERATION, MESSAGES, POLLED, RESERVATIONS, STAMPS
from crdtstream.partitions.values import UNREACHABLE, Bookmark, NewMessage, Polled, Refused, Reservation, Stamp
from crdtstream.protocols.call_rows import CallRow, pack, unpack
from tests.partitions.region_streams import STREAM, Regions

NEW_MESSAGES = [NewMessage(0, None, b"first"), NewMessage(3, b"k", b"\x00\xff")]
GIVEN = [Stamp(0, 7, 1_700_000_000_000), Stamp(3, (1 << 53) - 1, 0)]
GENERATIONS = ((2 << NUMBER_BITS | 5) << NUMBER_BITS) | 9
STOOD = Bookmark(GENERATIONS, (4, 513), (513, 77), {3: -1, 0: 12})
HANDED = Polled(GENERATIONS, (4, 513), (0, 0), {1: 0, 0: 13})
OWNED = [Reservation(0, -1, "", 0), Reservation(1, 12, "worker", 1_700_000_030_000)]

VALUES: list[tuple[Shape, Any, str]] = [
    (MESSAGES, NEW_MESSAGES, "929300c0c40566697273749303c4016bc40200ff"),
    (STAMPS, GIVEN, "92930007cf0000018bcfe568009303cf001fffffffffffff00"),
    (GENERATION, GENERATIONS, "93020509"),
    (BOOKMARK, STOOD, "959302050904cd020192cd02014d9292000c9203ff"),
    (POLLED, HANDED, "959302050904cd02019200009292000d920100"),
    (RESERVATIONS, OWNED, "929400ffa00094010ca6776f726b6572cf0000018bcfe5dd30"),
]


@pytest.mark.parametrize(("shape", "value", "recorded"), VALUES)
def test_values_travel_as_they_always_did(shape: Shape, value: Any, recorded: str) -> None:
    assert pack(shape.write(value)).hex() == recorded
    assert pack(shape.write(shape.read(unpack(bytes.fromhex(recorded))))).hex() == recorded


def test_a_bookmark_is_read_field_by_field() -> None:
    read = BOOKMARK.read(unpack(bytes.fromhex(VALUES[3][2])))
    assert (read.generation, read.epoch, read.start, read.offsets) == (GENERATIONS, (4, 513), (513, 77), {3: -1, 0: 12})


def test_a_refusal_travels_as_it_always_did() -> None:
    recorded = "93c2ab756e726561636861626c65a974727920616761696e"
    assert pack_reply(refusal_of(Refused(UNREACHABLE, "try again"))).hex() == recorded
    with pytest.raises(Refused, match="try again") as caught:
        expect(unpack_reply(bytes.fromhex(recorded), ResetCall(STREAM, "g", "LATEST", 0)), ResetReply)
    assert caught.value.code == UNREACHABLE


def test_the_names_of_operations_stay() -> None:
    assert list(CALLS) == ["put", "join", "poll", "commit", "heartbeat", "group", "reset", "locate"]


# What is malformed


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (["put"], "expected 2 values, not 0"),
        (["put", 3, []], "stream: expected a text, not int"),
        (["put", "s", [[0, None, "text"]]], "messages: value: expected bytes, not str"),
        (["put", "s", [[True, None, b"a"]]], "messages: partition: expected a whole number, not bool"),
        (["poll", "s", "g", "i", 1, [[0, 0, 0], 0, 0, [0, 0], []], 1], "commits: expected true or false, not int"),
        (["commit", "s", "g", "i", 1, [[0, 0, 0], 0, 0, [0], []]], "bookmark: start: expected 2 values, not 1"),
        (
            ["commit", "s", "g", "i", 1, [[0, 0, 0], 0, 0, [0, 0], [[0, 1 << 60]]]],
            "bookmark: offsets: offset: ",
        ),
        (["locate", "s", -1, 0], "partition: expected a number from 0 on, not -1"),
    ],
)
def test_what_is_malformed_is_named(row: CallRow, wrong: str) -> None:
    with pytest.raises(CallMalformed) as caught:
        call_in(row)
    assert str(caught.value).startswith(wrong)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=20,
)
# Rows that begin as a call does come further.
ROWS = PLAIN | st.builds(lambda name, rest: [name, STREAM, *rest], st.sampled_from(list(CALLS)), st.lists(PLAIN))


def read_or_malformed(payload: bytes) -> None:
    with suppress(CallMalformed):
        unpack_call(payload)
    with suppress(CallMalformed):
        unpack_reply(payload, PutCall(STREAM, []))


@given(ROWS)
def test_any_value_is_read_or_malformed(value: Any) -> None:
    read_or_malformed(msgpack.packb(value))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_malformed(payload: bytes) -> None:
    read_or_malformed(payload)


# What has the shape of a call, and any values

NUMBERS = st.integers(-(1 << 63), (1 << 64) - 1) | st.integers(-1, 3)
COUNTS = st.integers(0, (1 << 64) - 1) | st.integers(0, 3)
OFFSETS = st.integers(-1, 1 << 53) | st.integers(-1, 3)
NAMES = st.sampled_from(["g", "", "x" * 300])
STANDING = st.tuples(
    st.tuples(COUNTS, COUNTS, COUNTS), COUNTS, COUNTS, st.tuples(COUNTS, COUNTS), st.lists(st.tuples(COUNTS, OFFSETS))
)
OF_INSTANCE = (NAMES, NAMES, st.just(1_000) | NUMBERS, STANDING)
STARTS = st.sampled_from(["TRIM_HORIZON", "LATEST", "AT_TIME", "x"])
SHAPED = st.one_of(
    st.tuples(st.just("put"), st.just(STREAM), st.lists(st.tuples(NUMBERS, st.none(), st.binary(max_size=2)))),
    st.tuples(st.just("join"), st.just(STREAM), NAMES, STARTS, NUMBERS, NUMBERS),
    st.tuples(st.just("poll"), st.just(STREAM), *OF_INSTANCE, st.booleans()),
    st.tuples(st.sampled_from(["commit", "heartbeat"]), st.just(STREAM), *OF_INSTANCE),
    st.tuples(st.just("group"), st.just(STREAM), NAMES),
    st.tuples(st.just("reset"), st.just(STREAM), NAMES, STARTS, NUMBERS),
    st.tuples(st.just("locate"), st.just(STREAM), COUNTS, NUMBERS),
)


@pytest.fixture(scope="module")
def home() -> Regions:
    regions = Regions(1)
    regions.put(1, b"a", b"b")
    regions.join(1)
    return regions


@given(SHAPED)
def test_a_home_answers_whatever_the_values_are(home: Regions, row: tuple[Any, ...]) -> None:
    streams = home.streams(1)
    epoch = streams.epoch(STREAM)
    if row[0] in ("poll", "commit", "heartbeat"):
        # What a bookmark of another epoch or start says is not looked at.
        start = streams.memberships(STREAM)["g"].start
        generation, _, _, _, offsets = row[5]
        row = (*row[:5], (generation, *epoch, start.name, offsets), *row[6:])
    call = unpack_call(msgpack.packb(row))
    reply = pack_reply(streams._serve(msgpack.packb(row)))
    assert pack_reply(unpack_reply(reply, call)) == reply


def test_a_partition_that_does_not_exist_is_refused() -> None:
    regions = Regions(1)
    with pytest.raises(Refused, match="has no partition 7"):
        regions.reply_to(1, LocateCall(STREAM, 7, 0), RefusalReply)
