"""What only one of two states holds is told from what the other has removed."""

from __future__ import annotations

from crdtstream.core.effects import Batch, Key, Position
from crdtstream.core.names.adding import add_named
from crdtstream.core.replica import Replica
from crdtstream.core.starting_over import LeftBehind, hand_over_groups, hand_over_layer, left_behind
from crdtstream.core.streams.stream import Stream
from crdtstream.core.whole_state import WholeState
from tests.core.histories import copied

X: Key = (0, b"x")


def replica_of(origin: int, *values: bytes, first_ms: int = 1) -> Replica:
    replica = Replica(origin)
    for at, value in enumerate(values):
        replica.add_entry(X, (first_ms + at, 0), [b"f", value])
    return replica


def left_of(mine: Replica, theirs: Replica, *doubted: int) -> LeftBehind:
    return left_behind(mine, WholeState(dict(theirs.keyspace.streams()), theirs.applied.vector), list(doubted))


def ids(left: LeftBehind) -> list[int]:
    return [entry_id[0] for found in left.entries.values() for entry_id, _ in found]


def behind(mine: Replica) -> Replica:
    """As `mine`, and the other side covers more than it, so that nothing is in doubt for that."""
    theirs = replica_of(1, *[b"v"] * mine.applied.counter())
    theirs.applied.vector.advance(9, 1)
    return theirs


def test_what_both_hold_is_not_left_behind() -> None:
    assert ids(left_of(replica_of(1, b"a", b"b"), replica_of(1, b"a", b"b"), 1)) == []


def test_what_the_other_side_does_not_cover_is() -> None:
    assert ids(left_of(replica_of(1, b"a", b"b"), replica_of(1, b"a"))) == [2]


def test_what_it_covers_and_lacks_was_removed_unless_its_origin_is_in_doubt() -> None:
    mine = replica_of(1, b"v", b"v", b"v")
    theirs = behind(mine)
    theirs.remove_entries(X, {1: [(2, 2)]}, False, None)
    assert ids(left_of(mine, theirs)) == []
    assert ids(left_of(mine, theirs, 2)) == []
    assert ids(left_of(mine, theirs, 1)) == [2]


def test_who_covers_the_other_side_has_seen_all_its_removals() -> None:
    mine, theirs = replica_of(1, b"a", b"b"), replica_of(1, b"a", b"b")
    theirs.remove_entries(X, {1: [(2, 2)]}, False, None)
    theirs.applied.vector = mine.applied.vector.copy()
    assert ids(left_of(mine, theirs)) == [2]


def test_a_fork_puts_its_origin_in_doubt() -> None:
    mine = replica_of(1, b"v", b"v", b"mine")
    theirs = behind(mine)
    theirs.remove_entries(X, {1: [(1, 1)]}, False, None)
    assert ids(left_of(mine, theirs)) == [1, 3]


def test_what_another_entry_of_its_name_stands_for_is_not() -> None:
    mine, theirs = Replica(1), Replica(2)
    for replica, ms in ((mine, 2), (theirs, 1)):
        add_named(replica, X, (ms, 0), [b"f", b"v"], (b"p", b"n"))
    add_named(mine, X, (3, 0), [b"f", b"v"], (b"p", b"other"))
    assert ids(left_of(mine, theirs)) == [3]
    # What its producer added again, having seen the other one, is wanted too.
    again = Replica(3)
    again.apply_batch(copied(batch_of(theirs)))
    add_named(again, X, (4, 0), [b"f", b"v"], (b"p", b"n"))
    assert ids(left_of(again, theirs)) == [4]


def batch_of(replica: Replica) -> Batch:
    batch = replica.drain().batch
    assert batch is not None
    return batch


def test_what_is_held_under_another_dot_is_held() -> None:
    mine, theirs = replica_of(1, b"a"), replica_of(2, b"a")
    assert ids(left_of(mine, theirs)) == []
    assert ids(left_of(mine, replica_of(2, b"b"))) == [1]


def test_a_hidden_key_is_left() -> None:
    mine = replica_of(1, b"a")
    mine.set_expiry(X, 1_000)
    mine.keyspace.now_ms = 2_000
    assert ids(left_of(mine, Replica(2))) == []


def handed_over(left: LeftBehind, replica: Replica) -> list[int]:
    """The bytes of each block, in as many layers as it takes, each of an origin of its own."""
    sizes: list[int] = []
    while left.entries:
        sizes += hand_over_layer(replica, left)
        replica.drain()
        replica.become(replica.applied.origin + 256, 1)
    return sizes


def test_entries_keep_their_ids_their_fields_and_their_expiry() -> None:
    mine = replica_of(1, *[b"v%d" % at for at in range(1_000)])
    mine.set_expiry(X, 5_000)
    before = mine.keyspace.databases[0][b"x"].range((0, 0), (1 << 60, 0), -1, False)
    other = Replica(3)
    sizes = handed_over(left_of(mine, other), other)
    assert len(sizes) > 3
    assert b"".join(other.keyspace.databases[0][b"x"].range((0, 0), (1 << 60, 0), -1, False)[1]) == b"".join(before[1])
    assert other.keyspace.databases[0][b"x"].expires_ms == 5_000
    other.check()


def test_entries_with_one_id_are_handed_over_by_several_origins() -> None:
    mine = replica_of(1, b"a", b"b")
    theirs = replica_of(2, b"c", b"d")
    theirs.drain()
    mine.drain()
    mine.join(WholeState(dict(theirs.keyspace.streams()), theirs.applied.vector, members=theirs.applied.members))
    left, other = left_of(mine, Replica(3)), Replica(3)
    handed_over(left, other)
    assert other.keyspace.databases[0][b"x"].length == 4
    assert sorted(other.keyspace.databases[0][b"x"].trees) == [3, 259]
    other.check()


def test_what_came_meanwhile_is_not_handed_over_again() -> None:
    left, other = left_of(replica_of(1, b"a", b"b"), Replica(3)), replica_of(3, b"a")
    handed_over(left, other)
    assert other.keyspace.databases[0][b"x"].length == 2


def test_groups_are_created_where_they_are_not() -> None:
    mine = replica_of(1, b"a")
    mine.create_group(X, b"g", Position((7, 0)), -1)
    left, other = left_of(mine, Replica(2)), Replica(3)
    hand_over_groups(other, left)
    assert other.keyspace.databases[0][b"x"].groups[b"g"].start() == Position((7, 0))
    assert left.groups == []
    theirs = replica_of(1, b"a")
    theirs.applied.vector = mine.applied.vector.copy()
    theirs.applied.vector.advance(9, 1)
    assert left_behind(mine, WholeState(dict(theirs.keyspace.streams()), theirs.applied.vector), []).groups == []
    assert left_behind(mine, WholeState({X: Stream()}), []).groups != []
