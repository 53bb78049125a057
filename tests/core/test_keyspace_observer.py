"""Observers: told before an effect or a join changes a key, and only then."""

from __future__ import annotations

from random import Random

import pytest

from crdtstream.core.effects import Key, Position
from crdtstream.core.keyspace import Observer
from crdtstream.core.local_facts import ConsumerCreated, EntriesDelivered, PendingDropped
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.origin_intervals import OriginIntervals
from crdtstream.core.whole_state import WholeState
from tests.core.histories import OPERATIONS, Step, World, streams_of
from tests.core.views import remembered_of, visible_stream

KEY: Key = (0, b"x")


class Witness(Observer):
    """Sees each key as it was when it was announced first."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.before: dict[Key, object] = {}

    def before_change(self, key: Key) -> None:
        if key not in self.before:
            self.before[key] = seen(self.replica, key)


def seen(replica: Replica, key: Key) -> object:
    """None for a key of which nothing is known."""
    stream = streams_of(replica).get(key, Stream())
    return (visible_stream(stream), remembered_of(stream)) if stream.exists() or any(remembered_of(stream)) else None


class Observed(World):
    """A world in which every change of replicated state must have been announced."""

    def step(self, step: Step) -> None:
        witnesses = [Witness(replica) for replica in self.replicas]
        states = [{key: seen(replica, key) for key in streams_of(replica)} for replica in self.replicas]
        for replica, witness in zip(self.replicas, witnesses, strict=True):
            replica.keyspace.observers.append(witness)
        super().step(step)
        for replica, witness, before in zip(self.replicas, witnesses, states, strict=True):
            replica.keyspace.observers.remove(witness)
            for key in streams_of(replica):
                if seen(replica, key) != before.get(key):
                    assert witness.before[key] == before.get(key)
            assert all(state == before.get(key) for key, state in witness.before.items())


@pytest.mark.parametrize("seed", range(40))
def test_whatever_changes_a_key_is_announced_before(seed: int) -> None:
    world = Observed((1, 2, 3))
    rng = Random(seed)
    for _ in range(80):
        world.step((rng.choice(OPERATIONS), rng.randrange(3), rng.randrange(12), rng.randrange(12)))


def test_a_join_announces_what_it_may_change() -> None:
    replica = Replica(1)
    replica.add_entry(KEY, (1, 1), [b"f", b"v"])
    replica.drain()
    witness = Witness(replica)
    replica.keyspace.observers.append(witness)
    before = seen(replica, KEY)
    other: Key = (3, b"other")
    theirs = Replica(2)
    theirs.add_entry(other, (1, 2), [b"f", b"v"])
    replica.join(WholeState(streams_of(theirs), VersionVector({1: 1, 2: 1})))
    assert witness.before == {KEY: before, other: None}
    assert seen(replica, KEY) != before, "the other side had seen the entry removed"


def test_local_facts_are_nobodys_business() -> None:
    replica = Replica(1)
    replica.add_entry(KEY, (1, 1), [b"f", b"v"])
    replica.create_group(KEY, b"g", Position(), 0)
    replica.drain()
    witness = Witness(replica)
    replica.keyspace.observers.append(witness)
    replica.record(ConsumerCreated(KEY, b"g", b"c", 1))
    replica.record(EntriesDelivered(KEY, b"g", b"c", 1, OriginIntervals(1, (0, 0), (1, 1)), False, 1))
    assert not witness.before
    replica.record(PendingDropped(KEY, b"g", OriginIntervals(1, (0, 0), (1, 1))))
    replica.acknowledge_all()
    assert KEY in witness.before, "the run that became contiguous is an effect"
