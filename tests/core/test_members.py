"""Members: a table against what its effects mean, in whatever order they came; each way in, and each way out."""

from __future__ import annotations

import pytest

from crdtstream.core.digest import digest_replica
from crdtstream.core.effects import Batch, Position
from crdtstream.core.members import (
    ADMITTED,
    ADMITTED_BY_ALL,
    EVICTED,
    FOUNDER,
    JOINED,
    KNEW,
    NEVER,
    PAST,
    SUCCEEDED,
    VOID,
    MemberRow,
    Members,
)
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector
from tests.core.histories import copied, join
from tests.core.member_tables import GROUP, KEY, creates_of, stable

# Ways in


def tell(*replicas: Replica) -> None:
    """Each of them applies what the others have prepared."""
    batches = [batch for replica in replicas if (batch := replica.drain().batch) is not None]
    for batch in batches:
        for replica in replicas:
            if replica.applied.origin != batch.origin:
                replica.apply_batch(copied(batch))


def origins(founders: list[int], others: list[int]) -> list[Replica]:
    """The founders have said that they were admitted, and everyone has heard of that."""
    replicas = [Replica(origin) for origin in [*founders, *others]]
    for replica in replicas[: len(founders)]:
        replica.say_admitted(FOUNDER, False)
    tell(*replicas)
    return replicas


def test_a_founder_is_admitted_by_its_birth() -> None:
    one, two = origins([1, 2], [])
    assert one.applied.members.rows() == [(ADMITTED, 1, 0, 0, 1), (ADMITTED, 2, 0, 0, 1)]
    assert two.applied.members.joined() == [1, 2] and two.applied.members.is_admitted(1)
    assert not one.applied.members.is_joined(2) and one.applied.members.sponsor_of(2) is None


def test_an_origin_is_admitted_by_a_sponsor() -> None:
    one, two = origins([1], [2])
    one.join_member(2)
    assert one.applied.members.sponsor_of(2) == (1, 2) and one.applied.members.joined() == [1, 2]
    assert not one.applied.members.is_admitted(2), "it has not said so"
    tell(one, two)
    two.say_admitted((1, 2), False)
    tell(one, two)
    assert one.applied.members.is_admitted(2)
    assert one.applied.members.rows() == [(JOINED, 2, 1, 2, 0), (ADMITTED, 1, 0, 0, 1), (ADMITTED, 2, 1, 2, 1)]


def test_a_sponsor_that_was_not_admitted_when_it_joined_somebody_is_none() -> None:
    """Its Join counts for stability, and admits nobody."""
    one, two = origins([], [1, 2])
    one.join_member(2)
    tell(one, two)
    assert two.applied.members.joined() == [2] and two.applied.members.sponsor_of(2) is None
    one.say_admitted(FOUNDER, False)
    tell(one, two)
    assert two.applied.members.sponsor_of(2) is None, "the Join was made before the admission"
    assert not two.applied.members.has_sponsored(1, 2)
    one.join_member(2)
    tell(one, two)
    assert two.applied.members.sponsor_of(2) == (1, 3) and two.applied.members.has_sponsored(1, 2)
    assert two.applied.members.joins_of(2) == [(1, 1), (1, 3)]


def test_an_origin_is_admitted_by_all() -> None:
    one, two, back = origins([1, 2], [257])
    back.join_member(257)
    tell(one, two, back)
    assert two.applied.members.joined() == [1, 2, 257] and two.applied.members.sponsor_of(257) is None
    back.say_admitted((257, 1), True)
    tell(one, two, back)
    assert two.applied.members.is_admitted(257)
    assert (ADMITTED_BY_ALL, 257, 257, 1, 2) in two.applied.members.rows()


def test_a_join_that_counts_is_found_among_others() -> None:
    members = Members.of_rows([(JOINED, 3, 1, 9, 0), (JOINED, 3, 2, 6, 0), (ADMITTED, 2, 0, 0, 1), (PAST, 1, 0, 0, 4)])
    assert members.joins_of(3) == [(2, 6)]
    assert members.sponsor_of(3) == (2, 6) and members.sponsor_of(2) is None
    members.apply_evicted((5, 1), 2, 5, 0, VersionVector())
    assert members.joins_of(3) == [] and members.sponsor_of(3) is None
    assert members.is_joined(3) and members.joined() == []


def test_what_is_known_changes_nothing() -> None:
    members = Members()
    for _ in range(2):
        members.apply_joined((1, 1), 2)
        members.apply_admitted((1, 2), FOUNDER, False, VersionVector())
        members.apply_evicted((1, 3), 3, 7, 0, VersionVector({1: 2}))
    assert members.changes == 3


# Ways out


def test_an_eviction_ends_a_member_for_ever() -> None:
    members = Members.of_rows([(ADMITTED, 2, 0, 0, 1)])
    assert members.end_of(2) == NEVER and not members.voids(2, 1 << 62)
    members.apply_evicted((1, 1), 2, 5, 0, VersionVector())
    assert members.is_evicted(2) and not members.is_admitted(2) and not members.is_succeeded(2)
    assert members.end_of(2) == 5 and members.voids(2, 6) and not members.voids(2, 5)
    members.apply_joined((1, 2), 2)
    assert members.is_evicted(2) and members.joined() == []


def test_of_several_evictions_the_least_counts() -> None:
    members = Members()
    for counter, through in ((1, 5), (2, 3), (3, 9)):
        members.apply_evicted((1, counter), 2, through, 0, VersionVector({1: counter - 1}))
    assert members.ends() == {2: 3}


def test_a_region_that_comes_back_follows_itself() -> None:
    members = Members.of_rows([(JOINED, 2, 1, 1, 0)])
    members.apply_evicted((1, 2), 2, 5, 258, VersionVector({1: 1}))
    assert members.is_succeeded(2) and members.is_evicted(2) and not members.is_evicted(258)
    assert (SUCCEEDED, 2, 1, 2, 258) in members.rows()
    members.forget(VersionVector({1: 2}))
    assert members.is_succeeded(2) and members.rows() == [(JOINED, 2, 1, 1, 0), (PAST, 2, 0, 0, 5)]


def following(origin: int, counter: int, sponsor: int, joined_at: int) -> list[MemberRow]:
    return [(JOINED, origin, sponsor, joined_at, 0), (ADMITTED, origin, sponsor, joined_at, counter)]


@pytest.mark.parametrize(("through", "ends"), [(5, {2: 5, 3: 0, 4: 0}), (6, {2: 6})])
def test_who_follows_a_join_beyond_its_sponsors_end_has_ended_too(through: int, ends: dict[int, int]) -> None:
    """R2 was evicted and did not know: it admitted R3 by effect 6, and R3 admitted R4."""
    members = Members.of_rows([(ADMITTED, 2, 0, 0, 1), *following(3, 1, 2, 6), *following(4, 1, 3, 2)])
    assert members.joined() == [2, 3, 4]
    members.apply_evicted((1, 1), 2, through, 0, VersionVector())
    assert members.ends() == ends
    assert members.joined() == [3, 4]


def test_an_eviction_and_an_admission_by_all_that_do_not_know_each_other() -> None:
    """An operator of region 2 evicts region 3, while region 1, restarted, is admitted by all that it knows."""
    for first in ("eviction", "admission"):
        members = Members()
        if first == "eviction":
            members.apply_evicted((2, 1), 3, 0, 0, VersionVector())
        members.apply_joined((257, 1), 257)
        members.apply_admitted((257, 2), (257, 1), True, VersionVector({257: 1}))
        if first == "admission":
            members.apply_evicted((2, 1), 3, 0, 0, VersionVector())
        assert members.ends() == {3: 0, 257: 0}, first
        assert (VOID, 257, 0, 0, 0) in members.rows()


@pytest.mark.parametrize("context", [VersionVector({257: 1}), VersionVector({257: 2})])
def test_an_eviction_that_knew_the_join_voids_no_admission_by_all(context: VersionVector) -> None:
    for first in ("eviction", "admission"):
        members = Members()
        members.apply_joined((257, 1), 257)
        if first == "eviction" and context.get(257) == 1:
            members.apply_evicted((2, 1), 3, 0, 0, context)
        members.apply_admitted((257, 2), (257, 1), True, VersionVector({257: 1}))
        members.apply_evicted((2, 1), 3, 0, 0, context)
        assert members.ends() == {3: 0}
        assert (KNEW, 257, 2, 1, 0) in members.rows()


def test_an_admission_by_all_that_knew_the_eviction_stands() -> None:
    members = Members()
    members.apply_evicted((2, 1), 3, 0, 0, VersionVector())
    members.apply_joined((257, 1), 257)
    members.apply_admitted((257, 2), (257, 1), True, VersionVector({2: 1, 257: 1}))
    assert members.ends() == {3: 0} and members.is_admitted(257)


def test_a_successor_voids_no_admission_by_all() -> None:
    members = Members()
    members.apply_evicted((2, 1), 3, 0, 259, VersionVector())
    members.apply_joined((257, 1), 257)
    members.apply_admitted((257, 2), (257, 1), True, VersionVector({257: 1}))
    assert members.ends() == {3: 0} and members.is_admitted(257)


def test_an_eviction_voids_no_admission_by_a_sponsor_that_it_did_not_know() -> None:
    members = Members.of_rows([(ADMITTED, 1, 0, 0, 1), *following(4, 1, 1, 2)])
    members.apply_evicted((2, 1), 3, 0, 0, VersionVector())
    assert members.ends() == {3: 0} and members.is_admitted(4)


# Forgetting


def test_who_evicted_is_forgotten_once_that_is_stable() -> None:
    members = Members()
    members.apply_evicted((1, 4), 2, 7, 258, VersionVector({1: 3}))
    members.apply_evicted((3, 9), 2, 5, 514, VersionVector({3: 8}))
    rows = members.rows()
    members.forget(VersionVector({1: 4, 3: 8}))
    assert members.rows() == rows
    members.forget(VersionVector({1: 4, 3: 9}))
    assert members.rows() == [(PAST, 2, 0, 0, 5)] and members.ends() == {2: 5}


def test_two_that_took_the_place_of_one_are_void_whoever_hears_first() -> None:
    """Each was admitted by all where the other was not: they run copies of one directory."""
    one, two, witness = origins([1], [257, 513, 2])[1:]
    for rival in (one, two):
        rival.join_member(rival.applied.origin)
        rival.say_admitted((rival.applied.origin, 1), True)
        rival.evict_member(1, rival.applied.origin)
        rival.create_group(KEY, GROUP, Position(), 0)
    batches = [batch for rival in (one, two) if (batch := rival.drain().batch) is not None]
    witness.apply_batch(copied(batches[0]))
    assert witness.applied.members.is_admitted(257) and creates_of(witness) == [(257, 4)]
    witness.applied.members.forget(witness.applied.vector)
    for rival, batch in ((one, batches[1]), (two, batches[0]), (witness, batches[1])):
        rival.apply_batch(copied(batch))
        assert rival.applied.members.ends() == {1: 1, 257: 0, 513: 0} and creates_of(rival) == []
        assert Members.of_rows(rival.applied.members.rows()).ends() == rival.applied.members.ends()


def test_who_takes_a_place_by_a_sponsor_is_no_rival() -> None:
    """What it creates follows what its sponsor had seen."""
    sponsor, one, two = origins([1, 2], [257, 513])[1:]
    sponsor.join_member(513)
    tell(sponsor, one, two)
    two.say_admitted((2, 2), False)
    one.join_member(257)
    one.say_admitted((257, 1), True)
    for rival in (one, two):
        rival.evict_member(1, rival.applied.origin)
    tell(sponsor, one, two)
    members = sponsor.applied.members
    assert members.ends() == {1: 1} and members.is_admitted(257) and members.is_admitted(513)


@pytest.mark.parametrize(("through", "end"), [(9, 5), (3, 3)])
def test_of_a_forgotten_end_and_a_later_eviction_the_least_counts(through: int, end: int) -> None:
    """Later is when it came here: its evictor had not heard of the first."""
    members = Members.of_rows([(PAST, 2, 0, 0, 5)])
    members.apply_evicted((4, 6), 2, through, 770, VersionVector({4: 5}))
    assert members.ends() == {2: end}
    members.forget(VersionVector({4: 6}))
    assert members.rows() == [(PAST, 2, 0, 0, end)]


@pytest.mark.parametrize(("mine", "theirs"), [(5, 3), (3, 5)])
def test_of_two_forgotten_ends_the_least_counts(mine: int, theirs: int) -> None:
    members = Members.of_rows([(PAST, 2, 0, 0, mine)])
    members.join(Members.of_rows([(PAST, 2, 0, 0, theirs)]), VersionVector(), VersionVector())
    assert members.rows() == [(PAST, 2, 0, 0, 3)] and members.ends() == {2: 3}


def test_an_operators_eviction_is_never_forgotten() -> None:
    """An admission by all that did not know it may still come."""
    members = Members()
    members.apply_evicted((1, 4), 2, 7, 0, VersionVector({1: 3}))
    members.forget(VersionVector({1: 9}))
    assert members.rows() == [(EVICTED, 2, 1, 4, 7)]


# Stability


def test_everyone_who_joined_counts_and_one_not_heard_of_is_zero() -> None:
    members = Members.of_rows([(JOINED, 2, 1, 1, 0), (JOINED, 3, 2, 1, 0)])
    assert stable(Members(), {}) == 9
    assert stable(members, {2: VersionVector({1: 5, 3: 1})}) == 0
    assert stable(members, {2: VersionVector({1: 5}), 3: VersionVector({1: 4})}) == 4
    assert stable(members, {2: VersionVector({1: 5}), 3: VersionVector({1: 4})}, born=[4]) == 0


def test_the_evicted_do_not_count_however_they_ended() -> None:
    members = Members.of_rows([(JOINED, 2, 1, 1, 0), (JOINED, 3, 2, 1, 0), (PAST, 3, 0, 0, 7)])
    assert stable(members, {2: VersionVector({1: 5})}) == 5
    assert stable(members, {2: VersionVector({1: 5})}, born=[3]) == 5
    assert members.joined() == [2]


def test_an_origin_whose_admission_is_void_counts_until_another_one_takes_its_place() -> None:
    """It may not know yet, and has forgotten what it could while it did not."""
    members = Members.of_rows([(JOINED, 2, 1, 1, 0), *following(4, 1, 3, 8), (PAST, 3, 0, 0, 7)])
    assert members.has_ended(4) and not members.is_evicted(4) and members.voids(4, 1)
    assert members.counted(1, [3, 4]) == [2, 4] and members.evicted() == [3]
    members.apply_evicted((1, 2), 4, 5, 260, VersionVector({1: 1}))
    assert members.counted(1, [3, 4]) == [2] and members.evicted() == [3, 4]
    assert members.end_of(4) == 0


def test_the_own_row_is_what_is_on_the_own_disk() -> None:
    members = Members.of_rows([(JOINED, 1, 2, 1, 0), (JOINED, 2, 1, 1, 0)])
    assert stable(members, {2: VersionVector({1: 8})}) == 8
    assert members.counted(2, []) == [1]


def test_an_origin_counts_beside_its_successor_until_it_is_evicted() -> None:
    """Its last messages may be on their way to a region that does not know yet that it is gone."""
    members = Members.of_rows([(JOINED, 2, 1, 1, 0), (JOINED, 3, 1, 2, 0), (JOINED, 259, 2, 6, 0)])
    heard = {2: VersionVector({1: 8}), 3: VersionVector({1: 3}), 259: VersionVector({1: 7})}
    assert stable(members, heard) == 3
    members.apply_evicted((2, 7), 3, 3, 259, VersionVector({2: 6}))
    assert stable(members, heard) == 7


def test_an_earlier_origin_of_this_region_counts_too() -> None:
    members = Members.of_rows([(JOINED, 1, 2, 1, 0), (JOINED, 2, 1, 1, 0)])
    heard = {2: VersionVector({1: 8}), 1: VersionVector({1: 3})}
    assert stable(members, heard, own_origin=257) == 3
    members.apply_evicted((2, 5), 1, 9, 257, VersionVector({2: 4}))
    assert stable(members, heard, own_origin=257) == 8


# Creates of groups


def creating(origin: int, start: Position | None = None) -> tuple[Replica, Batch]:
    replica = Replica(origin)
    replica.create_group(KEY, GROUP, start or Position(), 0)
    batch = replica.drain().batch
    assert batch is not None
    return replica, batch


def test_creates_beyond_the_end_are_void_whether_they_come_before_or_after() -> None:
    third, create = creating(3)
    first = Replica(1)
    first.evict_member(3)
    evict = first.drain().batch
    assert evict is not None
    before, after = Replica(2), Replica(2)
    for replica, order in ((before, [create, evict]), (after, [evict, create])):
        for batch in order:
            replica.apply_batch(copied(batch))
    first.apply_batch(copied(create))
    third.apply_batch(copied(evict))
    for replica in (before, after, first, third):
        replica.check()
        assert creates_of(replica) == []
    assert len({digest_replica(replica) for replica in (before, after, first, third)}) == 1


def test_creates_that_follow_an_evicted_sponsor_go_with_it() -> None:
    """R3 was admitted by R2 beyond R2's end; R4 has its group when it hears of that."""
    second, third, fourth, first = origins([2], [3, 4, 1])
    second.join_member(3)
    tell(second, third, fourth)
    third.say_admitted((2, 2), False)
    third.create_group(KEY, GROUP, Position(), 0)
    tell(second, third, fourth)
    assert creates_of(fourth) == [(3, 2)]
    first.evict_member(2)
    tell(first, fourth)
    assert fourth.applied.members.ends() == {2: 1, 3: 0} and creates_of(fourth) == []
    fourth.check()


def test_a_group_that_others_made_too_lives_on() -> None:
    first, _ = creating(1, Position((1, 1)))
    _, unheard = creating(3)
    first.apply_batch(copied(unheard))
    assert creates_of(first) == [(1, 1), (3, 1)]
    second = Replica(2)
    second.evict_member(3)
    evict = second.drain().batch
    assert evict is not None
    first.apply_batch(copied(evict))
    assert creates_of(first) == [(1, 1)]
    stream = first.keyspace.find(KEY)
    assert stream is not None and stream.groups[GROUP].start() == Position((1, 1))
    first.check()


def test_a_table_that_comes_with_a_state_voids_what_is_here() -> None:
    second, (_, create) = Replica(2), creating(3)
    second.apply_batch(copied(create))
    first = Replica(1)
    first.evict_member(3)
    first.drain()
    join(second, first)
    assert creates_of(second) == [] and second.applied.members.voids(3, 1)


def test_a_state_brings_no_create_that_is_void_here() -> None:
    first, (third, _) = Replica(1), creating(3)
    first.evict_member(3)
    first.drain()
    join(first, third)
    assert creates_of(first) == []
    first.check()


def test_a_state_that_makes_the_own_admission_void_voids_what_was_made_under_it() -> None:
    """It brings an operator's eviction that knew nothing of this origin, which was admitted by all."""
    first, second = Replica(1), Replica(2)
    first.join_member(1)
    first.say_admitted((1, 1), True)
    first.create_group(KEY, GROUP, Position(), 0)
    first.drain()
    second.evict_member(3)
    second.drain()
    join(first, second)
    assert first.applied.members.ends() == {1: 0, 3: 0} and creates_of(first) == []
    first.check()
