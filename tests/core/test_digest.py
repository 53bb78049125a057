"""Digests: equal where replicated state is equal, different where anything of it differs, blind to what is local."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.digest import DIGEST_BYTES, Digesting, digest_replica, digest_stream, walk_on
from crdtstream.core.effects import Batch, Position
from crdtstream.core.local_facts import ConsumerCreated, EntriesDelivered, PositionSet
from crdtstream.core.replica import Replica
from crdtstream.core.streams.expiry import NO_EXPIRY
from crdtstream.core.streams.trimming import trimmable
from crdtstream.core.values.origin_intervals import OriginIntervals
from crdtstream.protocols.codec import decode_batch, encode_batch

KEY = (0, b"s")
GROUP = b"g"
FIELDS = [b"f", b"v"]


def digest_of(replica: Replica, key: tuple[int, bytes] = KEY) -> bytes:
    stream = replica.keyspace.find(key)
    assert stream is not None
    return digest_stream(stream)


def region(origin: int = 1) -> Replica:
    replica = Replica(origin)
    for counter in range(1, 5):
        replica.add_entry(KEY, (counter, origin), FIELDS)
    return replica


def region_with_group() -> Replica:
    replica = region()
    replica.create_group(KEY, GROUP, Position((1, 0)), 0)
    return replica


def deliver(replica: Replica, noack: bool) -> None:
    """The first two entries go to a consumer."""
    interval = OriginIntervals(replica.applied.origin, (0, 0), (2, replica.applied.origin))
    replica.record(EntriesDelivered(KEY, GROUP, b"c", 5, interval, noack, 2))


Change = Callable[[Replica], object]

REPLICATED: list[tuple[str, Change]] = [
    ("an entry", lambda r: r.add_entry(KEY, (9, 1), FIELDS)),
    ("a removal", lambda r: r.remove_entries(KEY, {1: [(2, 2)]}, True, None)),
    ("an entry deleted by ID", lambda r: r.remove_entries(KEY, {1: [(2, 2)]}, False, (2, 1))),
    ("a last ID", lambda r: r.set_id(KEY, (9, 9), None, None)),
    ("a count of adds", lambda r: r.set_id(KEY, (4, 1), 77, None)),
    ("a highest deleted ID", lambda r: r.set_id(KEY, (4, 1), None, (3, 3))),
    ("an expiry", lambda r: r.set_expiry(KEY, 500)),
    ("a persistence", lambda r: r.set_expiry(KEY, NO_EXPIRY)),
    ("another group", lambda r: r.create_group(KEY, b"h", Position(), 0)),
    ("another create of the group", lambda r: r.create_group(KEY, GROUP, Position((1, 0)), 0)),
    ("a destroy", lambda r: r.destroy_group(KEY, GROUP)),
]


@pytest.mark.parametrize("change", [change for _, change in REPLICATED], ids=[name for name, _ in REPLICATED])
def test_sees_what_is_replicated(change: Change) -> None:
    replica = region_with_group()
    before, whole = digest_of(replica), digest_replica(replica)
    change(replica)
    assert digest_of(replica) != before
    assert digest_replica(replica) != whole


def test_sees_runs() -> None:
    replica = region_with_group()
    before = digest_of(replica)
    deliver(replica, noack=True)
    assert digest_of(replica) == before
    replica.acknowledge_all()
    assert digest_of(replica) != before


def test_sees_where_a_group_starts() -> None:
    digests = set()
    for start in (Position(), Position((1, 0)), Position((0, 0), {1: (1, 0)}), Position((0, 0), {2: (1, 0)})):
        replica = region()
        replica.create_group(KEY, GROUP, start, 0)
        digests.add(digest_of(replica))
    assert len(digests) == 4


def test_an_origin_at_the_default_says_nothing() -> None:
    digests = set()
    for start in (Position((1, 0)), Position((1, 0), {1: (1, 0)})):
        replica = region()
        replica.create_group(KEY, GROUP, start, 0)
        digests.add(digest_of(replica))
    assert len(digests) == 1


def test_sees_values_and_origins() -> None:
    other = Replica(1)
    for counter in range(1, 5):
        other.add_entry(KEY, (counter, 1), [b"f", b"w" if counter == 3 else b"v"])
    digests = {digest_of(region()), digest_of(other), digest_of(region(2))}
    assert len(digests) == 3


LOCAL: list[tuple[str, Change]] = [
    ("a consumer", lambda r: r.record(ConsumerCreated(KEY, GROUP, b"c", 7))),
    ("a delivery", lambda r: deliver(r, noack=False)),
    ("a position", lambda r: r.record(PositionSet(KEY, GROUP, Position((3, 0)), 3))),
    ("a DEL of another key", lambda r: r.delete_stream((0, b"gone"))),
]


@pytest.mark.parametrize("change", [change for _, change in LOCAL], ids=[name for name, _ in LOCAL])
def test_blind_to_what_is_local(change: Change) -> None:
    replica = region_with_group()
    before = digest_of(replica), digest_replica(replica)
    change(replica)
    assert (digest_of(replica), digest_replica(replica)) == before


def test_blind_to_tombstones_and_what_is_remembered() -> None:
    replica = region_with_group()
    replica.delete_stream(KEY)
    assert digest_replica(replica) == digest_replica(Replica(1))


def test_names_and_databases_count() -> None:
    digests = set()
    for key in ((0, b"a"), (1, b"a"), (0, b"b")):
        replica = Replica(1)
        replica.add_entry(key, (1, 1), FIELDS)
        digests.add(digest_replica(replica))
    assert len(digests) == 3
    assert all(len(digest) == DIGEST_BYTES for digest in digests)


def test_order_of_keys_does_not_count() -> None:
    """Two regions heard of two streams in different order."""
    one, other = Replica(3), Replica(4)
    batches = []
    for origin, name in ((1, b"a"), (2, b"b")):
        writer = Replica(origin)
        writer.add_entry((0, name), (1, origin), FIELDS)
        batches.append(taken(writer))
    for replica, order in ((one, batches), (other, batches[::-1])):
        for batch in order:
            replica.apply_batch(copied(batch))
    assert digest_replica(one) == digest_replica(other)


# Convergence


def taken(replica: Replica) -> Batch:
    batch = replica.drain().batch
    assert batch is not None
    return batch


def copied(batch: Batch) -> Batch:
    return decode_batch(encode_batch(batch))


steps = st.lists(
    st.tuples(
        st.integers(1, 3), st.sampled_from(["add", "remove", "trim", "del", "create", "destroy", "read", "sync"])
    ),
    max_size=25,
)


def perform(replica: Replica, step: str, clock: int) -> None:
    stream = replica.keyspace.find(KEY)
    if step == "add":
        replica.add_entry(KEY, (clock, replica.applied.origin), FIELDS)
    elif step == "create":
        replica.create_group(KEY, GROUP, Position(), 0)
    elif step == "destroy":
        replica.destroy_group(KEY, GROUP)
    elif step == "del":
        replica.delete_stream(KEY)
    elif stream is None:
        return
    elif step in ("remove", "trim"):
        top = stream.first_entry()
        removed = None if step == "trim" or top is None else top[0]
        replica.remove_entries(KEY, trimmable(stream, stream.length - 1), step == "trim", removed)
    elif step == "read" and GROUP in stream.groups:
        delivery = stream.groups[GROUP].next_entries(stream.chains, 2)
        replica.record(EntriesDelivered(KEY, GROUP, b"c", clock, delivery.intervals, True, 0))


def exchange(replicas: list[Replica], sent: list[Batch]) -> None:
    """Everything that was prepared reaches everybody, each batch once what it names is there."""
    progress = True
    while progress:
        progress = False
        for replica in replicas:
            replica.acknowledge_all()
            batch = replica.drain().batch
            if batch is not None:
                sent.append(batch)
                progress = True
        for replica in replicas:
            for batch in sent:
                is_next = batch.first == replica.applied.vector.get(batch.origin) + 1
                if is_next and replica.applied.vector.descends(batch.context):
                    replica.apply_batch(copied(batch))
                    progress = True


@settings(max_examples=60, deadline=None)
@given(steps)
def test_regions_that_exchanged_everything_agree(script: list[tuple[int, str]]) -> None:
    replicas = [Replica(origin) for origin in (1, 2, 3)]
    sent: list[Batch] = []
    for clock, (origin, step) in enumerate(script, start=1):
        if step == "sync":
            exchange(replicas, sent)
        else:
            perform(replicas[origin - 1], step, clock)
    exchange(replicas, sent)
    assert len({digest_replica(replica) for replica in replicas}) == 1


# In slices

NAMES = [b"%d" % number for number in range(12)]
changes = st.lists(st.tuples(st.sampled_from([*NAMES, b"new"]), st.integers(0, 5)), max_size=30)


def change(replica: Replica, name: bytes, what: int, number: int) -> None:
    key = (0, name)
    stream = replica.keyspace.find(key)
    if what <= 1 or stream is None:
        replica.add_entry(key, (1_000 + number, 1), FIELDS)
    elif what == 2:
        replica.delete_stream(key)
    elif what == 3:
        ranges = {1: [stream.trees[1].counter_ranges()[0]]} if stream.length else {}
        replica.remove_entries(key, ranges, True, None)
    elif what == 4:
        replica.create_group(key, GROUP, Position(), 0)
    else:
        replica.delete_stream(key)
        replica.drain()
        replica.keyspace.collect(replica.applied.vector.copy(), 100)


@given(changes, changes)
def test_a_digest_is_of_one_vector_whatever_is_written_meanwhile(
    first: list[tuple[bytes, int]], second: list[tuple[bytes, int]]
) -> None:
    replica = Replica(1)
    for number, (name, what) in enumerate(first):
        change(replica, name, what, number)
    digesting = Digesting(replica)
    while not digesting.is_fixed():
        digesting.step(1)
    expected, vector = digest_replica(replica), replica.applied.vector.copy()
    for number, (name, what) in enumerate(second, len(first)):
        change(replica, name, what, number)
        digesting.step(1)
    while not digesting.done:
        digesting.step(1)
    assert digesting.digest == expected
    assert digesting.vector == vector
    assert not replica.keyspace.observers


def test_a_step_looks_at_about_as_many_entries_as_it_may() -> None:
    replica = Replica(1)
    for number in range(10_000):
        replica.add_entry(KEY, (number + 1, 0), FIELDS)
    blocks, _, _ = replica.keyspace.databases[0][KEY[1]].trees[1].blocks()
    largest = max(block.count for block in blocks)
    digesting = Digesting(replica)
    before = sum(block.unsummed() for block in blocks)
    while before:
        digesting.step(500)
        after = sum(block.unsummed() for block in blocks)
        assert 0 < before - after <= 500 + largest
        before = after
    while not digesting.done:
        digesting.step(500)
    assert digesting.digest == digest_replica(replica)


def test_writes_do_not_make_it_begin_again() -> None:
    """It is done although something is written between any two steps."""
    replica = Replica(1)
    for name in NAMES:
        replica.add_entry((0, name), (1, 0), FIELDS)
    digesting = Digesting(replica)
    steps = 0
    while not digesting.step(1):
        replica.add_entry((0, NAMES[steps % len(NAMES)]), (2 + steps, 0), FIELDS)
        steps += 1
    assert steps < 10 * len(NAMES)


def test_a_digest_of_one_key_in_slices() -> None:
    replica = region()
    digesting = Digesting(replica, KEY)
    while not digesting.step(1):
        pass
    assert digesting.digest == digest_of(replica)
    absent = Digesting(replica, (0, b"absent"))
    assert absent.step(100) and absent.digest is None


def test_one_that_is_given_up_hears_of_nothing_more() -> None:
    replica = region()
    digesting = Digesting(replica)
    digesting.release()
    while not digesting.is_fixed():
        digesting.step(1)
    assert replica.keyspace.observers == [digesting]
    digesting.release()
    assert not replica.keyspace.observers


def test_a_walk_goes_on_by_what_its_steps_cost() -> None:
    walk = iter([3, 3, 3, 3])
    assert not walk_on(walk, 4)
    assert next(walk) == 3, "two steps were taken"
    assert not walk_on(walk, 3)
    assert walk_on(walk, 1)
