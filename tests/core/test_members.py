"""Members: laws of the table, who counts for stability, and what an eviction voids, in whatever order it comes."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.causality import VersionVector
from crdtstream.core.digest import digest_replica
from crdtstream.core.effects import Batch, Position
from crdtstream.core.members import EVICTED, FOLLOWED, MemberRow, Members
from crdtstream.core.replica import Replica
from crdtstream.protocols.codec import decode_batch, encode_batch

KEY = (0, b"x")
slots = st.sampled_from([1, 2, 3, 257, 258, 259])
joins = st.tuples(slots, slots, st.integers(1, 9)).filter(lambda row: row[0] != row[1])
evicts = st.tuples(slots, st.just(0), st.integers(0, 9))


# An origin says once whom it follows, so no two tables may tell differently.
FOLLOWED_JOINS = {1: (2, 4), 3: (257, 6), 258: (3, 2)}


def with_follows(rows: list[MemberRow], followers: set[int]) -> Members:
    members = Members.of_rows(rows)
    for slot in sorted(followers):
        members.apply_joined(FOLLOWED_JOINS[slot], slot)
        members.apply_admitted((slot, 5), FOLLOWED_JOINS[slot])
    return members


tables = st.builds(with_follows, st.lists(joins | evicts, max_size=8), st.sets(st.sampled_from(sorted(FOLLOWED_JOINS))))


def joined(left: Members, right: Members) -> Members:
    made = Members.of_rows(left.rows())
    made.join(right)
    made.check()
    return made


@given(tables, tables, tables)
def test_tables_join_in_any_order(a: Members, b: Members, c: Members) -> None:
    assert joined(a, b).rows() == joined(b, a).rows()
    assert joined(joined(a, b), c).rows() == joined(a, joined(b, c)).rows()
    assert joined(a, a).rows() == a.rows()


@given(tables, tables)
def test_a_join_names_what_is_void_since(a: Members, b: Members) -> None:
    dots = [(slot, counter) for slot in (1, 2, 3, 257, 258, 259) for counter in range(1, 11)]
    before, ends = {dot for dot in dots if a.voids(*dot)}, a.ends()
    a.join(b)
    after = {dot for dot in dots if a.voids(*dot)}
    assert before <= after
    changed = {slot: end for slot, end in a.ends().items() if ends.get(slot) != end}
    assert {slot for slot, _ in after - before} == {slot for slot, end in changed.items() if end < 10}


orders = st.lists(joins | evicts, max_size=6).flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows)))


@given(orders)
def test_the_order_of_rows_does_not_matter(rows: tuple[list[MemberRow], list[MemberRow]]) -> None:
    assert Members.of_rows(rows[0]).rows() == Members.of_rows(rows[1]).rows()


def following(slot: int, counter: int, sponsor: int, joined_at: int) -> list[MemberRow]:
    return [(slot, sponsor, joined_at), (slot, FOLLOWED + sponsor, joined_at), (slot, FOLLOWED, counter)]


def test_who_follows_a_join_beyond_its_sponsors_end_has_ended_too() -> None:
    """R2 was evicted at 5 and did not know: it admitted R3 by effect 6, which admitted R4."""
    rows = [(2, 1, 1), *following(3, 1, 2, 6), *following(4, 1, 3, 2)]
    for order in permutations([rows[:4], rows[4:], [(2, EVICTED, 5)]]):
        members = Members()
        for part in order:
            members.join(Members.of_rows(part))
        members.check()
        assert members.ends() == {2: 5, 3: 0, 4: 0} and members.joined() == []
    members = Members.of_rows([*rows, (2, EVICTED, 6)])
    assert members.ends() == {2: 6} and members.joined() == [3, 4]


def test_a_sponsor_that_was_not_admitted_stands_for_the_origin_before_it() -> None:
    """R1 and R3 come back, and admit each other before anybody admits them."""
    rows = [(1, 3, 1), (3, 1, 1), *following(257, 2, 259, 1), *following(259, 2, 257, 1)]
    assert Members.of_rows(rows).joined() == [1, 3, 257, 259]
    assert Members.of_rows([*rows, (2, EVICTED, 0)]).joined() == [1, 3, 257, 259]
    members = Members.of_rows([*rows, (3, EVICTED, 7)])
    assert members.ends() == {3: 7, 257: 0}, "what region 3 had was not what others had when they forgot"
    rows = [(1, 3, 1), (3, 1, 1), *following(259, 2, 1, 9), *following(257, 4, 259, 3), (3, EVICTED, 7)]
    assert Members.of_rows(rows).ends() == {3: 7}, "region 3 had been admitted before"


def test_an_eviction_ends_whoever_stands_on_the_evicted() -> None:
    """Regions 1 and 2 came back at once, as 257 and 258, and each follows the other's Join."""
    rows = [(1, 2, 1), (2, 1, 1), (257, 258, 1), (258, 257, 1)]
    rows += [(257, FOLLOWED + 258, 1), (257, FOLLOWED, 2), (258, FOLLOWED + 257, 1), (258, FOLLOWED, 2)]
    members = Members.of_rows(rows)
    assert members.left_after({}, 257) == [257, 258]
    assert members.left_after({2: 5, 258: 2}, 257) == []
    assert members.rows() == sorted(rows), "nothing was evicted by asking"
    assert Members().left_after({2: 0}, 1) == [1], "a founder alone stands by itself"


def test_a_join_that_counts_is_found_among_others() -> None:
    members = Members.of_rows([(3, 1, 9), (3, 2, 6), (1, EVICTED, 4)])
    assert members.sponsor_of(3) == (2, 6) and members.sponsor_of(2) is None
    members.apply_evicted(2, 5)
    assert members.sponsor_of(3) is None and members.is_joined(3)


@given(tables)
def test_what_is_known_changes_nothing(table: Members) -> None:
    changes = table.changes
    table.join(Members.of_rows(table.rows()))
    assert table.changes == changes


# Stability

DURABLE = VersionVector({1: 9, 2: 9, 3: 9})


def stable(members: Members, heard: dict[int, VersionVector], own_slot: int = 1, born: list[int] | None = None) -> int:
    """How much of origin 1 is stable for `own_slot`."""
    return members.stable(own_slot, DURABLE, born or [], lambda slot: heard.get(slot, VersionVector())).get(1)


def test_everyone_who_joined_counts_and_one_not_heard_of_is_zero() -> None:
    members = Members.of_rows([(2, 1, 1), (3, 2, 1)])
    assert stable(Members(), {}) == 9
    assert stable(members, {2: VersionVector({1: 5, 3: 1})}) == 0
    assert stable(members, {2: VersionVector({1: 5}), 3: VersionVector({1: 4})}) == 4
    assert stable(members, {2: VersionVector({1: 5}), 3: VersionVector({1: 4})}, born=[4]) == 0


def test_the_evicted_do_not_count() -> None:
    members = Members.of_rows([(2, 1, 1), (3, 2, 1), (3, 0, 7)])
    assert stable(members, {2: VersionVector({1: 5})}) == 5
    assert stable(members, {2: VersionVector({1: 5})}, born=[3]) == 5
    assert members.joined() == [2]


def test_the_own_row_is_what_is_on_the_own_disk() -> None:
    members = Members.of_rows([(1, 2, 1), (2, 1, 1)])
    assert stable(members, {2: VersionVector({1: 8})}) == 8


def test_an_older_incarnation_counts_until_all_hold_the_join_of_the_newer() -> None:
    """Its last messages may be on their way to a region that does not know yet that it is gone."""
    members = Members.of_rows([(2, 1, 1), (3, 1, 2), (259, 2, 6)])
    heard = {2: VersionVector({1: 8, 2: 5}), 3: VersionVector({1: 3}), 259: VersionVector({1: 7, 2: 6})}
    assert stable(members, heard) == 3
    heard[2] = VersionVector({1: 8, 2: 6})
    assert stable(members, heard) == 7


def test_an_older_incarnation_of_this_region_counts_too() -> None:
    members = Members.of_rows([(1, 2, 1), (2, 1, 1)])
    heard = {2: VersionVector({1: 8, 2: 5}), 1: VersionVector({1: 3})}
    assert stable(members, heard, own_slot=257) == 3
    members.apply_joined((2, 5), 257)
    assert stable(members, heard, own_slot=257) == 8


# Evictions in replicas


def batch_of(replica: Replica) -> Batch:
    batch = replica.take().batch
    assert batch is not None
    return decode_batch(encode_batch(batch, 1))


def fate(replica: Replica) -> tuple[bytes, bool]:
    replica.check()
    stream = replica.find(KEY)
    return digest_replica(replica), stream is not None and b"g" in stream.groups


def test_creates_beyond_the_eviction_are_void_whether_they_come_before_or_after() -> None:
    """R3 creates g, unheard; R1 evicts it: all orders of both in R2 come to the same."""
    third, first = Replica(3), Replica(1)
    third.create_group(KEY, b"g", Position(), 0)
    create = batch_of(third)
    first.evict_member(3)
    evict = batch_of(first)
    fates = set()
    for order in permutations([create, evict]):
        second = Replica(2)
        for batch in order:
            second.apply_batch(decode_batch(encode_batch(batch, 1)))
        fates.add(fate(second))
    first.apply_batch(create)
    third.apply_batch(evict)
    assert fates | {fate(first), fate(third)} == {(fate(first)[0], False)}


def test_what_the_evictor_held_lives_and_the_least_of_two_evictions_counts() -> None:
    third = Replica(3)
    third.create_group(KEY, b"g", Position((1, 1)), 0)
    early = batch_of(third)
    third.create_group(KEY, b"g", Position(), 0)
    late = batch_of(third)
    first, second = Replica(1), Replica(2)
    first.apply_batch(early)
    second.apply_batch(early)
    second.apply_batch(late)
    first.evict_member(3)
    second.evict_member(3)
    less, more = batch_of(first), batch_of(second)
    second_creates = second.databases[0][b"x"].groups[b"g"].creates
    assert sorted(second_creates) == [(3, 1), (3, 2)], "its evictor had seen both"
    first.apply_batch(late)
    first.apply_batch(more)
    second.apply_batch(less)
    assert fate(first) == fate(second)
    assert sorted(first.databases[0][b"x"].groups[b"g"].creates) == [(3, 1)]
    assert first.databases[0][b"x"].groups[b"g"].start() == Position((1, 1))


def test_a_group_that_others_made_too_lives_on_with_their_runs() -> None:
    first, third = Replica(1), Replica(3)
    first.add_entry(KEY, (5, 1), [b"f", b"v"])
    first.create_group(KEY, b"g", Position(), 0)
    made = batch_of(first)
    third.create_group(KEY, b"g", Position(), 0)
    unheard = batch_of(third)
    first.apply_batch(unheard)
    second = Replica(2)
    second.evict_member(3)
    first.apply_batch(batch_of(second))
    group = first.databases[0][b"x"].groups[b"g"]
    assert sorted(group.creates) == [(1, 2)]
    third.apply_batch(made)
    third.evict_member(2)
    first.apply_batch(batch_of(third))
    assert first.members.rows() == [(2, 0, 0), (3, 0, 0)], "an evicted origin may evict: the rows are a union"
    first.check()


def test_tables_travel_with_a_joined_state() -> None:
    first, second, third = Replica(1), Replica(2), Replica(3)
    third.create_group(KEY, b"g", Position(), 0)
    second.apply_batch(batch_of(third))
    first.evict_member(3)
    second.join({}, first.vector)
    second.join_members(first.members)
    assert fate(second)[1] is False
    assert second.members.voids(3, 1) and not second.members.voids(3, 0)
