"""What a join of states means, and the laws that it keeps, over any history."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from crdtstream.core.digest import digest_replica
from crdtstream.core.effects import Key
from crdtstream.core.joining import dropped_since, join_groups, join_stream, join_tombstones
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import EntryId
from crdtstream.core.whole_state import WholeState
from simulations.oracle import Expected, Oracle, actual
from tests.core.histories import ALL, COLLECTING, OPERATIONS, Step, World, deliver, join, streams_of
from tests.core.views import View, groups_view, local, locals_of, pending_of, replicated, visible
from tests.effort import examples

EXAMPLES = examples(150)

REGIONS = 3
ORIGINS = range(1, REGIONS + 1)
numbers = st.integers(0, 11)
regions = st.integers(0, REGIONS - 1)


def histories(operations: list[str]) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(operations), regions, numbers, numbers), min_size=1, max_size=60)


searching = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def world_of(history: list[Step]) -> World:
    world = World(ORIGINS)
    world.run(history)
    return world


# What a join means


@searching
@given(histories(OPERATIONS), regions, regions)
def test_a_join_is_the_delivery_of_what_is_missing(history: list[Step], one: int, two: int) -> None:
    world = world_of(history)
    joined = join(world.clone(one), world.clone(two))
    joined.check()
    expected = deliver(world.batches, world.clone(one), world.clone(two).applied.vector)
    assert replicated(joined) == replicated(expected)
    assert local(joined) == local(expected)
    assert_pending(world.clone(one), joined, expected)


def assert_pending(before: Replica, joined: Replica, expected: Replica) -> None:
    """A join keeps what effects would have dropped only inside runs that were here already (whose they are, only
    effects tell), or of entries that were removed here already. It drops what effects would have kept only together
    with the entry, and only if a removal that is new to it dropped references: which, only effects tell.
    """
    for named, group in locals_of(joined).items():
        kept, wanted = pending_of(group), pending_of(locals_of(expected)[named])
        assert wanted <= kept or dropped_since(dict(joined.keyspace.streams())[named[0]], before.applied.vector)
        for origin, entry_id, *_ in wanted - kept:
            assert isinstance(origin, int) and isinstance(entry_id, tuple)
            assert lives(before, named[0], origin, entry_id) and not lives(joined, named[0], origin, entry_id)
        for origin, entry_id, *_ in kept - wanted:
            assert isinstance(origin, int) and isinstance(entry_id, tuple)
            acked = locals_of(before)[named].acked.get(origin)
            assert (acked is not None and acked.contains(entry_id)) or not lives(before, named[0], origin, entry_id)


def lives(replica: Replica, key: Key, origin: int, entry_id: EntryId) -> bool:
    tree = dict(replica.keyspace.streams())[key].trees.get(origin)
    return tree is not None and tree.counter_of(entry_id) > 0


@searching
@given(histories(COLLECTING), regions, regions)
def test_what_is_forgotten_changes_no_join(history: list[Step], one: int, two: int) -> None:
    world = world_of(history)
    joined = join(world.clone(one), world.clone(two))
    joined.check()
    expected = deliver(world.batches, world.clone(one), world.clone(two).applied.vector)
    assert visible(joined) == visible(expected)
    assert visible(joined) == visible(join(world.clone(two), world.clone(one)))


@searching
@given(histories(COLLECTING), regions, regions)
def test_a_joined_state_is_what_its_effects_mean(history: list[Step], one: int, two: int) -> None:
    world = world_of(history)
    joined = join(world.clone(one), world.clone(two))
    oracle = Oracle()
    for batch in world.batches:
        oracle.record(batch)
    held = {key: actual(stream) for key, stream in streams_of(joined).items()}
    for key, expected in oracle.expected(joined.applied.vector).items():
        assert held.get(key, Expected()) == expected


@searching
@given(histories(COLLECTING))
def test_regions_that_join_agree_in_the_end(history: list[Step]) -> None:
    world = world_of(history)
    for _ in range(REGIONS):
        for one in range(REGIONS):
            for two in range(REGIONS):
                world.sync(one, two, ALL)
                world.replicas[two].check()
    assert len({digest_replica(replica) for replica in world.replicas}) == 1


@searching
@given(histories(OPERATIONS), regions, regions, numbers)
def test_what_was_captured_after_a_join_is_not_joined_again(
    history: list[Step], one: int, two: int, choice: int
) -> None:
    """A checkpoint captures key by key while the region goes on: some before the join in the log, some after."""
    world = world_of(history)
    early, late = streams_of(world.clone(one)), streams_of(join(world.clone(one), world.clone(two)))
    replica = Replica(one + 1)
    clone = world.clone(one)
    replica.applied.vector, replica.applied.contexts = clone.applied.vector, clone.applied.contexts
    for at, key in enumerate(sorted({*early, *late})):
        captured_late = bool(choice >> at & 1)
        replica.applied.restore(key, (late if captured_late else early).get(key), 8 if captured_late else 6)
    other = world.clone(two)
    applied = other.applied
    replica.join(WholeState(streams_of(other), applied.vector, applied.contexts, applied.members), position=7)
    replica.applied.end_replay()
    assert replicated(replica) == replicated(join(world.clone(one), world.clone(two)))


# Laws, of each part by itself


class Part:
    """A part of the state with a join and a view of its own."""

    def __init__(self, join_into: Callable[[Replica, Replica], None], view: Callable[[Replica], object]) -> None:
        self.join_into = join_into
        self.view = view

    def of(self, *replicas: Replica) -> object:
        """The view of the first, after the others were joined into it, one after the other."""
        return self.view(self.joined(*replicas))

    def joined(self, *replicas: Replica) -> Replica:
        mine, *others = replicas
        for theirs in others:
            self.join_into(mine, theirs)
            mine.applied.vector.merge(theirs.applied.vector)
        return mine


def merge_vectors(mine: Replica, theirs: Replica) -> None:
    mine.applied.vector.merge(theirs.applied.vector)


def each_stream(
    join_one: Callable[[Stream, VersionVector, Stream, VersionVector], None],
) -> Callable[[Replica, Replica], None]:
    def join_all(mine: Replica, theirs: Replica) -> None:
        foreign = streams_of(theirs)
        for key in sorted({*streams_of(mine), *foreign}):
            join_one(mine.keyspace.ensure(key), mine.applied.vector, foreign.get(key, Stream()), theirs.applied.vector)

    return join_all


def join_groups_alone(mine: Stream, vector: VersionVector, theirs: Stream, their_vector: VersionVector) -> None:
    join_groups(mine, vector, theirs, their_vector)
    join_tombstones(mine, vector, theirs, their_vector)


def join_whole(mine: Replica, theirs: Replica) -> None:
    join(mine, theirs)


def groups_alone(replica: Replica) -> View:
    streams = sorted(streams_of(replica).items())
    return {key: (groups_view(stream), stream.deleted, stream.destroyed) for key, stream in streams}


def streams_alone(replica: Replica) -> object:
    views = replicated(replica)
    return (views["streams"], views["remembered"])


PARTS = {
    "vector": Part(merge_vectors, lambda replica: replica.applied.vector.as_dict()),
    "group": Part(each_stream(join_groups_alone), groups_alone),
    "stream": Part(each_stream(join_stream), streams_alone),
    "whole": Part(join_whole, replicated),
}


class Laws(RuleBasedStateMachine):
    """Regions that write, exchange batches and join whole states; at any time each part of their states obeys."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(ORIGINS)

    @rule(steps=histories(OPERATIONS))
    def write(self, steps: list[Step]) -> None:
        self.world.run(steps)

    @rule(one=regions, two=regions)
    def exchange(self, one: int, two: int) -> None:
        self.world.sync(one, two, ALL)
        self.world.join(two, one)

    @rule(part=st.sampled_from(sorted(PARTS)), one=regions, two=regions)
    def commutative(self, part: str, one: int, two: int) -> None:
        law, clone = PARTS[part], self.world.clone
        assert law.of(clone(one), clone(two)) == law.of(clone(two), clone(one))

    @rule(part=st.sampled_from(sorted(PARTS)), order=st.permutations(range(REGIONS)))
    def associative(self, part: str, order: list[int]) -> None:
        law, clone = PARTS[part], self.world.clone
        one, two, three = order
        left = law.of(clone(one), clone(two), clone(three))
        assert left == law.of(clone(one), law.joined(clone(two), clone(three)))

    @rule(part=st.sampled_from(sorted(PARTS)), one=regions, two=regions)
    def idempotent(self, part: str, one: int, two: int) -> None:
        law, clone = PARTS[part], self.world.clone
        assert law.of(clone(one), clone(one)) == law.view(clone(one))
        assert law.of(clone(one), clone(two), clone(two)) == law.of(clone(one), clone(two))

    @invariant()
    def structures_hold(self) -> None:
        for replica in self.world.replicas:
            replica.check()


TestLaws = Laws.TestCase
TestLaws.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
