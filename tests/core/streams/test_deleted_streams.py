"""Deleted streams: a reader by position learns what was deleted before it was read, after collection too."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.effects import Key, Position
from crdtstream.core.replica import Replica
from crdtstream.core.streams.deleted_streams import FORGOTTEN
from crdtstream.core.streams.trimming import trimmable
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.whole_state import WholeState
from tests.core.histories import ALL, copied, streams_of
from tests.core.remaining import remaining

X: Key = (0, b"x")
Y: Key = (0, b"y")


@pytest.fixture
def replica() -> Replica:
    return Replica(1)


def add(replica: Replica, key: Key, count: int = 1) -> None:
    stream = replica.keyspace.find(key)
    top = 0 if stream is None else stream.top[0]
    for number in range(count):
        replica.add_entry(key, (top + 1 + number, 1), [b"f", b"v"])
    replica.drain()


def delete(replica: Replica, key: Key) -> None:
    replica.delete_stream(key)
    replica.drain()


def collect(replica: Replica) -> None:
    replica.keyspace.collect(replica.applied.vector.copy(), ALL)
    replica.check()


def trimmed_to(replica: Replica, key: Key) -> int:
    stream = replica.keyspace.databases[key[0]].get(key[1])
    meta = None if stream is None else stream.metas.get(1)
    return 0 if meta is None else meta.trimmed_to


def test_a_delete_notes_its_last_entry_and_not_what_others_keys_had_since(replica: Replica) -> None:
    add(replica, X, 3)
    add(replica, Y, 5)
    delete(replica, X)
    assert trimmed_to(replica, X) == 3


def test_entries_that_were_removed_one_by_one_do_not_count(replica: Replica) -> None:
    add(replica, X, 3)
    replica.remove_entries(X, {1: [(2, 3)]}, False, None)
    delete(replica, X)
    assert trimmed_to(replica, X) == 1


def test_it_is_remembered_after_collection_and_when_the_key_is_back(replica: Replica) -> None:
    add(replica, X, 3)
    delete(replica, X)
    collect(replica)
    assert not remaining(replica.keyspace) and trimmed_to(replica, X) == 3
    add(replica, X)
    collect(replica)
    assert trimmed_to(replica, X) == 3 and replica.keyspace.find(X) is not None


def test_a_stream_without_entries_leaves_nothing(replica: Replica) -> None:
    replica.create_group(X, b"g", Position(), 0)
    replica.destroy_group(X, b"g")
    replica.drain()
    collect(replica)
    assert not any(replica.keyspace.databases)


def test_the_oldest_are_forgotten_beyond_the_limit_and_their_maximum_is_kept(replica: Replica) -> None:
    replica.keyspace.collection.deleted.streams_max = 2
    keys = [(0, b"k%d" % number) for number in range(5)]
    for key in keys:
        add(replica, key)
        delete(replica, key)
        collect(replica)
    assert [trimmed_to(replica, key) for key in keys] == [0, 0, 0, 7, 9]
    assert trimmed_to(replica, (0, FORGOTTEN)) == 5
    assert sorted(replica.keyspace.databases[0]) == [FORGOTTEN, b"k3", b"k4"]


def test_a_key_that_is_back_when_its_turn_comes_stays(replica: Replica) -> None:
    deleted = replica.keyspace.collection.deleted
    deleted.streams_max = 1
    add(replica, X)
    delete(replica, X)
    collect(replica)
    add(replica, X)
    add(replica, Y)
    delete(replica, Y)
    collect(replica)
    assert replica.keyspace.find(X) is not None and trimmed_to(replica, X) == 1
    assert X not in deleted and Y in deleted and FORGOTTEN not in replica.keyspace.databases[0]


def test_a_state_without_the_stream_says_up_to_where_it_was_deleted() -> None:
    """The other side has forgotten the DEL altogether."""
    holder, other = Replica(2), Replica(1)
    other.keyspace.collection.deleted.streams_max = 0
    for number in range(3):
        other.add_entry(X, (number + 1, 1), [b"f", b"v"])
    batch = other.drain().batch
    assert batch is not None
    holder.apply_batch(copied(batch))
    delete(other, X)
    collect(other)
    assert X not in streams_of(other)
    holder.join(WholeState(vector=other.applied.vector.copy()))
    holder.check()
    assert trimmed_to(holder, X) == 3


steps = st.lists(st.sampled_from(["add", "delete", "remove", "trim", "collect"]), max_size=30)


@settings(max_examples=200, deadline=None)
@given(steps, st.integers(0, 30))
def test_a_reader_that_was_here_after_each_step_loses_what_it_did_not_read(steps: list[str], reads_at: int) -> None:
    """The naive model keeps every entry with whether it was read, and whether it left in a trim or a DEL."""
    replica = Replica(1)
    position, added, lost = 0, 0, False
    unread: list[int] = []
    for at, name in enumerate(steps):
        if name == "add":
            add(replica, X)
            added = replica.applied.counter()
            unread.append(added)
            add(replica, Y)
        elif name == "delete" and replica.keyspace.find(X) is not None:
            delete(replica, X)
            lost, unread = lost or bool(unread), []
        elif name == "remove" and unread:
            replica.remove_entries(X, {1: [(unread[-1], unread[-1])]}, False, None)
            replica.drain()
            unread.pop()
        elif name == "trim" and replica.keyspace.find(X) is not None:
            replica.remove_entries(X, trimmable(replica.keyspace.databases[0][b"x"], 0), True, None)
            replica.drain()
            lost, unread = lost or bool(unread), []
        elif name == "collect":
            collect(replica)
        if at == reads_at and not lost:
            position, unread = added, []
    assert (trimmed_to(replica, X) > position) == lost


def test_vectors_are_not_touched_by_what_is_remembered(replica: Replica) -> None:
    add(replica, X)
    delete(replica, X)
    collect(replica)
    assert replica.applied.vector == VersionVector({1: 2})
