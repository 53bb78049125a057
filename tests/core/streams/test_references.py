"""What groups need, compared entry by entry with what a removal of the oldest settled entries takes."""

from __future__ import annotations

import random

import pytest

from crdtstream.core.effects import CounterRange, Position
from crdtstream.core.local_facts import EntriesDelivered, PendingDropped, PositionSet
from crdtstream.core.replica import Replica
from crdtstream.core.streams.references import ids_of, is_needed, oldest_settled, origins_referring
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId
from tests.core.histories import join

KEY = (0, b"s")
GROUPS = (b"g", b"h")


def exchange(replicas: list[Replica]) -> None:
    for _ in range(2):
        for replica in replicas:
            replica.acknowledge_all()
        batches = [batch for replica in replicas if (batch := replica.drain().batch) is not None]
        for batch in batches:
            for other in replicas:
                if batch.origin != other.applied.origin:
                    other.apply_batch(batch)


def stream_of(replica: Replica) -> Stream:
    stream = replica.keyspace.find(KEY)
    assert stream is not None
    return stream


def read(replica: Replica, name: bytes, count: int) -> None:
    stream = stream_of(replica)
    delivery = stream.groups[name].next_entries(stream.chains, count)
    if delivery.count:
        replica.record(EntriesDelivered(KEY, name, b"c", 1, delivery.intervals, False, -1))


def acknowledge(replica: Replica, name: bytes, chosen: random.Random) -> None:
    pending = stream_of(replica).groups[name].pending
    ids = sorted({row.entry_id for row in pending.rows(ID_MIN, ID_MAX, -1, None) if chosen.random() < 0.6})
    if ids:
        replica.record(PendingDropped(KEY, name, pending.find(ids)[0]))


def worlds(seed: int) -> Replica:
    """A region with two groups that have read, acknowledged, skipped and asked again; a second region did so too."""
    chosen = random.Random(seed)
    one, two = Replica(1), Replica(2)
    for number in range(1, 3):
        one.add_entry(KEY, (number, 1), [b"f", b"v"])
    exchange([one, two])
    for name in GROUPS:
        one.create_group(KEY, name, Position((chosen.randrange(3), 0)), -1)
    exchange([one, two])
    for step in range(40):
        replica = chosen.choice([one, two])
        origin = replica.applied.origin
        name = chosen.choice(GROUPS)
        action = chosen.randrange(8)
        if action < 3:
            replica.add_entry(KEY, (10 + step, origin), [b"f", b"v"])
        elif action < 5:
            read(replica, name, chosen.randrange(1, 6))
        elif action == 5:
            acknowledge(replica, name, chosen)
        elif action == 6 and chosen.random() < 0.3:
            replica.record(PositionSet(KEY, name, Position((chosen.randrange(50), 0)), -1))
        else:
            exchange([one, two])
    exchange([one, two])
    return one


def settled_one_by_one(stream: Stream, end: EntryId, count: int, alone: bool) -> dict[int, list[int]]:
    found: list[tuple[EntryId, int, int]] = []
    for origin, tree in stream.trees.items():
        for low, high in tree.counter_ranges():
            for counter in range(low, high + 1):
                entry_id = tree.id_of(counter)
                assert entry_id is not None
                if entry_id <= end and not is_needed(stream, origin, entry_id, alone):
                    found.append((entry_id, origin, counter))
    counters: dict[int, list[int]] = {}
    for _, origin, counter in sorted(found)[:count]:
        counters.setdefault(origin, []).append(counter)
    return counters


def counters_in(stream: Stream, ranges: dict[int, list[CounterRange]]) -> dict[int, list[int]]:
    return {
        origin: [counter for piece in pieces for counter in stream.trees[origin].counters_between(*piece)]
        for origin, pieces in ranges.items()
    }


@pytest.mark.parametrize("seed", range(60))
def test_the_oldest_settled_entries(seed: int) -> None:
    stream = stream_of(worlds(seed))
    chosen = random.Random(-seed)
    for alone in (False, True):
        for end in (ID_MAX, (20, 0)):
            count = chosen.randrange(1, 30)
            ranges, number = oldest_settled(stream, end, count, alone)
            found = counters_in(stream, ranges)
            assert found == settled_one_by_one(stream, end, count, alone) and number == sum(map(len, found.values()))


def test_ids_of_ranges() -> None:
    replica = Replica(1)
    for number in (1, 2, 3, 5):
        replica.add_entry(KEY, (number, 0), [b"f", b"v"])
    stream = stream_of(replica)
    below = (0, 2**64 - 1)
    assert ids_of(stream, {1: [(1, 2), (4, 4)]}) == {1: [(below, (2, 0)), ((4, 2**64 - 1), (5, 0))]}
    assert ids_of(stream, {1: [(7, 9)]}) == {}


def test_who_refers_to_an_id() -> None:
    replica = Replica(1)
    replica.add_entry(KEY, (1, 0), [b"f", b"v"])
    replica.create_group(KEY, b"g", Position(), -1)
    read(replica, b"g", -1)
    assert origins_referring(stream_of(replica), (1, 0)) == [1]
    assert origins_referring(stream_of(replica), (2, 0)) == []


def test_a_join_drops_what_is_pending_of_what_it_removes() -> None:
    one, two = Replica(1), Replica(2)
    for number in (1, 2):
        one.add_entry(KEY, (number, 1), [b"f", b"v"])
    one.create_group(KEY, b"g", Position(), -1)
    exchange([one, two])
    read(one, b"g", -1)
    two.remove_entries(KEY, {1: [(1, 1)]}, False, (1, 1), {1: [((1, 0), (1, 1))]})
    for replica in (one, two):
        replica.drain()
    join(one, two)
    pending = stream_of(one).groups[b"g"].pending
    assert [row.entry_id for row in pending.rows(ID_MIN, ID_MAX, -1, None)] == [(2, 1)]
    one.check()
