"""Joins of states, by example: entries, deletes, groups, and what was forgotten or evicted."""

from __future__ import annotations

import pytest

from crdtstream.core import effects as fx
from crdtstream.core.effects import Key, Position
from crdtstream.core.local_facts import ConsumerCreated, EntriesDelivered, PendingDropped, PositionSet
from crdtstream.core.replica import Replica
from crdtstream.core.streams.expiry import NO_EXPIRY
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import EntryId
from crdtstream.core.values.origin_intervals import OriginIntervals
from crdtstream.core.whole_state import WholeState
from tests.core.histories import ALL, World, join, replayed, streams_of
from tests.core.remaining import remaining
from tests.core.views import replicated

KEY: Key = (0, b"x")
FIELDS = [b"f", b"v"]


# Examples


class Regions:
    """Replicas of which each takes what another prepared, by its batches or as a state."""

    def __init__(self) -> None:
        self.world = World(range(1, 4))

    def __getitem__(self, region: int) -> Replica:
        return self.world.replicas[region - 1]

    def send(self, source: int, target: int) -> None:
        self.world.sync(source - 1, target - 1, ALL)

    def join(self, target: int, source: int) -> Stream:
        """The stream under `KEY` in the target afterwards."""
        self.world.join(target - 1, source - 1)
        self[target].check()
        return streams_of(self[target])[KEY]

    def add(self, region: int, entry_id: EntryId) -> None:
        self[region].add_entry(KEY, entry_id, FIELDS)
        self.world.end_turn(region - 1)

    def delete(self, region: int) -> None:
        self[region].delete_stream(KEY)
        self.world.end_turn(region - 1)

    def create(self, region: int, start: Position | None = None) -> None:
        self[region].create_group(KEY, b"g", start or Position(), 0)
        self.world.end_turn(region - 1)

    def destroy(self, region: int) -> None:
        assert self[region].destroy_group(KEY, b"g")
        self.world.end_turn(region - 1)


@pytest.fixture
def r() -> Regions:
    return Regions()


def added_at_both(r: Regions) -> None:
    r.add(1, (1, 1))
    r.add(1, (2, 1))
    r.send(1, 2)


def ids_in(stream: Stream) -> list[EntryId]:
    return [
        entry_id
        for tree in stream.trees.values()
        for part in tree.slices((0, 0), (9, 9), -1, False)
        for entry_id in part.ids()
    ]


def test_an_entry_that_the_other_side_removed_goes(r: Regions) -> None:
    added_at_both(r)
    r[2].remove_entries(KEY, {1: [(1, 1)]}, False, (1, 1))
    assert ids_in(r.join(1, 2)) == [(2, 1)]


def test_an_entry_that_the_other_side_has_not_seen_stays(r: Regions) -> None:
    added_at_both(r)
    r.add(1, (3, 1))
    r[2].remove_entries(KEY, {1: [(1, 2)]}, True, None)
    assert ids_in(r.join(1, 2)) == [(3, 1)]


def test_an_entry_that_was_removed_here_does_not_come_back(r: Regions) -> None:
    added_at_both(r)
    r[1].remove_entries(KEY, {1: [(1, 1)]}, False, (1, 1))
    assert ids_in(r.join(1, 2)) == [(2, 1)]


def test_entries_after_a_delete_may_lie_below_what_it_removed(r: Regions) -> None:
    r.add(1, (500, 1))
    r.send(1, 2)
    r.delete(1)
    r.add(1, (5, 1))
    stream = r.join(2, 1)
    assert ids_in(stream) == [(5, 1)] and stream.top == (5, 1) and stream.length == 1


def test_a_delete_voids_what_it_saw_and_nothing_else(r: Regions) -> None:
    added_at_both(r)
    r.add(1, (3, 1))
    r.delete(2)
    assert r.join(1, 2).entries_added() == 1
    meta = streams_of(r[1])[KEY].metas[1]
    assert (meta.first, meta.added, meta.voided) == (1, 3, 2)


def test_two_deletes_that_saw_the_same_adds_void_them_once(r: Regions) -> None:
    added_at_both(r)
    r.send(1, 3)
    r.add(1, (3, 1))
    r.add(1, (4, 1))
    r.add(1, (5, 1))
    r.delete(2)
    r.delete(3)
    assert r.join(1, 2).entries_added() == 3
    assert r.join(1, 3).entries_added() == 3


def test_a_new_count_is_not_voided_by_a_delete_of_the_old_one(r: Regions) -> None:
    added_at_both(r)
    r.delete(2)
    r.send(2, 1)
    r.add(1, (4, 1))
    stream = r.join(2, 1)
    assert stream.entries_added() == 1 and stream.metas[1].first == 3


def test_a_register_that_was_voided_there_goes_and_one_not_seen_there_stays(r: Regions) -> None:
    r.add(1, (1, 1))
    r[1].set_id(KEY, (50, 0), 7, (1, 0))
    r.send(1, 2)
    r.delete(2)
    r.add(1, (60, 1))
    stream = r.join(1, 2)
    meta = stream.metas[1]
    assert (meta.set_counter, meta.removed_counter, meta.offset_counter, meta.add_counter) == (0, 0, 0, 3)
    assert stream.top == (60, 1) and stream.max_deleted() == (0, 0)


def test_an_expiry_that_was_replaced_there_goes_and_deadlines_follow(r: Regions) -> None:
    r.add(1, (1, 1))
    r[1].set_expiry(KEY, 50)
    r.send(1, 2)
    r[2].set_expiry(KEY, 40)
    assert r.join(1, 2).expiries() == [(40, 2, 1)]
    assert r[1].keyspace.deadlines.times == {KEY: 40}
    r[2].set_expiry(KEY, NO_EXPIRY)
    r.join(1, 2)
    assert r[1].keyspace.deadlines.times == {}


def test_concurrent_expiries_stay_side_by_side(r: Regions) -> None:
    r.add(1, (1, 1))
    r.send(1, 2)
    r[1].set_expiry(KEY, 50)
    r[2].set_expiry(KEY, 40)
    assert r.join(1, 2).expiries() == [(40, 2, 1), (50, 1, 2)]


def test_trimmed_to_is_the_maximum(r: Regions) -> None:
    added_at_both(r)
    r[2].remove_entries(KEY, {1: [(1, 1)]}, True, None)
    assert r.join(1, 2).metas[1].trimmed_to == 1


@pytest.mark.parametrize(("counter", "left"), [(1, 0), (2, 1)])
def test_pending_entries_leave_if_references_were_dropped_meanwhile(r: Regions, counter: int, left: int) -> None:
    """Of any entry of the stream: the state does not say of which. What was dropped before does not count."""
    for ms in (1, 2, 3):
        r.add(1, (ms, 1))
    r.create(1)
    r.send(1, 2)
    read(r, 2, False)
    r[1].remove_entries(KEY, {1: [(3, 3)]}, False, (3, 1), {1: [((2, 1), (3, 1))]})
    r.world.end_turn(0)
    if counter == 2:
        r.send(1, 2)
    r[1].remove_entries(KEY, {1: [(1, 1)]}, False, (1, 1))
    r.world.end_turn(0)
    stream = r.join(2, 1)
    pending = [row.entry_id for row in stream.groups[b"g"].pending.rows((0, 0), (9, 9), -1, None)]
    assert pending == [(1, 1)] * left + [(2, 1)]
    assert stream.metas[1].dropped_counter == 5


# Groups


def read(r: Regions, region: int, acknowledge: bool) -> list[EntryId]:
    """Deliver all, and acknowledge it or not; the IDs."""
    replica = r[region]
    stream = replica.keyspace.find(KEY)
    assert stream is not None
    delivery = stream.groups[b"g"].next_entries(stream.chains, -1)
    if not delivery.count:
        return []
    replica.record(EntriesDelivered(KEY, b"g", b"c", 1, delivery.intervals, False, 0))
    ids = [row.entry_id for row in stream.groups[b"g"].pending.rows((0, 0), (99, 0), -1, None)]
    if acknowledge:
        replica.record(PendingDropped(KEY, b"g", delivery.intervals))
    r.world.end_turn(region - 1)
    return ids


def test_runs_of_a_group_do_not_outlive_its_creates(r: Regions) -> None:
    """C6c: R2 acked; R1 DESTROY, CREATE; R2 joins R1's state: the new group delivers the entry."""
    r.add(1, (1, 1))
    r.create(1)
    r.send(1, 2)
    assert read(r, 2, acknowledge=True) == [(1, 1)]
    r.destroy(1)
    r.create(1)
    group = r.join(2, 1).groups[b"g"]
    assert sorted(group.creates) == [(1, 4)] and not group.acked and not group.consumers
    assert read(r, 2, acknowledge=False) == [(1, 1)]


@pytest.mark.parametrize(("target", "source"), [(1, 2), (2, 1)])
def test_a_destroy_kills_a_create_that_does_not_follow_it(r: Regions, target: int, source: int) -> None:
    r.create(1)
    r.destroy(1)
    r.create(2)
    assert not r.join(target, source).groups


def test_a_create_that_follows_the_destroy_of_the_other_side_lives(r: Regions) -> None:
    r.create(1)
    r.destroy(1)
    r.send(1, 2)
    r.create(2)
    assert sorted(r.join(1, 2).groups[b"g"].creates) == [(2, 1)]


@pytest.mark.parametrize(("target", "source"), [(1, 2), (2, 1)])
def test_a_delete_of_the_key_kills_creates_as_well(r: Regions, target: int, source: int) -> None:
    added_at_both(r)
    r.delete(1)
    r.create(2)
    assert not r.join(target, source).groups


def test_a_tombstone_that_was_subsumed_there_goes(r: Regions) -> None:
    r.create(1)
    r.destroy(1)
    r.create(1)
    r.send(1, 2)
    r.delete(1)
    assert streams_of(r[2])[KEY].destroyed == {b"g": {1: 2}}
    stream = r.join(2, 1)
    assert not stream.destroyed and stream.deleted == {1: 4}


def test_a_tombstone_that_another_subsumed_counts_by_it(r: Regions) -> None:
    r.create(1)
    r.destroy(1)
    r.create(1)
    r.delete(1)
    assert not streams_of(r[1])[KEY].destroyed
    r.create(2)
    assert not r.join(2, 1).groups
    assert streams_of(r[2])[KEY].deleted == {1: 4}


def test_tombstones_that_come_with_a_join_kill_what_comes_later(r: Regions) -> None:
    r.create(3)
    r.create(1)
    r.destroy(1)
    r.join(2, 1)
    r.send(3, 2)
    assert not streams_of(r[2])[KEY].groups


def test_concurrent_creates_join_into_one_group_with_the_lower_start(r: Regions) -> None:
    r.add(1, (1, 1))
    r.add(1, (5, 1))
    r.send(1, 2)
    r.create(1, Position((2, 0)))
    r.create(2)
    assert read(r, 1, acknowledge=True) == [(5, 1)]
    group = r.join(1, 2).groups[b"g"]
    assert sorted(group.creates) == [(1, 3), (2, 1)] and group.start() == Position()
    assert read(r, 1, acknowledge=False) == [(1, 1)]


def shared_group(r: Regions) -> None:
    """Two entries and a group, known to both regions, and both delivered in both."""
    added_at_both(r)
    r.create(1)
    r.send(1, 2)
    read(r, 1, acknowledge=False)


def test_pending_entries_inside_runs_that_come_leave(r: Regions) -> None:
    shared_group(r)
    read(r, 2, acknowledge=True)
    group = r.join(1, 2).groups[b"g"]
    assert not group.pending.count and group.frontier(1) == (2, 1)


def test_pending_entries_inside_own_runs_stay(r: Regions) -> None:
    """A deleted entry that an own run steps over stays until it is acknowledged, wherever the run comes back from."""
    shared_group(r)
    r[1].remove_entries(KEY, {1: [(1, 1)]}, False, (1, 1))
    r[1].record(PendingDropped(KEY, b"g", OriginIntervals(1, (1, 1), (2, 1))))
    r.world.end_turn(0)
    assert streams_of(r[1])[KEY].groups[b"g"].frontier(1) == (2, 1)
    r.send(1, 2)
    group = r.join(1, 2).groups[b"g"]
    assert [row.entry_id for row in group.pending.rows((0, 0), (9, 9), -1, None)] == [(1, 1)]


def test_what_is_replayed_stays_pending(r: Regions) -> None:
    """C9 with a join: what SETID made readable again is neither skipped nor dropped by runs from elsewhere."""
    shared_group(r)
    r[1].record(PositionSet(KEY, b"g", Position(), 0))
    r.world.end_turn(0)
    read(r, 2, acknowledge=True)
    assert r.join(1, 2).groups[b"g"].pending.count == 2
    assert read(r, 1, acknowledge=False) == [(1, 1), (2, 1)]


def test_a_join_may_close_the_gap_of_a_run(r: Regions) -> None:
    """C10b: an entry read here is acknowledged elsewhere, so what was acknowledged behind it becomes contiguous."""
    shared_group(r)
    r[1].record(PendingDropped(KEY, b"g", OriginIntervals(1, (1, 1), (2, 1))))
    r.world.end_turn(0)
    assert not streams_of(r[1])[KEY].groups[b"g"].acked
    stream = streams_of(r[2])[KEY]
    first = stream.groups[b"g"].next_entries(stream.chains, 1)
    r[2].record(EntriesDelivered(KEY, b"g", b"c", 1, first.intervals, True, 0))
    assert r.join(1, 2).groups[b"g"].frontier(1) == (2, 1)
    assert r.world.batches[-1].origin == 1 and isinstance(r.world.batches[-1].effects[0], fx.Acknowledged)


def test_a_group_that_is_new_here_takes_no_locals(r: Regions) -> None:
    shared_group(r)
    r[1].record(ConsumerCreated(KEY, b"g", b"d", 1))
    group = r.join(3, 1).groups[b"g"]
    assert not group.consumers and not group.pending.count and not group.delivered
    assert group.entries_read == fx.UNKNOWN_ENTRIES_READ
    assert read(r, 3, acknowledge=False) == [(1, 1), (2, 1)]


# What was forgotten, and what was evicted


def forgotten_everywhere(r: Regions) -> VersionVector:
    """R3 holds a key with an entry and a group and was not counted when R1 deleted it and forgot that."""
    r.add(1, (1, 1))
    r.create(1)
    r.send(1, 3)
    r.delete(1)
    r[1].keyspace.collect(r[1].applied.vector.copy(), ALL)
    assert not remaining(r[1].keyspace)
    return r[1].applied.vector


def test_a_key_that_is_gone_without_a_trace_goes(r: Regions) -> None:
    vector = forgotten_everywhere(r)
    r[3].join(WholeState(vector=vector))
    r[3].check()
    stream = streams_of(r[3])[KEY]
    assert not stream.exists() and r[3].applied.vector == vector


def test_a_key_that_is_gone_without_a_trace_does_not_come_back(r: Regions) -> None:
    forgotten_everywhere(r)
    join(r[1], r.world.clone(2))
    r[1].check()
    assert not streams_of(r[1])[KEY].exists()


def late_add(r: Regions) -> None:
    """R3 was evicted while it held an add that nobody else had, and R1 deleted and forgot the key."""
    r.add(3, (1, 1))
    r.add(3, (2, 1))
    r.send(3, 1)
    r.add(3, (3, 1))
    forgotten_everywhere(r)


def test_adds_that_were_voided_and_forgotten_here_are_not_counted_again(r: Regions) -> None:
    late_add(r)
    stream = r.join(1, 3)
    assert ids_in(stream) == [(3, 1)] and stream.entries_added() == 1
    r.send(1, 3)
    assert streams_of(r[3])[KEY].entries_added() == 1


def test_adds_that_were_voided_and_forgotten_there_are_not_counted_here(r: Regions) -> None:
    """The same from the other side: R3 hears of the DEL only by the state of R1."""
    late_add(r)
    stream = r.join(3, 1)
    assert ids_in(stream) == [(3, 1)] and stream.entries_added() == 1


def test_a_forgotten_count_exists_even_if_what_is_new_of_it_was_removed(r: Regions) -> None:
    r.add(3, (1, 1))
    r.send(3, 1)
    r.add(3, (2, 1))
    r[3].remove_entries(KEY, {3: [(2, 2)]}, False, (2, 1))
    r.world.end_turn(2)
    forgotten_everywhere(r)
    stream = r.join(1, 3)
    assert stream.exists() and not ids_in(stream) and stream.entries_added() == 1


def evicted_create(r: Regions) -> None:
    """R3's create is void, as R1 knows, which has not seen it; R2 has it beside one of its own."""
    r.create(3)
    r.send(3, 2)
    r.create(2)
    r[1].evict_member(3)
    r.world.end_turn(0)


def test_a_void_create_does_not_come_with_a_join(r: Regions) -> None:
    evicted_create(r)
    assert sorted(r.join(1, 2).groups[b"g"].creates) == [(2, 1)]


def test_a_create_that_was_voided_there_goes_alone(r: Regions) -> None:
    evicted_create(r)
    r.send(2, 1)
    assert sorted(streams_of(r[1])[KEY].groups[b"g"].creates) == [(2, 1)]
    join(r[2], r.world.clone(0))
    r[2].check()
    assert sorted(streams_of(r[2])[KEY].groups[b"g"].creates) == [(2, 1)]


def test_what_was_read_under_a_create_that_was_voided_there_is_read_again(r: Regions) -> None:
    """The void create shares no group with the one that the other side has made since, as concurrent creates do."""
    r.add(1, (1, 1))
    r.send(1, 3)
    r.create(3)
    assert read(r, 3, acknowledge=True) == [(1, 1)]
    r[1].evict_member(3)
    r.world.end_turn(0)
    r.create(1)
    group = r.join(3, 1).groups[b"g"]
    assert sorted(group.creates) == [(1, 3)] and not group.consumers
    assert read(r, 3, acknowledge=False) == [(1, 1)]


def test_a_create_that_was_voided_here_lends_no_group_to_one_that_comes(r: Regions) -> None:
    r.add(1, (1, 1))
    r.send(1, 3)
    r.send(1, 2)
    r.create(3)
    r.send(3, 2)
    r[1].evict_member(3)
    r.world.end_turn(0)
    r.create(1)
    assert read(r, 1, acknowledge=True) == [(1, 1)]
    group = r.join(1, 2).groups[b"g"]
    assert sorted(group.creates) == [(1, 3)]
    assert read(r, 1, acknowledge=False) == []


# Around the replica


def test_a_joined_key_wakes_its_readers(r: Regions) -> None:
    r.add(1, (1, 1))
    r[2].changed.drain_touched()
    r.join(2, 1)
    assert r[2].changed.drain_touched() == [KEY]


def test_a_join_waits_for_the_end_of_the_turn() -> None:
    replica = Replica(1)
    replica.add_entry(KEY, (1, 1), FIELDS)
    with pytest.raises(AssertionError, match="a turn is open"):
        replica.join(WholeState(vector=VersionVector({2: 1})))


def test_a_log_with_a_join_rebuilds_the_state(r: Regions) -> None:
    shared_group(r)
    read(r, 2, acknowledge=True)
    r.join(1, 2)
    assert replicated(replayed(1, r.world.logs[0])) == replicated(r[1])
