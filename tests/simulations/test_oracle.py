"""The specification: members, evictions, expiries, properties of groups; replicas apply in any causal order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.effects import Position, StreamDeleted
from crdtstream.core.members import FOUNDER
from crdtstream.core.replica import Replica
from crdtstream.core.streams.expiry import NO_EXPIRY
from crdtstream.core.streams.stream import Stream
from crdtstream.protocols.codec import decode_batch, encode_batch
from simulations.oracle import Expected, Oracle, actual
from tests.effort import examples

REGIONS = (1, 2, 3)
KEY = (0, b"x")

regions = st.sampled_from(REGIONS)
steps = st.one_of(
    st.tuples(st.sampled_from(["create", "create", "destroy", "delete", "join", "join", "evict"]), regions, regions),
    st.tuples(st.sampled_from(["found", "follow", "follow", "all"]), regions, regions),
    st.tuples(st.sampled_from(["expire", "persist"]), regions, regions),
    st.tuples(st.sampled_from(["set", "set", "deliver"]), regions, regions),
)


class Cluster:
    """Replicas, what each has prepared, and the oracle that hears it."""

    def __init__(self) -> None:
        self.replicas = {origin: Replica(origin) for origin in REGIONS}
        self.logs: dict[int, list[bytes]] = {origin: [] for origin in REGIONS}
        self.oracle = Oracle()
        self.admitted: set[int] = set()

    def step(self, action: str, origin: int, other: int) -> None:
        replica = self.replicas[origin]
        if action == "deliver":
            self.deliver(origin, other)
        elif action == "create":
            replica.create_group(KEY, b"g", Position(), 0)
        elif action == "destroy":
            replica.destroy_group(KEY, b"g")
        elif action == "set":
            self.set_property(replica, other)
        elif action == "delete":
            replica.delete_stream(KEY)
        elif action in ("expire", "persist"):
            if replica.keyspace.peek(KEY) is not None:
                replica.set_expiry(KEY, other if action == "expire" else NO_EXPIRY)
        elif action == "join":
            replica.join_member(other)
        elif action in ("found", "follow", "all"):
            self.admit(replica, action)
        elif origin != other:
            replica.evict_member(other)
        batch = replica.drain().batch
        if batch is not None:
            self.logs[origin].append(encode_batch(batch))
            self.oracle.record(batch)

    def set_property(self, replica: Replica, value: int) -> None:
        stream = replica.keyspace.find(KEY)
        if stream is not None and b"g" in stream.groups:
            replica.set_properties(KEY, b"g", {b"one": b"%d" % value})

    def admit(self, replica: Replica, way: str) -> None:
        """Once, and where there is a Join to follow."""
        joins = replica.applied.members.joins_of(replica.applied.origin)
        sponsor = FOUNDER if way == "found" else replica.applied.members.sponsor_of(replica.applied.origin)
        join = (joins[0] if joins else None) if way == "all" else sponsor
        if join is not None and replica.applied.origin not in self.admitted:
            self.admitted.add(replica.applied.origin)
            replica.say_admitted(join, way == "all")

    def deliver(self, sender: int, receiver: int) -> bool:
        replica = self.replicas[receiver]
        for payload in self.logs[sender] if sender != receiver else []:
            batch = decode_batch(payload)
            if batch.first == replica.applied.vector.get(sender) + 1 and replica.applied.vector.descends(batch.context):
                replica.apply_batch(batch)
                return True
        return False

    def check(self) -> None:
        for replica in self.replicas.values():
            replica.check()
            expected = self.oracle.expected(replica.applied.vector).get(KEY)
            stream = replica.keyspace.databases[0].get(b"x")
            assert (actual(stream).groups if stream else {}) == (expected.groups if expected else {})
            assert (actual(stream).properties if stream else {}) == (expected.properties if expected else {})
            expires_ms = (stream or Stream()).expires_ms
            assert expires_ms == (expected or Expected()).expires_ms
            assert replica.applied.members.lasting_rows() == self.oracle.members(replica.applied.vector)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(steps, max_size=25))
def test_members_and_what_evictions_void_are_as_specified(actions: list[tuple[str, int, int]]) -> None:
    cluster = Cluster()
    for action, origin, other in actions:
        cluster.step(action, origin, other)
        cluster.check()
    while any(cluster.deliver(a, b) for a in REGIONS for b in REGIONS):
        cluster.check()
    vectors = [replica.applied.vector for replica in cluster.replicas.values()]
    assert vectors[0] == vectors[1] == vectors[2]


def test_a_group_destroyed_by_an_evicted_origin_is_destroyed() -> None:
    cluster = Cluster()
    for step in (("create", 1, 1), ("deliver", 1, 3), ("evict", 1, 3), ("destroy", 3, 3), ("deliver", 3, 1)):
        cluster.step(*step)
    assert cluster.oracle.expected(cluster.replicas[1].applied.vector)[KEY].groups == {}
    cluster.check()


def test_who_deletes_an_expired_key_and_who_adds_to_one_is_late() -> None:
    replica = Replica(1)
    replica.add_entry(KEY, (1, 1), [b"f", b"v"])
    replica.set_expiry(KEY, 5)
    early = replica.drain().batch
    replica.delete_stream(KEY)
    late = replica.drain().batch
    assert early is not None and late is not None
    for clock_ms, count in ((5, 0), (6, 1)):
        oracle = Oracle()
        oracle.record(early, 3)
        oracle.record(late, clock_ms)
        effects = [effect for _, _, effect in oracle.late_effects(replica.applied.vector)]
        assert len(effects) == count
        assert all(isinstance(effect, StreamDeleted) for effect in effects)


def test_what_peers_give_back_was_made_before() -> None:
    replica, oracle = Replica(1), Oracle()
    replica.add_entry(KEY, (1, 1), [b"f", b"v"])
    replica.set_expiry(KEY, 5)
    replica.delete_stream(KEY)
    batch = replica.drain().batch
    assert batch is not None
    oracle.record(batch, 5)
    oracle.record(batch, 9)
    assert oracle.late_effects(replica.applied.vector) == []
