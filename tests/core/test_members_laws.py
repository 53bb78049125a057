"""Laws of the table of members, over any history of births, admissions and evictions."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core import effects as fx
from crdtstream.core.digest import digest_replica
from crdtstream.core.effects import Batch, Position
from crdtstream.core.members import (
    ADMITTED,
    ADMITTED_BY_ALL,
    FOUNDER,
    NEVER,
    Members,
)
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector, region_of
from tests.core.histories import ALL, World, copied, deliver, join, missing
from tests.core.member_tables import GROUP, KEY, creates_of
from tests.effort import examples

# Region 1 was started three times, region 2 twice.
ORIGINS = (1, 2, 257, 258, 3, 513)
WITNESS = 250

Step = tuple[str, int, int]
ACTS = ["join", "join", "found", "admit", "admit", "by_all", "evict", "succeed", "succeed", "create", "create"]
SYNCS = ["sync"] * 6

numbers = st.integers(0, len(ORIGINS) - 1)


def histories(operations: list[str], among: st.SearchStrategy[int] = numbers) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(operations), among, among), min_size=4, max_size=40)


# Beside histories of everything those of a few origins that evict each other while they are admitted by all.
few, two = st.integers(0, 2), st.integers(0, 1)
VOIDING = ["by_all", "by_all", "evict", "create"]

# Three origins of one region that take each other's place.
one_region = st.sampled_from([at for at, origin in enumerate(ORIGINS) if region_of(origin) == 1])
TAKING = ["rival", "create", "sync", "whole"]
RIVALS, FORGETTING_RIVALS = histories(TAKING, one_region), histories([*TAKING, "forget"], one_region)
APPLYING = histories([*ACTS, *SYNCS]) | histories([*VOIDING, "sync", "sync"], few)
WHOLE = histories([*VOIDING, "whole"], few) | histories([*VOIDING, "create", "whole", "whole"], two)
JOINING = histories([*ACTS, *SYNCS, "whole"]) | histories([*VOIDING, "sync", "whole"], few) | WHOLE | RIVALS
REPLACED = histories(["succeed", "sync", "sync", "forget"], few)
FORGETTING = histories([*ACTS, *SYNCS, "forget", "forget"]) | REPLACED | FORGETTING_RIVALS
searching = settings(max_examples=examples(400), deadline=None)


class Cluster(World):
    """Origins that do to the table whatever it lets them do, and create one group each as often as they like."""

    def __init__(self, history: list[Step]) -> None:
        super().__init__(ORIGINS)
        for operation, number, other in history:
            getattr(self, operation + "_step")(number, other)
            self.end_turn(number)

    def join_step(self, number: int, other: int) -> None:
        self.replicas[number].join_member(ORIGINS[other])

    def found_step(self, number: int, other: int) -> None:
        self._say(number, FOUNDER, False)

    def admit_step(self, number: int, other: int) -> None:
        join = self.replicas[number].applied.members.sponsor_of(ORIGINS[number])
        if join is not None:
            self._say(number, join, False)

    def by_all_step(self, number: int, other: int) -> None:
        replica = self.replicas[number]
        if not replica.applied.members.joins_of(replica.applied.origin):
            replica.join_member(replica.applied.origin)
        else:
            self._say(number, replica.applied.members.joins_of(replica.applied.origin)[0], True)

    def _say(self, number: int, join: tuple[int, int], by_all: bool) -> None:
        rows = self.replicas[number].applied.members.rows()
        said = {origin for kind, origin, *_ in rows if kind in (ADMITTED, ADMITTED_BY_ALL)}
        if ORIGINS[number] not in said:
            self.replicas[number].say_admitted(join, by_all)

    def evict_step(self, number: int, other: int) -> None:
        if number != other:
            self.replicas[number].evict_member(ORIGINS[other])

    def succeed_step(self, number: int, other: int) -> None:
        successors = [
            origin for origin in ORIGINS if region_of(origin) == region_of(ORIGINS[other]) and origin != ORIGINS[other]
        ]
        if successors:
            self.replicas[number].evict_member(ORIGINS[other], successors[number % len(successors)])

    def rival_step(self, number: int, other: int) -> None:
        """Be admitted by all in the place of another one."""
        for _ in range(2):
            self.by_all_step(number, other)
        if number != other:
            self.replicas[number].evict_member(ORIGINS[other], ORIGINS[number])

    def create_step(self, number: int, other: int) -> None:
        self.replicas[number].create_group(KEY, GROUP, Position(), 0)

    def sync_step(self, number: int, other: int) -> None:
        self.sync(other, number, 3)

    def whole_step(self, number: int, other: int) -> None:
        self.join(number, other)

    def forget_step(self, number: int, other: int) -> None:
        """As if those that are silent did not count."""
        stable = self.replicas[number].applied.vector
        for replica in [replica for replica in self.replicas if replica.applied.vector.total()]:
            stable = stable.meet(replica.applied.vector)
        self.replicas[number].applied.members.forget(stable)

    def sync_all(self) -> None:
        for _ in range(2):
            for one in range(len(ORIGINS)):
                for two in range(len(ORIGINS)):
                    self.sync(one, two, ALL)


class Model:
    """What the effects that a vector covers mean, by the words of the specification alone."""

    def __init__(self, batches: list[Batch], vector: VersionVector) -> None:
        contexts: dict[int, VersionVector] = {}
        self.effects: list[tuple[tuple[int, int], VersionVector, fx.Effect]] = []
        for batch in batches:
            context = contexts.setdefault(batch.origin, VersionVector())
            context.merge(batch.context)
            for counter, effect in enumerate(batch.effects, batch.first):
                context.advance(batch.origin, counter - 1)
                if vector.contains(batch.origin, counter):
                    self.effects.append(((batch.origin, counter), context.copy(), effect))

    def ends(self) -> dict[int, int]:
        ends: dict[int, int] = {}
        for _, _, evicted in self.evictions():
            ends[evicted.origin] = min(evicted.through, ends.get(evicted.origin, NEVER))
        admissions = [
            (dot[0], context, one) for dot, context, one in self.effects if isinstance(one, fx.MemberAdmitted)
        ]
        for origin, context, admitted in admissions:
            if admitted.by_all and self.is_void(origin, context):
                ends[origin] = 0
        ends.update(dict.fromkeys(self.rivals(), 0))
        for _ in ORIGINS:
            for origin, _, admitted in admissions:
                if not admitted.by_all and admitted.counter > ends.get(admitted.origin, NEVER):
                    ends[origin] = 0
        return ends

    def rivals(self) -> list[int]:
        """Those that were admitted by all, and of which two ended the same origin to take its place."""
        by_all = {dot[0]: dot[1] for dot, _, one in self.effects if isinstance(one, fx.MemberAdmitted) and one.by_all}
        taken = {
            (one.origin, origin)
            for (origin, counter), _, one in self.evictions()
            if one.successor == origin and counter > by_all.get(origin, NEVER)
        }
        return [one for origin, one in taken if any(origin == other and one != two for other, two in taken)]

    def evictions(self) -> list[tuple[tuple[int, int], VersionVector, fx.MemberEvicted]]:
        return [(dot, context, one) for dot, context, one in self.effects if isinstance(one, fx.MemberEvicted)]

    def is_void(self, origin: int, admission_context: VersionVector) -> bool:
        joins = [dot for dot, _, one in self.effects if isinstance(one, fx.MemberJoined) and one.origin == origin]
        for dot, context, evicted in self.evictions():
            unknown = not evicted.successor and not admission_context.contains(*dot)
            if unknown and not any(context.contains(*join) for join in joins):
                return True
        return False

    def creates(self) -> list[tuple[int, int]]:
        made = [dot for dot, _, one in self.effects if isinstance(one, fx.GroupCreated)]
        ends = self.ends()
        return sorted(dot for dot in made if dot[1] <= ends.get(dot[0], NEVER))


@searching
@given(JOINING)
def test_a_table_is_what_its_effects_mean(history: list[Step]) -> None:
    cluster = Cluster(history)
    for replica in cluster.replicas:
        replica.check()
        model = Model(cluster.batches, replica.applied.vector)
        assert replica.applied.members.ends() == model.ends()
        assert creates_of(replica) == model.creates()


@searching
@given(APPLYING, st.data())
def test_the_order_of_effects_does_not_count(history: list[Step], data: st.DataObject) -> None:
    cluster = Cluster(history)
    witnesses = [Replica(WITNESS), Replica(WITNESS)]
    deliver(cluster.batches, witnesses[0], VersionVector({batch.origin: batch.last for batch in cluster.batches}))
    deliver_in_any_order(cluster.batches, witnesses[1], data)
    assert witnesses[0].applied.members.rows() == witnesses[1].applied.members.rows()
    assert digest_replica(witnesses[0]) == digest_replica(witnesses[1])


def deliver_in_any_order(batches: list[Batch], replica: Replica, data: st.DataObject) -> None:
    """One that the causal gate lets through, again and again."""
    left = batches[:]
    while left:
        fit = [
            at
            for at, batch in enumerate(left)
            if batch.first == replica.applied.vector.get(batch.origin) + 1
            and replica.applied.vector.descends(batch.context)
        ]
        replica.apply_batch(copied(left.pop(data.draw(st.sampled_from(fit)))))


@searching
@given(JOINING, numbers, numbers)
def test_a_join_is_the_union_of_effects(history: list[Step], one: int, two: int) -> None:
    cluster = Cluster(history)
    joined = join(cluster.clone(one), cluster.clone(two))
    joined.check()
    expected = deliver(cluster.batches, cluster.clone(one), cluster.clone(two).applied.vector)
    assert joined.applied.members.rows() == expected.applied.members.rows()
    assert joined.applied.members.rows() == join(cluster.clone(two), cluster.clone(one)).applied.members.rows()
    assert joined.applied.members.ends() == expected.applied.members.ends()
    assert creates_of(joined) == creates_of(expected)


@searching
@given(FORGETTING)
def test_what_is_forgotten_changes_nothing(history: list[Step]) -> None:
    """A witness hears of all and forgets nothing."""
    cluster = Cluster(history)
    witness = Replica(WITNESS)
    for replica in cluster.replicas:
        model = Model(cluster.batches, replica.applied.vector)
        assert replica.applied.members.ends() == model.ends()
        assert creates_of(replica) == model.creates()
    cluster.sync_all()
    deliver(cluster.batches, witness, cluster.replicas[0].applied.vector)
    for replica in cluster.replicas:
        replica.check()
        assert replica.applied.members.lasting_rows() == witness.applied.members.lasting_rows()
        assert replica.applied.members.joined() == witness.applied.members.joined()
        assert replica.applied.members.origins() == witness.applied.members.origins()
        assert digest_replica(replica) == digest_replica(witness)


@searching
@given(FORGETTING, numbers, numbers)
def test_tables_of_which_one_has_forgotten_join_alike(history: list[Step], one: int, two: int) -> None:
    cluster = Cluster(history)
    known = cluster.replicas[one].applied.vector.copy()
    known.merge(cluster.replicas[two].applied.vector)
    tables = [Members.of_rows(cluster.replicas[number].applied.members.rows()) for number in (one, two)]
    whole = [
        deliver(cluster.batches, Replica(WITNESS), cluster.replicas[number].applied.vector) for number in (one, two)
    ]
    tables[0].join(tables[1], cluster.replicas[one].applied.vector, cluster.replicas[two].applied.vector)
    join(whole[0], whole[1])
    assert not missing(cluster.batches, whole[0].applied.vector, known)
    assert tables[0].lasting_rows() == whole[0].applied.members.lasting_rows()


@searching
@given(FORGETTING)
def test_rows_come_back(history: list[Step]) -> None:
    for replica in Cluster(history).replicas:
        table = replica.applied.members
        again = Members.of_rows(table.rows()[::-1])
        again.check()
        assert again.rows() == table.rows()
        assert (again.ends(), again.joined(), again.origins()) == (table.ends(), table.joined(), table.origins())
        assert again.lasting_rows() == table.lasting_rows()
