"""A fork is seen in the last entries that both sides cover, in whatever streams its twins wrote."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import Key
from crdtstream.core.forks import WINDOW, forks
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector

X: Key = (0, b"x")
Y: Key = (0, b"y")


def made(*adds: tuple[Key, int, bytes], origin: int = 1) -> Replica:
    replica = Replica(origin)
    for key, ms, value in adds:
        replica.add_entry(key, (ms, 0), [b"f", value])
    return replica


def found(mine: Replica, theirs: Replica) -> dict[int, int]:
    return forks(mine.keyspace.streams(), mine.applied.vector, theirs.keyspace.streams(), theirs.applied.vector)


COMMON = [(X, 1, b"a"), (Y, 2, b"b")]


@pytest.mark.parametrize(
    "other",
    [(X, 3, b"other"), (X, 4, b"v"), (Y, 3, b"v")],
    ids=["fields", "ID", "stream"],
)
def test_another_entry_under_one_dot_is_a_fork(other: tuple[Key, int, bytes]) -> None:
    mine, theirs = made(*COMMON, (X, 3, b"v")), made(*COMMON, other)
    assert found(mine, theirs) == found(theirs, mine) == {1: 3}


def test_who_knows_more_or_has_removed_something_has_no_fork() -> None:
    mine, theirs = made(*COMMON, (X, 3, b"v")), made(*COMMON, (X, 3, b"v"), (X, 4, b"w"))
    theirs.remove_entries(X, {1: [(3, 3)]}, False, None)
    assert found(mine, theirs) == found(theirs, mine) == {}
    assert found(mine, made(*COMMON)) == {}
    assert forks(mine.keyspace.streams(), mine.applied.vector, [], VersionVector()) == {}


def test_origins_are_told_apart() -> None:
    assert found(made((X, 1, b"a")), made((X, 1, b"b"), origin=2)) == {}


def test_a_fork_that_lies_far_back_is_seen_by_what_followed_it() -> None:
    later = range(2, 2 * WINDOW)
    mine = made((X, 1, b"a"), *[(X, at, b"v") for at in later])
    assert found(mine, made((X, 1, b"b"), *[(X, at + 1, b"v") for at in later])) == {1: 2 * WINDOW - 1}
    assert found(mine, made((X, 1, b"b"), *[(X, at, b"v") for at in later])) == {}
