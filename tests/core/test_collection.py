"""Collection: regions that forget at different times stay alike, memory goes to zero, and idle keys cost nothing."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crdtstream.core.collection import Collection
from crdtstream.core.digest import digest_replica
from crdtstream.core.effects import Batch, Key, Position
from crdtstream.core.joining import forgotten_adds
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.streams.trimming import trimmable
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import decode_batch, encode_batch
from tests.core.histories import copied, join
from tests.core.remaining import remaining
from tests.effort import examples

REGIONS = (1, 2, 3)
HOARDER = 9
KEYS: list[Key] = [(0, b"x"), (3, b"y")]
GROUPS = [b"g", b"h"]
ALL = 1_000


class Cluster:
    """Three regions that collect, and one that only listens and never forgets."""

    def __init__(self) -> None:
        self.replicas = {origin: Replica(origin) for origin in (*REGIONS, HOARDER)}
        # By the first counter of each batch.
        self.logs: dict[int, dict[int, bytes]] = {origin: {} for origin in REGIONS}
        self.heard = {origin: {other: VersionVector() for other in REGIONS} for origin in REGIONS}
        self.time = 1

    def prepare(self, origin: int, action: str, key: Key, group: bytes) -> None:
        replica = self.replicas[origin]
        self.time += 1
        stream = replica.keyspace.find(key)
        if action == "add":
            top = (0, 0) if stream is None else stream.top
            replica.add_entry(key, max((self.time, origin), (top[0] + 1, origin)), [b"f", b"v"])
        elif action == "create" and (stream is None or group not in stream.groups):
            replica.create_group(key, group, Position(), 0)
        elif action == "destroy":
            replica.destroy_group(key, group)
        elif action == "delete":
            replica.delete_stream(key)
        elif stream is not None:
            self._change(replica, stream, action, key)
        batch = replica.drain().batch
        if batch is not None:
            self.logs[origin][batch.first] = encode_batch(batch)

    def _change(self, replica: Replica, stream: Stream, action: str, key: Key) -> None:
        if action == "remove":
            ranges = {origin: tree.counter_ranges() for origin, tree in stream.trees.items() if tree.count}
            replica.remove_entries(key, ranges, False, stream.top)
        elif action == "trim":
            replica.remove_entries(key, trimmable(stream, 1), True, None)
        elif action == "set":
            replica.set_id(key, (stream.top[0] + 1, 0), 7, None)

    def next_batch(self, sender: int, receiver: int) -> Batch | None:
        """What the receiver lacks first of this origin, if it passes the gates."""
        vector = self.replicas[receiver].applied.vector
        payload = self.logs[sender].get(vector.get(sender) + 1)
        batch = None if payload is None else decode_batch(payload)
        return batch if batch is not None and vector.descends(batch.context) else None

    def deliver(self, sender: int, receiver: int) -> bool:
        batch = self.next_batch(sender, receiver) if sender != receiver else None
        if batch is not None:
            self.replicas[receiver].apply_batch(batch)
        return batch is not None

    def progress(self, sender: int, receiver: int) -> None:
        """Passes the second gate or is lost."""
        vector = self.replicas[sender].applied.vector
        if self.replicas[receiver].applied.vector.descends(vector):
            self.heard[receiver][sender] = vector.copy()

    def collect(self, origin: int, keys_max: int = ALL) -> int:
        stable = self.replicas[origin].applied.vector.copy()
        for other in REGIONS:
            if other != origin:
                stable = stable.meet(self.heard[origin][other])
        return self.replicas[origin].keyspace.collect(stable, keys_max)

    def sync(self) -> None:
        pairs = [(a, b) for a in REGIONS for b in self.replicas]
        while any(self.deliver(a, b) for a, b in pairs):
            pass
        for a, b in pairs:
            if b != HOARDER:
                self.progress(a, b)

    def check(self) -> None:
        for replica in self.replicas.values():
            replica.check()

    def check_alike(self) -> None:
        digests = {origin: digest_replica(replica).hex() for origin, replica in self.replicas.items()}
        assert len(set(digests.values())) == 1, digests


actions = st.sampled_from(["add", "create", "destroy", "delete", "delete", "remove", "trim", "set"])
regions = st.sampled_from(REGIONS)
steps = st.one_of(
    st.tuples(st.just("prepare"), regions, actions, st.sampled_from(KEYS), st.sampled_from(GROUPS)),
    st.tuples(st.just("deliver"), regions, st.sampled_from((*REGIONS, HOARDER))),
    st.tuples(st.just("progress"), regions, regions),
    st.tuples(st.just("collect"), regions),
    st.just(("sync",)),
)
X = KEYS[0]


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(steps, max_size=40))
@example(  # an add opens a new count once all of the last count is voided, also where others keep the key alive
    [
        ("prepare", 1, "add", X, b"g"),
        ("prepare", 1, "delete", X, b"g"),
        ("sync",),
        ("collect", 3),
        ("prepare", 2, "add", X, b"g"),
        ("deliver", 2, 1),
        ("prepare", 1, "add", X, b"g"),
        ("deliver", 2, 3),
        ("deliver", 1, 3),
        ("prepare", 3, "delete", X, b"g"),
        ("prepare", 1, "add", X, b"g"),
    ]
)
def test_regions_that_forget_at_different_times_stay_alike(history: list[tuple[object, ...]]) -> None:
    cluster = Cluster()
    for name, *words in history:
        getattr(cluster, str(name))(*words)
        cluster.check()
    cluster.sync()
    cluster.check_alike()
    for origin in REGIONS:
        cluster.collect(origin)
    cluster.check()
    cluster.check_alike()


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(steps, max_size=30))
def test_memory_goes_to_zero_once_all_is_deleted_and_all_are_up(history: list[tuple[object, ...]]) -> None:
    cluster = Cluster()
    for name, *words in history:
        getattr(cluster, str(name))(*words)
    cluster.sync()
    for key in KEYS:  # written once more, so that the DEL sees what is left of a key that is gone
        cluster.prepare(2, "add", key, b"")
        cluster.prepare(2, "delete", key, b"")
    cluster.sync()
    for origin in REGIONS:
        assert cluster.collect(origin) == len(KEYS)
        assert not remaining(cluster.replicas[origin].keyspace), "something is still remembered"
        assert not cluster.replicas[origin].keyspace.collection.waiting
    assert any(cluster.replicas[HOARDER].keyspace.databases)
    cluster.check_alike()


def say(sender: Replica, *receivers: Replica) -> None:
    batch = sender.drain().batch
    assert batch is not None
    for receiver in receivers:
        receiver.apply_batch(copied(batch))


def test_the_tail_of_an_evicted_origin_adds_to_a_count_that_some_have_forgotten() -> None:
    """It has not heard of the DEL that all who count hold."""
    tail, first, second = Replica(3), Replica(1), Replica(2)

    tail.add_entry(X, (1, 3), [b"f", b"v"])
    say(tail, first, second)
    first.delete_stream(X)
    say(first, second)
    assert first.keyspace.collect(VersionVector({1: 1}), ALL) == 1 and not remaining(first.keyspace)
    tail.add_entry(X, (2, 3), [b"f", b"v"])
    say(tail, first, second)
    assert digest_replica(first) == digest_replica(second)
    first.delete_stream(X)
    say(first, second)
    assert first.keyspace.find(X) is None and second.keyspace.find(X) is None
    assert digest_replica(first) == digest_replica(second)


@pytest.mark.parametrize("removed", [False, True])
def test_a_state_with_the_tail_of_an_evicted_origin_adds_what_its_batches_would(removed: bool) -> None:
    """Some of the tail was removed since, so the state does not say how many adds the collected DEL had voided; some of
    those may have been removed before, so that the DEL removed no entry.
    """
    tail, first, second = Replica(3), Replica(1), Replica(2)
    for key in (X, KEYS[1], KEYS[1]):
        tail.add_entry(key, (tail.applied.counter() + 1, 3), [b"f", b"v"])
    if removed:
        tail.remove_entries(X, {3: [(1, 1)]}, False, None)
    say(tail, first, second)
    first.delete_stream(X)
    say(first, second)
    assert first.keyspace.collect(VersionVector({1: 1}), ALL) == 1
    for number in (1, 2, 3):
        tail.add_entry(X, (100 + number, 3), [b"f", b"v"])
    counter = tail.applied.counter()
    tail.remove_entries(X, {3: [(counter - 1, counter - 1)]}, False, None)
    say(tail, second)
    join(first, tail).check()
    assert digest_replica(first) == digest_replica(second)


writes = st.tuples(
    st.sampled_from((1, 3, 3)),
    st.sampled_from(["add", "add", "add", "trim", "delete"]),
    st.sampled_from([X, X, KEYS[1]]),
)


@settings(max_examples=examples(600), deadline=None)
@given(st.lists(writes, min_size=1, max_size=6), st.lists(writes, min_size=2, max_size=10))
@example(  # the DEL voided one add, as the batches say; of the two that are later one lives
    [(3, "add", X), (3, "add", KEYS[1]), (3, "add", KEYS[1])],
    [(1, "delete", X), (3, "add", X), (3, "add", X), (3, "trim", X)],
)
def test_the_state_of_an_evicted_region_and_its_batches_give_the_same(
    together: list[tuple[int, str, Key]], apart: list[tuple[int, str, Key]]
) -> None:
    """Region 1 has evicted region 3 and forgets without it; then it takes its state, and region 2 its batches."""
    cluster = Cluster()
    first, third = cluster.replicas[1], cluster.replicas[3]
    for origin, action, key in together:
        cluster.prepare(origin, action, key, b"")
        cluster.deliver(3, 1)
        cluster.deliver(1, 3)
    for origin, action, key in apart:
        cluster.prepare(origin, action, key, b"")
        first.keyspace.collect(VersionVector({1: first.applied.counter()}), ALL)
    while cluster.deliver(1, 2) or cluster.deliver(3, 2):
        pass
    join(first, third).check()
    assert digest_replica(first) == digest_replica(cluster.replicas[2])


def test_no_more_adds_are_taken_for_forgotten_than_there_were_counters() -> None:
    """The second add came after the DEL, of which this region has not heard, and was removed since."""
    tail = Replica(3)
    for counter in (1, 2, 3):
        tail.add_entry(X, (counter, 3), [b"f", b"v"])
    tail.remove_entries(X, {3: [(2, 2)]}, True, None)
    stream = tail.keyspace.find(X)
    assert stream is not None and forgotten_adds(stream, 3, Stream(), 1) == 1
    assert forgotten_adds(stream, 3, Stream(), 3) == 2, "the last one is not voided"


def test_many_keys_leave_nothing() -> None:
    cluster = Cluster()
    for number in range(300):
        key = (number % 16, b"k%d" % number)
        origin = 1 + number % 3
        cluster.prepare(origin, "add", key, b"")
        cluster.prepare(origin, "create", key, b"g")
        cluster.prepare(origin, "destroy", key, b"g")
        cluster.prepare(origin, "delete", key, b"")
    cluster.sync()
    replica = cluster.replicas[1]
    assert sum(map(len, replica.keyspace.databases)) == 300
    slices = [cluster.collect(1, 64) for _ in range(6)]
    assert slices == [64, 64, 64, 64, 44, 0], "in slices"
    assert not remaining(replica.keyspace) and not replica.keyspace.collection.waiting
    replica.check()


def test_what_is_not_stable_waits_and_costs_nothing() -> None:
    cluster = Cluster()
    cluster.prepare(1, "add", X, b"")
    cluster.prepare(1, "delete", X, b"")
    stable = VersionVector({1: 1})
    replica = cluster.replicas[1]
    assert replica.keyspace.collect(stable, ALL) == 1
    assert replica.keyspace.databases[0][b"x"].deleted == {1: 2}
    assert replica.keyspace.collect(stable, ALL) == 0, "nothing has changed since"
    assert replica.keyspace.collect(VersionVector({1: 2}), ALL) == 1
    assert not remaining(replica.keyspace)


@pytest.mark.parametrize("action", ["set", "remove"])
def test_a_register_that_no_delete_has_seen_is_kept(action: str) -> None:
    """It decides which IDs may follow, in every region alike."""
    cluster = Cluster()
    cluster.prepare(1, "add", X, b"")
    cluster.sync()
    cluster.prepare(1, action, X, b"")
    cluster.prepare(2, "delete", X, b"")
    cluster.sync()
    for origin in REGIONS:
        cluster.collect(origin)
        stream = cluster.replicas[origin].keyspace.databases[0][b"x"]
        assert not stream.exists() and not stream.deleted and stream.top > (0, 0)
    cluster.check()


def test_a_checkpoint_that_is_read_is_collected_as_well() -> None:
    stream = Stream()
    stream.deleted = {1: 5}
    replica = Replica(1)
    replica.applied.restore(X, stream, 1)
    replica.applied.end_replay()
    replica.check()
    assert replica.keyspace.collect(VersionVector({1: 5}), ALL) == 1
    assert not remaining(replica.keyspace)


def test_check_sees_what_nobody_would_forget() -> None:
    stream = Stream()
    with pytest.raises(AssertionError, match="no longer exists and is not queued"):
        Collection().check([{b"x": stream}])
    stream.destroyed = {b"g": {1: 1}}
    with pytest.raises(AssertionError, match="are not queued"):
        Collection().check([{b"x": stream}])
