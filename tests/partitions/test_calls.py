"""Calls of partitioned streams on the wire: the recorded bytes, which regions of other releases send and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crdtstream.partitions import calls
from crdtstream.partitions.state import NUMBER_BITS
from crdtstream.partitions.values import UNREACHABLE, Bookmark, NewMessage, Polled, Refused, Reservation, Stamp
from crdtstream.protocols.call_rows import CallRow, pack, unpack

MESSAGES = [NewMessage(0, None, b"first"), NewMessage(3, b"k", b"\x00\xff")]
STAMPS = [Stamp(0, 7, 1_700_000_000_000), Stamp(3, (1 << 53) - 1, 0)]
GENERATION = ((2 << NUMBER_BITS | 5) << NUMBER_BITS) | 9
BOOKMARK = Bookmark(GENERATION, (4, 513), (513, 77), {3: -1, 0: 12})
POLLED = Polled(GENERATION, (4, 513), (0, 0), {1: 0, 0: 13})
RESERVATIONS = [Reservation(0, -1, "", 0), Reservation(1, 12, "worker", 1_700_000_030_000)]

VALUES: list[tuple[CallRow, str, Callable[[CallRow], Any], Callable[[Any], CallRow]]] = [
    (calls.message_rows(MESSAGES), "929300c0c40566697273749303c4016bc40200ff", calls.messages_in, calls.message_rows),
    (calls.stamp_rows(STAMPS), "92930007cf0000018bcfe568009303cf001fffffffffffff00", calls.stamps_in, calls.stamp_rows),
    (calls.generation_row(GENERATION), "93020509", calls.generation_in, calls.generation_row),
    (calls.bookmark_row(BOOKMARK), "959302050904cd020192cd02014d9292000c9203ff", calls.bookmark_in, calls.bookmark_row),
    (calls.polled_row(POLLED), "959302050904cd02019200009292000d920100", calls.polled_in, calls.polled_row),
    (
        calls.reservation_rows(RESERVATIONS),
        "929400ffa00094010ca6776f726b6572cf0000018bcfe5dd30",
        calls.reservations_in,
        calls.reservation_rows,
    ),
]


@pytest.mark.parametrize(("row", "recorded", "read", "written"), VALUES)
def test_values_travel_as_they_always_did(
    row: CallRow, recorded: str, read: Callable[[CallRow], Any], written: Callable[[Any], CallRow]
) -> None:
    assert pack(row).hex() == recorded
    assert pack(written(read(unpack(bytes.fromhex(recorded))))).hex() == recorded


def test_a_bookmark_is_read_field_by_field() -> None:
    read = calls.bookmark_in(unpack(bytes.fromhex(VALUES[3][1])))
    assert (read.generation, read.epoch, read.start, read.offsets) == (GENERATION, (4, 513), (513, 77), {3: -1, 0: 12})


def test_a_refusal_travels_as_it_always_did() -> None:
    recorded = "93c2ab756e726561636861626c65a974727920616761696e"
    assert pack(calls.refusal_row(Refused(UNREACHABLE, "try again"))).hex() == recorded
    with pytest.raises(Refused, match="try again") as caught:
        calls.result_of(unpack(bytes.fromhex(recorded)))
    assert caught.value.code == UNREACHABLE


def test_the_names_of_operations_stay() -> None:
    operations = [
        calls.PUT,
        calls.JOIN,
        calls.POLL,
        calls.COMMIT,
        calls.HEARTBEAT,
        calls.GROUP,
        calls.RESET,
        calls.LOCATE,
    ]
    assert operations == ["put", "join", "poll", "commit", "heartbeat", "group", "reset", "locate"]
