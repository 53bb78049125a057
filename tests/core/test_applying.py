"""Contexts: an origin's batches say what is new in theirs, and a region that applies them knows the whole of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.effects import Batch, Key, Position
from crdtstream.core.formats import PROPERTIES_FORMAT
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.whole_state import WholeState
from tests.core.histories import ALL, OPERATIONS, Step, World, copied, join, streams_of

KEY: Key = (0, b"x")
ORIGINS = (1, 2, 257)

numbers = st.integers(0, 11)
histories = st.lists(
    st.tuples(st.sampled_from([*OPERATIONS, "sync", "sync", "join"]), st.integers(0, 2), numbers, numbers),
    min_size=1,
    max_size=50,
)


def batch_of(replica: Replica) -> Batch:
    batch = replica.drain().batch
    assert batch is not None
    return copied(batch)


def added(replica: Replica, name: bytes = b"x") -> Batch:
    stream = replica.keyspace.find((0, name))
    replica.add_entry((0, name), (1 if stream is None else stream.top[0] + 1, replica.applied.origin), [b"f", b"v"])
    return batch_of(replica)


# What a batch says


class Recording(World):
    """Remembers the vector at which each batch was begun."""

    def __init__(self) -> None:
        super().__init__(ORIGINS)
        self.seen: dict[tuple[int, int], VersionVector] = {}

    def end_turn(self, number: int) -> None:
        before = len(self.batches)
        vector = self.replicas[number].applied.vector.copy()
        super().end_turn(number)
        for batch in self.batches[before:]:
            vector.drop(batch.origin)
            self.seen[(batch.origin, batch.first)] = vector


@settings(max_examples=100, deadline=None)
@given(histories)
def test_contexts_add_up_to_what_each_batch_had_seen(history: list[Step]) -> None:
    world = Recording()
    world.run(history)
    for number in range(len(ORIGINS)):
        world.end_turn(number)
    known: dict[int, VersionVector] = {}
    for batch in world.batches:
        batch.check()
        context = known.setdefault(batch.origin, VersionVector())
        news = batch.context.copy()
        news.drop(batch.origin)
        assert all(counter > context.get(origin) for origin, counter in news.items()), "what is said again is not new"
        context.merge(news)
        assert context == world.seen[(batch.origin, batch.first)]
    for replica in world.replicas:
        replica.check()
        for origin, context in replica.applied.contexts.items():
            expected = expected_context(world, origin, replica.applied.vector.get(origin))
            assert context == expected, f"origin {origin} as {replica.applied.origin} knows it"


def expected_context(world: Recording, origin: int, counter: int) -> VersionVector:
    """Of the last batch of that origin up to this counter, its own part included."""
    last = max(
        [batch for batch in world.batches if (batch.origin, batch.last) == (origin, counter)], key=lambda b: b.first
    )
    expected = world.seen[(origin, last.first)].copy()
    expected.advance(origin, counter)
    return expected


def test_the_first_batch_says_all_and_later_ones_what_is_new() -> None:
    one, two, three = Replica(1), Replica(2), Replica(3)
    for batch in (added(one), added(two)):
        three.apply_batch(batch)
    assert added(three).context == VersionVector({1: 1, 2: 1})
    assert added(three).context == VersionVector({3: 1})
    three.apply_batch(added(two))
    assert added(three).context == VersionVector({2: 2, 3: 2})
    assert three.applied.contexts[3] == VersionVector({1: 1, 2: 2, 3: 3})


def test_a_later_origin_says_all_again() -> None:
    one = Replica(1)
    one.apply_batch(added(Replica(2)))
    added(one)
    one.become(257, 257)
    assert added(one).context == VersionVector({1: 1, 2: 1})
    assert added(one).context == VersionVector({257: 1})
    assert (one.residue, one.applied.contexts[1]) == (257, VersionVector({1: 1, 2: 1}))


def test_an_origin_does_not_change_in_the_middle_of_a_turn() -> None:
    one = Replica(1)
    one.create_group(KEY, b"g", Position(), 0)
    with pytest.raises(AssertionError, match="in the middle of a turn"):
        one.become(257, 257)


def test_what_was_joined_is_news_too() -> None:
    one, two = Replica(1), Replica(2)
    added(one)
    added(two)
    join(one, two)
    assert added(one).context == VersionVector({1: 1, 2: 1})
    join(one, Replica(3))
    assert added(one).context == VersionVector({1: 2})


def test_the_context_of_a_delete_is_whole_however_its_batch_says_it() -> None:
    """What it had seen was said batches before; it removes that, and nothing that it had not seen."""
    one, two, three = Replica(1), Replica(2), Replica(3)
    seen, unseen = added(two), added(two)
    one.apply_batch(seen)
    first = added(one, b"y")
    one.delete_stream(KEY)
    delete = batch_of(one)
    assert delete.context == VersionVector({1: 1})
    for batch in (seen, unseen, first, delete):
        three.apply_batch(copied(batch))
    stream = three.keyspace.find(KEY)
    assert stream is not None and stream.length == 1
    assert stream.trees[2].counter_ranges() == [(2, 2)]


# Who knows a context


def test_a_context_that_is_not_known_is_asked_for_before_its_batch() -> None:
    one, two = Replica(1), Replica(2)
    first, second = added(one), added(one)
    assert 1 not in two.applied.contexts
    two.apply_batch(first)
    assert 1 in two.applied.contexts
    two.apply_batch(second)


def test_a_state_without_a_context_leaves_none() -> None:
    """The next batch of that origin is not applied; its sender is asked for the whole state."""
    one, two = Replica(1), Replica(2)
    added(one)
    two.join(WholeState(streams_of(one), one.applied.vector.copy()))
    assert 1 not in two.applied.contexts
    with pytest.raises(AssertionError, match="the context of origin 1 before counter 2 is not known"):
        two.apply_batch(added(one))


def test_of_two_contexts_the_later_one_is_kept() -> None:
    one, two, three = Replica(1), Replica(2), Replica(3)
    first = added(one)
    two.apply_batch(first)
    one.apply_batch(added(three))
    three.apply_batch(first)
    three.apply_batch(added(one))
    join(two, three)
    assert two.applied.contexts[1] == VersionVector({1: 2, 3: 1})
    stale = Replica(4)
    stale.apply_batch(first)
    join(two, stale)
    assert two.applied.contexts[1] == VersionVector({1: 2, 3: 1}), "the other side had less of that origin"
    two.check()


def test_contexts_of_the_ended_are_forgotten_once_all_have_all_of_them() -> None:
    one, two = Replica(1), Replica(2)
    for _ in range(2):
        one.apply_batch(added(two))
    one.applied.forget_contexts(VersionVector({2: 9}))
    assert 2 in one.applied.contexts, "it has not ended"
    one.evict_member(2, 258)
    one.applied.forget_contexts(VersionVector({2: 1}))
    assert 2 in one.applied.contexts, "not everybody has all of it"
    one.applied.forget_contexts(VersionVector({2: 2}))
    assert 2 not in one.applied.contexts


def test_a_clone_goes_on_as_the_original() -> None:
    """A log rebuilds contexts with everything else."""
    world = World(ORIGINS)
    for number in (0, 1, 0, 2):
        world.step(("add", number, 0, 1))
        world.sync(number, (number + 1) % 3, ALL)
    for number in range(3):
        assert world.clone(number).applied.contexts == world.replicas[number].applied.contexts


# Formats


@pytest.mark.parametrize("owner", ["group", "stream"])
def test_a_state_that_replaces_this_one_says_which_format_it_needs(owner: str) -> None:
    one, two = Replica(1), Replica(2)
    added(one)
    if owner == "stream":
        one.set_stream_properties(KEY, {b"maxlen": b"5"})
    else:
        one.create_group(KEY, b"g", Position(), -1)
        one.set_properties(KEY, b"g", {b"acknowledge": b"exact"})
    one.drain()
    state = WholeState(streams_of(one), one.applied.vector.copy(), {}, one.applied.members)
    assert two.applied.format_version == 0
    two.replace(state)
    assert two.applied.format_version == PROPERTIES_FORMAT
