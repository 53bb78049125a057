"""Crashes, restarts and lost links in the middle of a state transfer."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from crdtstream.core.digest import digest_replica
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols import codec
from crdtstream.replication.transfer.snapshot import Snapshot
from simulations.cluster import Cluster
from tests.state_transfers import (
    LIMITS,
    LINE,
    ROUNDS,
    add,
    assert_equal,
    behind,
    cluster_of,
    cut_log,
    run,
    settle,
    told,
)


def crash(cluster: Cluster, number: int, seed: int | None) -> None:
    if seed is None:
        cluster.restart(number)
    else:
        cluster.lose_power(number, Random(seed))
    cluster.check()


@pytest.mark.parametrize("fsync", ["always", "everysec"])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_crash_at_any_step_of_a_transfer(fsync: str, number: int, seed: int | None) -> None:
    steps_taken = 0
    for step in range(1000):
        cluster = cluster_of(fsync=fsync)
        cluster.cut(1, 2)
        add(cluster, 1, 12)
        run(cluster, 1, "XGROUP CREATE x g 0")
        add(cluster, 2)
        cut_log(cluster, 1)
        cluster.heal(1, 2)
        done = False
        for _ in range(step):
            cluster.carry_one(1, 2)
            cluster.carry_one(2, 1)
            done = told(cluster, 2, "is joined") > 0
        crash(cluster, number, seed)
        settle(cluster)
        assert_equal(cluster)
        assert run(cluster, 2, "XLEN x") in (12, 13)
        steps_taken = step
        if done:
            break
    assert steps_taken > 5


def test_a_restart_of_the_receiver_goes_on_where_it_stopped() -> None:
    cluster = behind()
    cluster.heal(1, 2)
    for _ in range(8):
        cluster.carry_one(1, 2)
        cluster.carry_one(2, 1)
    staging = cluster.node(2).exchange.fetching.staging
    assert staging is not None and staging.next > 2
    before = cluster.node(2).exchange.fetching.staged()
    cluster.restart(2)
    assert cluster.node(2).exchange.fetching.staged() == before
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 1, "begins") == 1


def test_a_lost_link_goes_on_where_it_stopped() -> None:
    cluster = behind()
    cluster.heal(1, 2)
    for _ in range(200):
        cluster.carry_one(1, 2)
        cluster.carry_one(2, 1)
        if cluster.now_ms % 3 == 0:
            cluster.cut(1, 2)
            add(cluster, 1)
            cluster.heal(1, 2)
        cluster.now_ms += 1
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 1, "begins") == told(cluster, 2, "is joined") == 1


def test_a_region_that_stays_away_too_long_starts_over() -> None:
    cluster = behind()
    cluster.heal(1, 2)
    for _ in range(8):
        cluster.carry_one(1, 2)
        cluster.carry_one(2, 1)
    cluster.cut(1, 2)
    assert cluster.node(1).replica.keyspace.observers
    cluster.tick(10 * LIMITS.transfer_keep_ms)
    cluster.tick(1)
    assert cluster.node(1).replica.keyspace.observers and cluster.node(2).exchange.fetching.staging, (
        "a clock that jumps says nothing"
    )
    for _ in range(LIMITS.transfer_keep_ms // LIMITS.heartbeat_ms):
        cluster.tick(LIMITS.heartbeat_ms)
    assert not cluster.node(1).replica.keyspace.observers
    assert cluster.node(2).exchange.fetching.staging is None
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 1, "begins") == 2
    assert told(cluster, 2, "abandoned") == 1


def test_what_is_staged_waits_for_its_region_only_while_that_is_away() -> None:
    """Region 1 has nothing more to send, since region 2 got it elsewhere, and region 3 has a state for region 2."""
    cluster = cluster_of(3, LINE)
    settle(cluster)
    chunk = Snapshot(cluster.node(1).replica, []).chunk(10)
    cluster.node(2).exchange.fetching.restage(codec.encode_staged(1, 7, 0, chunk))
    for pair in LINE:
        cluster.cut(*pair)
    add(cluster, 3, 12)
    cut_log(cluster, 3)
    cluster.heal(2, 3)
    for _ in range(ROUNDS):
        cluster.tick(LIMITS.heartbeat_ms)
        cluster.sync()
    assert cluster.node(2).exchange.fetching.staged() == (7, 1)
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 2, "abandoned") == told(cluster, 2, "is joined") == 1


def test_a_link_over_which_no_state_comes_is_closed() -> None:
    """What region 2 says never arrives; it asks again on the next link."""
    cluster = behind()
    cluster.heal(1, 2)
    cluster.carry(1, 2)
    ticks = 0
    while cluster.link(1, 2).open:
        cluster.send(2, 1)
        cluster.tick(LIMITS.heartbeat_ms)
        cluster.carry(1, 2)
        ticks += 1
    assert abs(LIMITS.transfer_keep_ms // LIMITS.heartbeat_ms - ticks) <= 1
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 2, "is joined") == 1


def test_no_checkpoint_begins_while_chunks_are_staged() -> None:
    cluster = behind()
    cluster.heal(1, 2)
    for _ in range(8):
        cluster.carry_one(1, 2)
        cluster.carry_one(2, 1)
    region = cluster.machines[2]
    with pytest.raises(AssertionError, match="staged"):
        region.checkpointer.begin()
    assert region.checkpoint_step(1) and region.checkpointer.capture is None
    settle(cluster)
    region.checkpoint()
    cluster.restart(2)
    settle(cluster)
    assert_equal(cluster)


def test_what_follows_a_state_is_not_cut_while_the_state_goes() -> None:
    """`log_retention_bytes` keeps next to nothing, but for what the peer is to be sent behind the state."""
    cluster = Cluster(2, STRICT, limits=replace(LIMITS, log_retention_bytes=1))
    cluster.cut(1, 2)
    add(cluster, 1, 30)
    cluster.machines[1].checkpoint()
    cluster.heal(1, 2)
    while cluster.node(1).exchange.transfers.running.get(2) is None:
        cluster.carry_one(1, 2)
        cluster.carry_one(2, 1)
    for _ in range(5):
        add(cluster, 1, 5)
        cluster.machines[1].checkpoint()
        cluster.carry_one(1, 2)
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 2, "is joined") == 1
    add(cluster, 1, 5)
    cluster.sync()
    first = cluster.machines[1].log.first_position
    cluster.machines[1].checkpoint()
    assert cluster.machines[1].log.first_position > first


def test_a_checkpoint_that_is_under_way_meets_the_join() -> None:
    """Keys that were captured before the join are joined when the log is replayed, those captured behind it are not."""
    for units in range(1, 60, 3):
        cluster = cluster_of()
        cluster.cut(1, 2)
        for key in "abcdef":
            add(cluster, 1, 3, key)
            add(cluster, 2, 1, key)
        cut_log(cluster, 1)
        region = cluster.machines[2]
        done = region.checkpoint_step(units)
        cluster.heal(1, 2)
        cluster.sync()
        assert told(cluster, 2, "is joined") == 1
        for key in "abcdef":
            run(cluster, 2, f"XTRIM {key} MAXLEN 2")
        while not done:
            done = region.checkpoint_step(units)
        before = digest_replica(region.node.replica)
        cluster.restart(2)
        assert digest_replica(region.node.replica) == before
        settle(cluster)
        assert_equal(cluster)
