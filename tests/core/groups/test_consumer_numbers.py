"""Consumers as numbers: assigned when they begin to hold something, freed when they hold nothing."""

from __future__ import annotations

from array import array

import pytest

from crdtstream.core.groups.consumer_numbers import IDLE_MIN, Holders


def test_a_consumer_keeps_its_number_while_it_holds_something() -> None:
    holders = Holders()
    alice, bob = holders.take(b"alice", 2), holders.take(b"bob", 1)
    assert alice != bob and holders.take(b"alice", 1) == alice
    assert holders.with_counts() == [(b"alice", 3), (b"bob", 1)]
    holders.check()


def test_a_consumer_that_holds_nothing_keeps_its_number_and_is_not_shown() -> None:
    holders = Holders()
    alice, bob = holders.take(b"alice", 1), holders.take(b"bob", 1)
    holders.release(alice, 1)
    holders.check()
    assert holders.number_of(b"alice") is None and holders.count_of(b"alice") == 0
    assert holders.with_counts() == [(b"bob", 1)] and holders.numbered() == [(bob, b"bob")]
    assert holders.take(b"alice", 1) == alice
    holders.check()


def test_numbers_are_freed_and_used_again_once_most_consumers_hold_nothing() -> None:
    holders = Holders()
    held = [holders.take(b"consumer-%d" % index, 1) for index in range(2 * IDLE_MIN + 1)]
    for number in held[: IDLE_MIN + 1]:
        holders.release(number, 1)
        holders.check()
    assert holders.take(b"bob", 1) in held[: IDLE_MIN + 1]
    assert len(holders.numbered()) == IDLE_MIN + 1
    holders.check()


def test_counts_come_from_the_columns_when_a_checkpoint_is_loaded() -> None:
    holders = Holders()
    holders.restore({0: b"alice", 3: b"bob"}, [array("I", [0, 3, 3]), array("I", [0])])
    assert holders.with_counts() == [(b"alice", 2), (b"bob", 2)]
    assert holders.take(b"carol", 1) == 4
    holders.check()
    with pytest.raises(KeyError):
        holders.restore({0: b"alice"}, [array("I", [1])])
