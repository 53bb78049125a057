"""Window accounting and the reassembly of parts, without a session around them."""

from __future__ import annotations

import sys

import pytest

from crdtstream.core.causality import VersionVector
from crdtstream.protocols.codec import BatchHeader
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.greeting import WireError
from crdtstream.replication.intake import Intake


def header(slot: int, first: int, last: int) -> BatchHeader:
    return BatchHeader(slot, first, last, VersionVector({slot: first - 1}))


def part(index: int, count: int, payload: bytes, restart: int = 0) -> wire.Part:
    return wire.Part(restart=restart, index=index, count=count, payload=payload)


def test_bytes_are_consumed_in_order_of_arrival() -> None:
    intake = Intake(100)
    intake.note(header(1, 1, 5), 10, 0)
    intake.note(header(2, 1, 1), 20, 0)
    intake.settle(VersionVector({1: 4, 2: 1}))
    assert intake.consumed_bytes == 0
    intake.settle(VersionVector({1: 5}))
    assert intake.consumed_bytes == 10
    intake.settle(VersionVector({1: 5, 2: 1}))
    assert intake.consumed_bytes == 30
    intake.check()


def test_a_restart_forgets_what_waited_and_what_is_still_coming() -> None:
    intake = Intake(100)
    intake.note(header(1, 1, 1), 10, 0)
    assert intake.begin() == 1
    intake.note(header(1, 2, 2), 10, 0)
    assert intake.piece(part(0, 2, b"old")) is None
    intake.note(header(1, 3, 3), 5, 1)
    intake.settle(VersionVector({1: 3}))
    assert intake.consumed_bytes == 5


def test_parts_become_one_batch_and_all_but_the_last_are_consumed_at_once() -> None:
    intake = Intake(100)
    assert intake.piece(part(0, 3, b"abc")) is None
    assert intake.piece(part(1, 3, b"def")) is None
    intake.check()
    assert intake.piece(part(2, 3, b"g")) == b"abcdefg"
    assert intake.consumed_bytes == 6
    assert intake.piece(part(0, 1, b"x")) == b"x"


def test_a_batch_that_comes_twice_counts_at_once_and_is_not_remembered() -> None:
    intake = Intake(100)
    for _ in range(1_000):
        intake.note(header(1, 2, 2), 10, 0)
    assert intake.consumed_bytes == 9_990 and len(intake._waiting) == 1
    intake.settle(VersionVector({1: 2}))
    assert intake.consumed_bytes == 10_000
    intake.check()


def test_parts_take_their_bytes_and_no_more() -> None:
    intake = Intake(100_000)
    for index in range(10_000):
        intake.piece(part(index, 1 << 31, b"x"))
    assert intake.unfinished_bytes == 10_000
    assert sum(sys.getsizeof(held) for held in (intake._whole, intake._waiting)) < 20_000


def test_a_first_part_begins_another_batch() -> None:
    intake = Intake(100)
    intake.piece(part(0, 3, b"abc"))
    intake.piece(part(0, 2, b"x"))
    assert intake.piece(part(1, 2, b"y")) == b"xy"


@pytest.mark.parametrize("second", [part(0, 0, b"x"), part(2, 3, b"x"), part(1, 4, b"x"), part(1, 3, b"")])
def test_parts_out_of_order_are_refused(second: wire.Part) -> None:
    intake = Intake(100)
    intake.piece(part(0, 3, b"abc"))
    with pytest.raises(WireError, match="part"):
        intake.piece(second)


def test_a_batch_is_bounded_however_many_parts_are_declared() -> None:
    intake = Intake(10)
    intake.piece(part(0, 1 << 31, b"x" * 10))
    with pytest.raises(WireError, match="exceeds batch_bytes_max = 10 bytes"):
        intake.piece(part(1, 1 << 31, b"x"))
