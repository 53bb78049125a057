"""Snapshots: what they give is the state at their vector, whatever happens while they are read."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.digest import digest_stream
from crdtstream.core.effects import Key, Position
from crdtstream.core.local_facts import EntriesDelivered
from crdtstream.core.replica import Replica
from crdtstream.core.streams.deleted_streams import FORGOTTEN
from crdtstream.core.streams.trimming import trimmable
from crdtstream.protocols.transfer_rows import TransferReader
from crdtstream.replication.transfer.snapshot import Snapshot

FOUNDERS = [1]
KEYS = [(0, b"x"), (0, b"y"), (3, b"x")]

steps = st.tuples(
    st.sampled_from(["add", "add", "add", "trim", "remove", "del", "create", "destroy", "read", "expire"]),
    st.sampled_from(KEYS),
    st.integers(1, 300),
)


def act(replica: Replica, clock: int, step: tuple[str, Key, int]) -> None:
    kind, key, count = step
    stream = replica.keyspace.find(key)
    if kind == "add":
        for offset in range(count):
            replica.add_entry(key, (clock, offset), [b"f", b"v" * (count % 7)])
    elif kind == "create":
        replica.create_group(key, b"g", Position(), 0)
    elif kind == "destroy":
        replica.destroy_group(key, b"g")
    elif kind == "del":
        replica.delete_stream(key)
    elif stream is not None:
        act_on(replica, key, kind, count)
    replica.acknowledge_all()
    replica.drain()


def act_on(replica: Replica, key: Key, kind: str, count: int) -> None:
    stream = replica.keyspace.find(key)
    assert stream is not None
    if kind == "trim":
        replica.remove_entries(key, trimmable(stream, count), True, None)
    elif kind == "remove" and stream.length:
        first = stream.first_entry()
        assert first is not None
        replica.remove_entries(key, trimmable(stream, stream.length - 1), False, first[0])
    elif kind == "expire":
        replica.set_expiry(key, count)
    elif kind == "read" and b"g" in stream.groups:
        delivery = stream.groups[b"g"].next_entries(stream.chains, count)
        replica.record(EntriesDelivered(key, b"g", b"c", 1, delivery.intervals, True, 0))


def digests(replica: Replica) -> dict[Key, bytes]:
    found: dict[Key, bytes] = {}
    for number, database in enumerate(replica.keyspace.databases):
        for name, stream in database.items():
            found[(number, name)] = digest_stream(stream) + repr((stream.deleted, stream.destroyed)).encode()
    return found


def digests_read(reader: TransferReader) -> dict[Key, bytes]:
    streams = reader.streams.items()
    return {key: digest_stream(stream) + repr((stream.deleted, stream.destroyed)).encode() for key, stream in streams}


@settings(max_examples=150, deadline=None)
@given(
    before=st.lists(steps, max_size=12),
    during=st.lists(st.tuples(steps, st.integers(0, 5)), max_size=12),
    chunk_bytes=st.integers(20, 4000),
)
def test_a_snapshot_is_the_state_of_its_moment(
    before: list[tuple[str, Key, int]], during: list[tuple[tuple[str, Key, int], int]], chunk_bytes: int
) -> None:
    replica = Replica(1)
    for clock, step in enumerate(before, 1):
        act(replica, clock, step)
    expected, vector = digests(replica), replica.applied.vector.copy()
    snapshot = Snapshot(replica, FOUNDERS)
    reader = TransferReader()
    for clock, (step, chunks) in enumerate(during, 100):
        act(replica, clock, step)
        snapshot.check()
        for _ in range(chunks):
            reader.feed(snapshot.chunk(chunk_bytes))
    while not snapshot.is_done():
        reader.feed(snapshot.chunk(chunk_bytes))
    assert reader.done
    assert reader.vector == vector == snapshot.vector
    assert digests_read(reader) == expected
    assert replica.keyspace.observers == []


def test_chunks_are_full_but_the_last() -> None:
    replica = Replica(1)
    act(replica, 1, ("add", KEYS[0], 300))
    snapshot = Snapshot(replica, FOUNDERS)
    sizes = []
    while not snapshot.is_done():
        sizes.append(len(snapshot.chunk(1000)))
    assert set(sizes[:-1]) == {1000} and 0 < sizes[-1] <= 1000
    assert snapshot.chunk(1000) == b""


def test_a_snapshot_that_is_let_go_observes_no_more() -> None:
    replica = Replica(1)
    snapshot = Snapshot(replica, FOUNDERS)
    assert replica.keyspace.observers == [snapshot]
    snapshot.release()
    snapshot.release()
    assert replica.keyspace.observers == []
    snapshot.check()


def test_a_stream_that_is_forgotten_meanwhile_is_told_of() -> None:
    replica = Replica(1)
    for clock, step in enumerate([("add", KEYS[0], 3), ("del", KEYS[0], 1)], 1):
        act(replica, clock, step)
    stable = replica.applied.vector.copy()
    replica.keyspace.collect(stable, 10)
    snapshot = Snapshot(replica, FOUNDERS)
    replica.keyspace.collection.deleted.streams_max = 0
    replica.keyspace.collect(stable, 10)
    assert list(replica.keyspace.databases[0]) == [FORGOTTEN]
    reader = TransferReader()
    while not snapshot.is_done():
        reader.feed(snapshot.chunk(1000))
    assert reader.streams[KEYS[0]].metas.of(1).trimmed_to == 3


def test_without_the_observer_a_change_is_seen() -> None:
    """The proof that the first test can fail."""
    replica = Replica(1)
    act(replica, 1, ("add", KEYS[0], 3))
    expected = digests(replica)
    snapshot = Snapshot(replica, FOUNDERS)
    replica.keyspace.observers.clear()
    act(replica, 2, ("del", KEYS[0], 1))
    replica.keyspace.observers.append(snapshot)
    reader = TransferReader()
    while not snapshot.is_done():
        reader.feed(snapshot.chunk(1000))
    assert digests_read(reader) != expected
