"""Deadlines against a naive model, and expiry registers: whatever the order of application, the same survive."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core import effects as fx
from crdtstream.core.digest import digest_replica
from crdtstream.core.effects import Batch, Effect, Key
from crdtstream.core.expiring import expire_due
from crdtstream.core.replica import Replica
from crdtstream.core.streams.expiry import NO_EXPIRY, VOID_EXPIRY, Deadlines
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import decode_batch, encode_batch
from tests.effort import examples

KEY: Key = (0, b"k")
OTHER: Key = (0, b"other")
TAKEOVER_MS = 100
MANY = 1000

# Deadlines


moves = st.lists(
    st.one_of(
        st.tuples(st.just("follow"), st.integers(0, 4), st.integers(1, 20) | st.just(NO_EXPIRY)),
        st.tuples(st.just("take"), st.integers(0, 0), st.integers(1, 25)),
    ),
    max_size=60,
)


@given(moves)
def test_due_keys_come_in_order_and_once(script: list[tuple[str, int, int]]) -> None:
    deadlines, model = Deadlines(), dict[Key, int]()
    for move, number, value in script:
        key = (0, b"%d" % number)
        if move == "follow":
            deadlines.schedule(key, value)
            model[key] = value
            if value == NO_EXPIRY:
                del model[key]
        else:
            taken: list[tuple[int, Key]] = []
            due = deadlines.pop_due(value)
            while due is not None:
                taken.append((model.pop(due), due))
                deadlines.schedule(due, NO_EXPIRY)
                due = deadlines.pop_due(value)
            assert taken == sorted(taken)
            assert all(expires_ms < value for expires_ms, _ in taken)
            assert all(expires_ms >= value for expires_ms in model.values())
        assert deadlines.times == model
        deadlines.check()


def test_a_key_that_is_looked_at_later() -> None:
    deadlines = Deadlines()
    deadlines.schedule(KEY, 10)
    assert deadlines.next_ms == 10
    assert deadlines.pop_due(10) is None
    assert deadlines.pop_due(11) == KEY
    deadlines.look(KEY, 50)
    assert deadlines.next_ms == 50
    assert deadlines.pop_due(50) is None
    assert deadlines.pop_due(51) == KEY


def test_a_key_has_one_row() -> None:
    deadlines = Deadlines()
    for expires_ms in range(1, 10_000):
        deadlines.schedule(KEY, expires_ms)
        deadlines.schedule(KEY, NO_EXPIRY)
    deadlines.schedule(KEY, 7)
    deadlines.check()
    assert deadlines.pop_due(8) == KEY
    assert deadlines.pop_due(10_000) is None


# Registers


class Model:
    """Every effect on one key with its dot and context: an expiry survives while no other effect covers its dot."""

    def __init__(self) -> None:
        self.effects: list[tuple[int, int, VersionVector, Effect]] = []
        self.contexts: dict[int, VersionVector] = {}

    def add(self, batch: Batch) -> None:
        """A batch names what is new in its origin's context."""
        context = self.contexts.setdefault(batch.origin, VersionVector())
        context.merge(batch.context)
        context.advance(batch.origin, batch.first - 1)
        counter = batch.first
        for effect in batch.effects:
            self.effects.append((batch.origin, counter, context.copy(), effect))
            counter += effect.width
            context.advance(batch.origin, counter - 1)

    def survivors(self) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        for origin, counter, _, effect in self.effects:
            if (
                isinstance(effect, fx.ExpirySet)
                and effect.expires_ms != VOID_EXPIRY
                and not self.covered(origin, counter)
            ):
                found.append((effect.expires_ms, origin, counter))
        return sorted(found)

    def covered(self, origin: int, counter: int) -> bool:
        for _, _, context, effect in self.effects:
            if isinstance(effect, fx.ExpirySet | fx.StreamDeleted) and context.contains(origin, counter):
                return True
        return False


def perform(replica: Replica, step: str, clock: int) -> None:
    if step == "add":
        replica.add_entry(KEY, (clock, replica.applied.origin), [b"f", b"v"])
    elif step == "del":
        replica.delete_stream(KEY)
    elif step == "create":
        replica.create_group(KEY, b"g%d" % clock, fx.Position(), 0)
    elif step == "destroy":
        stream = replica.keyspace.find(KEY)
        if stream is not None and stream.groups:
            replica.destroy_group(KEY, min(stream.groups))
    elif replica.keyspace.peek(KEY) is not None:
        replica.set_expiry(KEY, NO_EXPIRY if step == "persist" else int(step))


def copied(batch: Batch) -> Batch:
    return decode_batch(encode_batch(batch))


def exchange(replicas: list[Replica], sent: list[Batch], order: st.DataObject) -> None:
    """Each replica applies what it lacks, in an order of its own that its causal gate allows."""
    for replica in replicas:
        while True:
            fit = [
                batch
                for batch in sent
                if batch.first == replica.applied.vector.get(batch.origin) + 1
                and replica.applied.vector.descends(batch.context)
            ]
            if not fit:
                break
            replica.apply_batch(copied(order.draw(st.sampled_from(fit))))
            replica.check()


script_steps = st.sampled_from(
    ["add", "add", "del", "create", "destroy", "persist", "10", "20", "20", "30", "sync", "due"]
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), script_steps, st.integers(0, 3)), max_size=25), st.data())
def test_the_same_expiries_survive_everywhere(script: list[tuple[int, str, int]], order: st.DataObject) -> None:
    """Clocks differ between the replicas; the model knows none."""
    replicas = [Replica(origin) for origin in (1, 2, 3)]
    sent: list[Batch] = []
    model = Model()
    for clock, (origin, step, skew) in enumerate(script, start=1):
        replica = replicas[origin - 1]
        replica.keyspace.now_ms = clock + skew * 8
        if step == "sync":
            exchange(replicas, sent, order)
        elif step == "due":
            expire_due(replica, TAKEOVER_MS, MANY)
        else:
            perform(replica, step, clock)
        batch = replica.drain().batch
        if batch is not None:
            sent.append(copied(batch))
            model.add(batch)
        replica.check()
    exchange(replicas, sent, order)
    for replica in replicas:
        stream = replica.keyspace.databases[0].get(KEY[1], Stream())
        assert stream.expiries() == model.survivors()
        assert stream.expires_ms == max([row[0] for row in model.survivors()], default=NO_EXPIRY)
    assert len({digest_replica(replica) for replica in replicas}) == 1


# Who deletes


def two_regions(first_ms: int, second_ms: int | None = None) -> tuple[Replica, Replica]:
    """Regions 1 and 2 that know of the key's expiries, set by each of them concurrently."""
    one, two = Replica(1), Replica(2)
    one.add_entry(KEY, (1, 1), [b"f", b"v"])
    send(one, two)
    one.set_expiry(KEY, first_ms)
    if second_ms is not None:
        two.set_expiry(KEY, second_ms)
    batches = [replica.drain().batch for replica in (one, two)]
    for batch in batches:
        if batch is not None:
            (two if batch.origin == 1 else one).apply_batch(copied(batch))
    return one, two


def send(sender: Replica, receiver: Replica) -> bool:
    batch = sender.drain().batch
    if batch is not None:
        receiver.apply_batch(copied(batch))
    return batch is not None


def pass_time(replica: Replica, now_ms: int) -> int:
    """How many effects the region makes by itself."""
    replica.keyspace.now_ms = now_ms
    before = replica.applied.counter()
    expire_due(replica, TAKEOVER_MS, MANY)
    return replica.applied.counter() - before


def test_an_equal_expiry_of_another_region_may_end_and_leave_the_own_one() -> None:
    """The other region's wins, so it is waited for; then what voids it comes late."""
    one, two = Replica(1), Replica(2)
    one.add_entry(KEY, (1, 1), [b"f", b"v"])
    send(one, two)
    one.set_expiry(KEY, 50)
    one.drain()
    two.set_expiry(KEY, 50)
    send(two, one)
    assert pass_time(one, 51) == 0
    one.drain()
    two.delete_stream(KEY)
    send(two, one)
    assert pass_time(one, 51) == 1 and not one.keyspace.deadlines.times


def test_a_key_is_there_up_to_its_time() -> None:
    one, two = two_regions(50)
    for replica in (one, two):
        replica.keyspace.now_ms = 50
        assert replica.keyspace.find(KEY) is not None
        replica.keyspace.now_ms = 51
        assert replica.keyspace.find(KEY) is None
        assert replica.keyspace.keys(0) == []
        assert replica.keyspace.known_keys(0) == [KEY[1]]
        assert replica.keyspace.hides(KEY)


@pytest.mark.parametrize(("first_ms", "second_ms", "owner"), [(50, None, 1), (50, 40, 1), (50, 60, 2), (50, 50, 2)])
def test_the_region_whose_expiry_won_deletes(first_ms: int, second_ms: int | None, owner: int) -> None:
    replicas = dict(zip((1, 2), two_regions(first_ms, second_ms), strict=True))
    last = max(first_ms, second_ms or 0)
    other = replicas[3 - owner]
    assert pass_time(replicas[owner], last) == 0
    assert pass_time(other, last + 1) == 0
    assert pass_time(replicas[owner], last + 1) == 1
    send(replicas[owner], other)
    assert other.keyspace.known(KEY) is None
    assert pass_time(other, last + TAKEOVER_MS + 1) == 0


def test_any_region_takes_over() -> None:
    _, two = two_regions(50)
    assert pass_time(two, 50 + TAKEOVER_MS) == 0
    assert pass_time(two, 51 + TAKEOVER_MS) == 1
    assert two.keyspace.known(KEY) is None


def test_a_later_origin_of_the_region_deletes() -> None:
    _, two = two_regions(50)
    two.become(1 + 256, 1 + 256)
    assert pass_time(two, 51) == 1


def test_only_so_many_at_once() -> None:
    replica = Replica(1)
    for number in range(10):
        replica.add_entry((0, b"%d" % number), (1, 1), [b"f", b"v"])
        replica.set_expiry((0, b"%d" % number), 5)
    replica.keyspace.now_ms = 6
    expire_due(replica, TAKEOVER_MS, 3)
    assert len(replica.keyspace.known_keys(0)) == 7
    expire_due(replica, TAKEOVER_MS, MANY)
    assert replica.keyspace.known_keys(0) == []
    replica.check()


# Writing what is hidden, or what an expiry outlived


def test_a_write_deletes_a_hidden_key_first() -> None:
    one, two = two_regions(50)
    two.keyspace.now_ms = 51
    two.add_entry(KEY, (1, 2), [b"f", b"w"])
    batch = two.drain().batch
    assert batch is not None
    assert [type(effect) for effect in batch.effects] == [fx.StreamDeleted, fx.EntriesAdded]
    one.apply_batch(copied(batch))
    for replica in (one, two):
        stream = replica.keyspace.find(KEY)
        assert stream is not None
        assert (stream.length, stream.entries_added(), stream.top) == (1, 1, (1, 2))
        assert stream.expires_ms == NO_EXPIRY
        replica.check()


def test_what_was_added_concurrently_stays() -> None:
    one, two = two_regions(50)
    two.add_entry(KEY, (7, 2), [b"f", b"w"])
    added = two.drain().batch
    assert added is not None
    assert pass_time(one, 51) == 1
    send(one, two)
    one.apply_batch(copied(added))
    stream = two.keyspace.find(KEY)
    assert stream is not None
    assert (stream.length, stream.expires_ms) == (1, NO_EXPIRY)
    assert digest_replica(one) == digest_replica(two)


@pytest.mark.parametrize("expires_ms", [500, NO_EXPIRY])
def test_an_expiry_that_outlived_its_key_is_voided(expires_ms: int) -> None:
    """Region 1 deletes while region 2 sets an expiry; a key that is made again begins without it."""
    one, two = two_regions(50)
    one.delete_stream(KEY)
    two.set_expiry(KEY, expires_ms)
    batch = two.drain().batch
    assert batch is not None
    send(one, two)
    one.apply_batch(copied(batch))
    for replica in (one, two):
        assert replica.keyspace.find(KEY) is None
    two.create_group(KEY, b"g", fx.Position(), 0)
    made = two.drain().batch
    assert made is not None
    assert [type(effect) for effect in made.effects] == [fx.ExpirySet, fx.GroupCreated]
    one.apply_batch(copied(made))
    for replica in (one, two):
        stream = replica.keyspace.find(KEY)
        assert stream is not None
        assert b"g" in stream.groups
        assert stream.expiries() == []


def test_an_expiry_without_a_key_is_voided_when_its_time_comes() -> None:
    one, two = two_regions(50)
    one.delete_stream(KEY)
    two.set_expiry(KEY, 60)
    two.drain()
    send(one, two)
    assert pass_time(two, 61) == 1
    assert two.keyspace.deadlines.times == {}
    two.check()


def test_delete_of_a_hidden_key_deletes_but_counts_nothing() -> None:
    _, two = two_regions(50)
    two.keyspace.now_ms = 51
    assert not two.delete_stream(KEY)
    assert two.keyspace.known(KEY) is None
    assert not two.delete_stream(OTHER)
