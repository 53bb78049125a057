"""A region behind its peers' logs takes a state instead, and comes out as if it had been sent every batch.

The log is cut further than any rule of ours would, so that transfers are needed all the time; chunks are tiny, so that
everything else happens between two of them.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtstream.core.values.entry_id import STRICT
from simulations.cluster import Cluster
from tests.effort import examples
from tests.state_transfers import LIMITS, LINE, add, assert_equal, behind, cluster_of, cut_log, run, settle, told
from tests.test_convergence import act, assert_agreement, steps


def test_who_is_behind_takes_a_state_and_keeps_its_own() -> None:
    cluster = behind()
    settle(cluster)
    assert_equal(cluster)
    assert run(cluster, 1, "XLEN x") == 33
    assert told(cluster, 2, "is joined: 1 keys") == 1
    add(cluster, 1, 5)
    add(cluster, 2, 5)
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 2, "is joined") == 1, "batches go on behind the state"
    assert told(cluster, 1, "from region") == 0


def test_while_the_log_reaches_back_no_state_is_sent() -> None:
    cluster = cluster_of()
    cluster.cut(1, 2)
    add(cluster, 1, 30)
    settle(cluster)
    assert_equal(cluster)
    assert cluster.node(1).exchange.news == cluster.node(2).exchange.news == []


def test_an_empty_region_takes_a_state() -> None:
    cluster = cluster_of(3)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    add(cluster, 1, 20)
    add(cluster, 2, 20, "y")
    run(cluster, 1, "XGROUP CREATE x g 0")
    run(cluster, 1, "XREADGROUP GROUP g a COUNT 3 NOACK STREAMS x >")
    cluster.sync()
    for number in (1, 2):
        cut_log(cluster, number)
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 3, "is joined") == 1, "one state is enough"
    assert len(run(cluster, 3, "XREADGROUP GROUP g a STREAMS x >")[0][1]) == 17  # type: ignore[index]


def test_what_happens_meanwhile_follows_the_state() -> None:
    cluster = behind()
    cluster.heal(1, 2)
    turns = 0
    while told(cluster, 2, "is joined") == 0:
        turns += 1
        add(cluster, 1)
        add(cluster, 2)
        if turns % 3 == 0:
            run(cluster, 1, "XTRIM x MAXLEN 5")
            run(cluster, 2, "XDEL x 1-1")
        cluster.carry_one(1, 2)
        cluster.carry_one(2, 1)
        cluster.check()
    assert turns > 10
    settle(cluster)
    assert_equal(cluster)


def test_an_open_link_that_fell_behind_the_log_goes_on_with_a_state() -> None:
    cluster = cluster_of()
    cluster.sync()
    add(cluster, 1, 40)
    cut_log(cluster, 1)
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 2, "is joined") == 1
    assert cluster.link(1, 2).open


def test_a_transfer_is_shown_while_it_goes() -> None:
    cluster = behind()
    cluster.heal(1, 2)
    for _ in range(8):
        cluster.carry_one(1, 2)
        cluster.carry_one(2, 1)
    cluster.tick(1)
    info = [str(run(cluster, number, "INFO replication")) for number in (1, 2)]
    assert "link=transfer" in info[0] and "transfer=sending,transfer_chunks=" in info[0]
    assert "link=transfer" in info[1] and "transfer=receiving,transfer_chunks=" in info[1]
    assert "connected_regions:1" in info[0]
    assert "'transfer-bytes'" in str(run(cluster, 2, "CRDT.REGIONS"))
    settle(cluster)
    assert "transfer" not in str(run(cluster, 2, "INFO replication"))
    assert "link=open" in str(run(cluster, 1, "INFO replication"))


def test_who_waits_for_entries_hears_of_a_state() -> None:
    cluster = behind()
    cluster.machines[2].connect(9, cluster.now_ms)
    assert cluster.execute(2, b"XREAD BLOCK 0 STREAMS x 999999-0".split(), 9) is None
    assert cluster.execute(2, b"XREAD BLOCK 0 STREAMS y 0".split()) is None
    run(cluster, 1, "XADD y * f v")
    cut_log(cluster, 1)
    settle(cluster)
    reply = cluster.machines[2].pop_reply()
    assert reply is not None and b"$1\r\ny\r\n" in reply
    assert cluster.machines[2].pop_reply(9) is None


def test_a_state_that_was_joined_survives_when_it_was_synced_and_counts_as_durable_only_then() -> None:
    cluster = behind()
    cluster.heal(1, 2)
    while told(cluster, 2, "is joined") == 0:
        cluster.carry_one(1, 2)
        cluster.carry_one(2, 1)
    durable = cluster.node(2).exchange.view.durable_vector
    assert durable.get(1) < 32
    cluster.machines[2].sync()
    assert durable.get(1) == cluster.node(1).replica.applied.counter()
    cluster.lose_power(2, Random(1), 0.0)  # whatever is drawn, nothing unsynced survives
    assert run(cluster, 2, "XLEN x") == 33


def test_a_region_that_joins_the_cluster_takes_a_state() -> None:
    cluster = Cluster(3, STRICT, limits=LIMITS, absent=(3,))
    add(cluster, 1, 30)
    add(cluster, 2, 3, "y")
    cluster.sync()
    cut_log(cluster, 1)
    cluster.add(3, 1)
    settle(cluster)
    cluster.check()
    assert told(cluster, 3, "from region 1 is joined") == 1
    assert run(cluster, 3, "XLEN x") == 30
    add(cluster, 3, 2)
    settle(cluster)
    assert_equal(cluster)


# Relay


@pytest.mark.parametrize("lagging", [True, False])
def test_what_came_as_a_state_is_relayed_as_a_state(lagging: bool) -> None:
    """1 - 2 - 3: region 2 takes a state; region 3 cannot be served from its log, linked or later."""
    cluster = cluster_of(3, LINE)
    add(cluster, 3, 2)
    cluster.sync()
    cluster.cut(1, 2)
    if lagging:
        cluster.cut(2, 3)
    add(cluster, 1, 30)
    add(cluster, 2, 3)
    add(cluster, 3, 3)
    cut_log(cluster, 1)
    cluster.heal(1, 2)
    cluster.sync()
    add(cluster, 2, 3)
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 2, "from region 1 is joined") == 1
    assert told(cluster, 3, "from region 2 is joined") == 1
    assert run(cluster, 3, "XLEN x") == 41


def test_who_has_it_from_elsewhere_needs_no_state() -> None:
    """A triangle: region 2 takes a state of region 1, which region 3 has followed all the time."""
    cluster = cluster_of(3)
    cluster.cut(1, 2)
    cluster.cut(2, 3)
    add(cluster, 1, 30)
    add(cluster, 3, 5)
    add(cluster, 2, 5)
    cluster.sync()
    cut_log(cluster, 1)
    cut_log(cluster, 3)
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 2, "is joined") == 1
    assert told(cluster, 1, "from region") == told(cluster, 3, "from region") == 0


def test_a_gap_outlives_a_restart_with_and_without_a_checkpoint() -> None:
    for checkpointed in (False, True):
        cluster = cluster_of(3, LINE)
        cluster.cut(1, 2)
        cluster.cut(2, 3)
        add(cluster, 1, 30)
        add(cluster, 2, 3)
        cut_log(cluster, 1)
        cluster.heal(1, 2)
        cluster.sync()
        if checkpointed:
            cluster.machines[2].checkpoint()
        cluster.restart(2)
        assert len(cluster.node(2).history.gaps()) == 1
        settle(cluster)
        assert_equal(cluster)
        assert told(cluster, 3, "from region 2 is joined") == 1


# Members and groups


def test_a_create_that_an_eviction_voids_does_not_come_back_with_a_state() -> None:
    """Region 2 evicted region 3; region 1, which has not heard of it, hands over a state with a later create of 3."""
    cluster = cluster_of(3, [(1, 2), (1, 3)])
    add(cluster, 1)
    cluster.sync()
    cluster.cut(1, 2)
    run(cluster, 3, "XGROUP CREATE x g 0")
    cluster.sync()
    add(cluster, 1, 30)
    cut_log(cluster, 1)
    replica = cluster.node(2).replica
    replica.evict_member(3)
    cluster.machines[2].perform()
    cluster.heal(1, 2)
    cluster.carry(1, 2)
    cluster.sync()
    assert told(cluster, 2, "is joined") == 1
    stream = replica.keyspace.find((0, b"x"))
    assert stream is not None and not stream.groups


def test_an_acknowledgement_dies_with_its_create_in_a_state_too() -> None:
    """Row C6c: region 2 acknowledged; region 1 recreated the group; region 2 takes its state."""
    cluster = cluster_of()
    run(cluster, 1, "XADD x 100 f v")
    run(cluster, 1, "XGROUP CREATE x g 0")
    cluster.sync()
    run(cluster, 2, "XREADGROUP GROUP g a STREAMS x >")
    cluster.cut(1, 2)
    run(cluster, 2, "XACK x g 100-1")
    run(cluster, 1, "XGROUP DESTROY x g")
    run(cluster, 1, "XGROUP CREATE x g 0")
    add(cluster, 1, 30, "y")
    cut_log(cluster, 1)
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 2, "is joined") == 1
    assert run(cluster, 2, "XPENDING x g - + 10") == []
    assert "100-1" in str(run(cluster, 2, "XREADGROUP GROUP g a STREAMS x >"))


# Any history

cuts = st.tuples(st.just("cut log"), st.integers(1, 3), st.integers(1, 3))
moves = st.one_of(steps, steps, steps, cuts, st.tuples(st.just("one"), st.integers(1, 3), st.integers(1, 3)))


def move(cluster: Cluster, step: tuple[str, int, object]) -> None:
    kind, number, rest = step
    if kind == "cut log":
        cut_log(cluster, number)
    elif kind == "one":
        assert isinstance(rest, int)
        if (min(number, rest), max(number, rest)) in cluster.links:
            cluster.carry_one(number, rest)
    else:
        act(cluster, step)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    history=st.lists(moves, min_size=20, max_size=60),
    pairs=st.sampled_from([None, LINE]),
    losses=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2**32)), max_size=2),
)
def test_all_regions_agree_whatever_is_cut(
    history: list[tuple[str, int, object]], pairs: list[tuple[int, int]] | None, losses: list[tuple[int, int]]
) -> None:
    cluster = cluster_of(3, pairs)
    size = max(1, len(history) // (len(losses) + 1))
    for index, step in enumerate(history):
        move(cluster, step)
        cluster.check()
        if losses and index % size == size - 1:
            number, seed = losses[(index // size) % len(losses)]
            cluster.lose_power(number, Random(seed))
    settle(cluster)
    for region in cluster.machines.values():
        assert region.node.membership.admitted
        region.pop_reply()
    assert_equal(cluster)
    assert_agreement(cluster)
