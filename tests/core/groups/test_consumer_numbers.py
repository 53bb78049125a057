"""Consumers as numbers: assigned when they begin to hold something, freed when they hold nothing."""

from __future__ import annotations

from array import array

import pytest

from crdtstream.core.groups.consumer_numbers import IDLE_MIN, ConsumerNumbers


def test_a_consumer_keeps_its_number_while_it_holds_something() -> None:
    numbers = ConsumerNumbers()
    alice, bob = numbers.hold(b"alice", 2), numbers.hold(b"bob", 1)
    assert alice != bob and numbers.hold(b"alice", 1) == alice
    assert numbers.with_counts() == [(b"alice", 3), (b"bob", 1)]
    numbers.check()


def test_a_consumer_that_holds_nothing_keeps_its_number_and_is_not_shown() -> None:
    numbers = ConsumerNumbers()
    alice, bob = numbers.hold(b"alice", 1), numbers.hold(b"bob", 1)
    numbers.release(alice, 1)
    numbers.check()
    assert numbers.number_of(b"alice") is None and numbers.count_of(b"alice") == 0
    assert numbers.with_counts() == [(b"bob", 1)] and numbers.numbered() == [(bob, b"bob")]
    assert numbers.hold(b"alice", 1) == alice
    numbers.check()


def test_numbers_are_freed_and_used_again_once_most_consumers_hold_nothing() -> None:
    numbers = ConsumerNumbers()
    held = [numbers.hold(b"consumer-%d" % index, 1) for index in range(2 * IDLE_MIN + 1)]
    for number in held[: IDLE_MIN + 1]:
        numbers.release(number, 1)
        numbers.check()
    assert numbers.hold(b"bob", 1) in held[: IDLE_MIN + 1]
    assert len(numbers.numbered()) == IDLE_MIN + 1
    numbers.check()


def test_counts_come_from_the_columns_when_a_checkpoint_is_loaded() -> None:
    numbers = ConsumerNumbers()
    numbers.restore({0: b"alice", 3: b"bob"}, [array("I", [0, 3, 3]), array("I", [0])])
    assert numbers.with_counts() == [(b"alice", 2), (b"bob", 2)]
    assert numbers.hold(b"carol", 1) == 4
    numbers.check()
    with pytest.raises(KeyError):
        numbers.restore({0: b"alice"}, [array("I", [1])])
