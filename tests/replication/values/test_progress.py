"""Progress: what counts was told, is covered here, and is reached even while members go on writing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values.causality import VersionVector
from crdtstream.replication.values.progress import ProgressTable

NOTHING = VersionVector()


def vector(**counters: int) -> VersionVector:
    return VersionVector({int(name[1:]): counter for name, counter in counters.items()})


def heard(table: ProgressTable, origin: int, durable: VersionVector) -> None:
    table.receive(origin, durable, durable)


def test_a_vector_counts_once_the_own_one_covers_it() -> None:
    table = ProgressTable()
    heard(table, 2, vector(s1=5, s3=7))
    assert not table.recheck(vector(s1=5, s3=6))
    assert table.durable_of(2) == NOTHING
    assert table.recheck(vector(s1=5, s3=7))
    assert table.durable_of(2) == vector(s1=5, s3=7)


def test_hearing_alone_settles_nothing() -> None:
    table = ProgressTable()
    heard(table, 2, vector(s2=1))
    assert table.stable([2]) == NOTHING


def test_a_tombstone_is_not_stable_before_what_it_must_kill_arrives() -> None:
    """All cover the destroy A2, but region 2's vector says that its create B1 is on the way."""
    table = ProgressTable()
    own = vector(s1=2)
    heard(table, 1, own)
    heard(table, 2, vector(s1=2, s2=1))
    table.recheck(own)
    assert table.stable([1, 2]) == NOTHING
    own.advance(2, 1)
    table.recheck(own)
    assert table.stable([1, 2]) == vector(s1=2)


def test_a_stream_of_news_does_not_starve_the_gate() -> None:
    """The own vector is always one step behind what is heard last."""
    table = ProgressTable()
    for counter in range(1, 50):
        heard(table, 2, vector(s2=counter))
        table.recheck(vector(s2=counter - 1))
        table.check()
    assert table.durable_of(2).get(2) >= 47


def test_what_was_heard_last_follows_what_waited() -> None:
    table = ProgressTable()
    for counter in (1, 2, 3):
        heard(table, 2, vector(s2=counter))
    table.recheck(vector(s2=1))
    assert table.durable_of(2) == vector(s2=1)
    table.recheck(vector(s2=3))
    assert table.durable_of(2) == vector(s2=3)


def test_only_members_at_the_gate_are_looked_at() -> None:
    table = ProgressTable()
    table.receive(2, NOTHING, vector(s2=1))
    assert not table.awaiting
    heard(table, 2, vector(s2=1))
    heard(table, 3, vector(s3=1))
    assert list(table.awaiting) == [2, 3]
    table.recheck(vector(s2=1))
    assert list(table.awaiting) == [3]
    table.check()
    table.end(3)
    assert not table.awaiting


def test_older_news_change_nothing() -> None:
    table = ProgressTable()
    table.receive(2, vector(s2=5), vector(s2=6))
    table.recheck(vector(s2=6))
    table.receive(2, vector(s2=3), vector(s2=4))
    assert not table.recheck(vector(s2=6))
    assert table.rows() == [(2, vector(s2=5), vector(s2=6), 0)]
    assert (table.durable_of(2), table.applied_of(2)) == (vector(s2=5), vector(s2=6))


def test_a_member_not_heard_of_counts_as_zero() -> None:
    table = ProgressTable()
    heard(table, 2, vector(s2=5))
    table.recheck(vector(s2=5))
    assert table.stable([2]) == vector(s2=5)
    assert table.stable([2, 3]) == NOTHING
    assert table.stable([]) == NOTHING
    assert table.durable_of(3) == table.applied_of(3) == NOTHING


def test_holders_are_facts_and_pass_no_gate() -> None:
    table = ProgressTable()
    heard(table, 2, vector(s1=2**53 + 1, s2=9))
    heard(table, 3, vector(s1=2**53))
    assert table.holders(1, 2**53) == {2, 3}
    assert table.holders(1, 2**53 + 1) == {2}
    assert table.holders(1, 2**53 + 2) == set()


def test_an_applied_vector_holds_nothing() -> None:
    table = ProgressTable()
    table.receive(2, NOTHING, vector(s1=5))
    assert table.holders(1, 1) == set()


def test_the_origin_that_gave_the_last_sign_of_life_speaks_for_its_region() -> None:
    table = ProgressTable()
    heard(table, 2 + 512, vector(s1=5))
    table.record_life(2 + 512, 7, 1_000)
    assert table.holders(1, 5) == {2}
    heard(table, 2, NOTHING)
    table.record_life(2, 1, 2_000)
    assert table.holders(1, 5) == set(), "what the origin before it held may be lost"
    table.record_life(2 + 512, 8, 3_000)
    assert table.holders(1, 5) == {2}


def test_a_sign_of_life_is_heard_once_and_by_the_own_clock() -> None:
    table = ProgressTable()
    table.record_life(2, 1, 1_000)
    assert table.sign_ms(2) == 0, "nothing was heard of its vectors"
    heard(table, 2, NOTHING)
    for life, now_ms, sign_ms in ((3, 1_000, 1_000), (3, 2_000, 1_000), (2, 2_000, 1_000), (4, 2_500, 2_500)):
        table.record_life(2, life, now_ms)
        assert table.sign_ms(2) == sign_ms
    table.set_back(700)
    assert table.sign_ms(2) == 700
    assert [row[3] for row in table.rows()] == [4]


def test_while_this_region_did_not_listen_nobody_was_silent() -> None:
    table = ProgressTable()
    heard(table, 2, NOTHING)
    heard(table, 3, NOTHING)
    assert table.listen(1_000, 250) == 0, "it listens for the first time"
    table.record_life(2, 1, 1_100)
    assert table.listen(1_250, 250) == 0 and table.sign_ms(2) == 1_100
    assert table.listen(2_250, 250) == 750 and table.stalled_ms == 750
    assert table.sign_ms(2) == 1_850 and table.sign_ms(3) == 0
    table.record_life(2, 2, 3_000)
    assert table.listen(3_000, 250) == 500 and table.sign_ms(2) == 3_000, "no sign comes from the future"
    assert table.listen(1_000, 250) == 0 and table.listen(1_100, 250) == 0, "the clock was set back"


def test_a_region_that_never_listens_as_often_as_it_should_sees_silence_all_the_same() -> None:
    table = ProgressTable()
    heard(table, 2, NOTHING)
    table.listen(1_000, 250)
    table.record_life(2, 1, 1_000)
    for now_ms in range(1_300, 4_001, 300):
        assert table.listen(now_ms, 250) == 50
    assert 4_000 - table.sign_ms(2) == 10 * 250


def test_who_was_heard_from_last_since_then() -> None:
    table = ProgressTable()
    for origin, now_ms in ((2, 1_000), (258, 3_000), (514, 2_000), (3, 9_000)):
        heard(table, origin, NOTHING)
        table.record_life(origin, 1, now_ms)
    assert table.heard_since(2, 0, 2) == 258
    assert table.heard_since(2, 0, 514) == 258
    assert table.heard_since(2, 0, 258) == 0, "nobody was heard after it"
    assert table.heard_since(2, 3_000, 2) == 0
    assert table.heard_since(4, 0, 2) == 0


def test_of_an_origin_that_ended_nothing_is_heard_any_more() -> None:
    table = ProgressTable()
    heard(table, 2, vector(s1=5, s2=9))
    table.end(2)
    table.check()
    assert table.receive(2, vector(s1=6), NOTHING, 0)
    assert (table.rows(), table.row_count, table.holders(1, 1)) == ([], 0, set())


def test_rows_beyond_the_limit_are_not_heard() -> None:
    table = ProgressTable()
    assert table.receive(2, vector(s1=5), vector(s1=5), 2)
    assert table.receive(2, vector(s1=6), vector(s1=6), 2), "what is known takes no more"
    assert not table.receive(2, vector(s1=6, s3=1), vector(s1=6), 2)
    assert not table.receive(3, vector(s1=6), NOTHING, 2)
    assert table.rows() == [(2, vector(s1=6), vector(s1=6), 0)]
    table.check()


def test_the_highest_that_others_have_applied() -> None:
    table = ProgressTable()
    table.receive(2, NOTHING, vector(s1=5, s2=9))
    table.receive(3, NOTHING, vector(s1=7, s2=8))
    assert (table.highest_of(1, 0), table.highest_of(2, 0), table.highest_of(9, 0)) == (7, 8, 0)


def test_vectors_that_are_told_are_copied() -> None:
    table = ProgressTable()
    mine = vector(s2=1)
    heard(table, 2, mine)
    mine.advance(2, 9)
    assert table.rows() == [(2, vector(s2=1), vector(s2=1), 0)]
    table.recheck(vector(s2=1))
    table.durable_of(2).advance(2, 9)
    table.applied_of(2).advance(2, 9)
    assert (table.durable_of(2), table.applied_of(2)) == (vector(s2=1), vector(s2=1))


@given(st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.integers(0, 4), st.integers(0, 2)), max_size=40))
def test_against_a_model(steps: list[tuple[int, int, int]]) -> None:
    """Members 2 and 3 log counters 1, 2, ... of origin 1 and their own; the own vector grows at its own pace."""
    table, own = ProgressTable(), VersionVector()
    told: dict[int, list[VersionVector]] = {2: [NOTHING], 3: [NOTHING]}
    for origin, grown, of in steps:
        if origin == 1:
            own.advance(of + 1, own.get(of + 1) + grown)
        else:
            newest = told[origin][-1].copy()
            newest.advance(of + 1, newest.get(of + 1) + grown)
            told[origin].append(newest)
            heard(table, origin, newest)
        table.recheck(own)
        table.check()
        for member, vectors in told.items():
            counted = table.durable_of(member)
            assert counted in vectors, "what counts was never told"
            assert own.descends(counted), "what counts is not covered here"
        assert table.stable([2, 3]) == table.durable_of(2).meet(table.durable_of(3))
    own.merge(told[2][-1])
    own.merge(told[3][-1])
    table.recheck(own)
    assert all(table.durable_of(member) == vectors[-1] for member, vectors in told.items())


def test_who_holds_all_has_told_so_and_passes_no_gate() -> None:
    table = ProgressTable()
    assert not table.holds_all(2, VersionVector({1: 1}))
    table.receive(2, VersionVector({1: 1, 3: 9}), VersionVector({1: 2}))
    assert table.holds_all(2, VersionVector({1: 1}))
    assert not table.holds_all(2, VersionVector({1: 2}))
