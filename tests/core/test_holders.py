"""Consumers as numbers: assigned when they begin to hold something, freed when they hold nothing."""

from __future__ import annotations

from array import array

import pytest

from crdtstream.core.holders import Holders


def test_a_consumer_keeps_its_number_while_it_holds_something() -> None:
    holders = Holders()
    alice, bob = holders.take(b"alice", 2), holders.take(b"bob", 1)
    assert alice != bob and holders.take(b"alice", 1) == alice
    assert holders.with_counts() == [(b"alice", 3), (b"bob", 1)]
    holders.check()


def test_a_freed_number_is_used_again() -> None:
    holders = Holders()
    alice = holders.take(b"alice", 1)
    holders.release(alice, 1)
    assert holders.number_of(b"alice") is None and holders.count_of(b"alice") == 0
    assert holders.take(b"bob", 1) == alice and holders.name_of(alice) == b"bob"
    holders.check()


def test_counts_come_from_the_columns_when_a_checkpoint_is_loaded() -> None:
    holders = Holders()
    holders.restore({0: b"alice", 3: b"bob"}, [array("I", [0, 3, 3]), array("I", [0])])
    assert holders.with_counts() == [(b"alice", 2), (b"bob", 2)]
    assert holders.take(b"carol", 1) == 4
    holders.check()
    with pytest.raises(KeyError):
        holders.restore({0: b"alice"}, [array("I", [1])])
