"""Origins of one region number: which of them is at work, and which waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.core.values.entry_id import STRICT
from simulations.cluster import Cluster
from tests.replication.membership.living_clusters import (
    HEARTBEAT_MS,
    STEP_MS,
    TIMEOUT_MS,
    admitted,
    counted,
    lasting,
    live,
    origin,
    run,
    sync_disks,
    waiting_for,
)


def with_newcomer(**settings: object) -> Cluster:
    """Regions 1 and 2 at work, and machine 4, which begins as region 1 with an empty directory and meets region 2."""
    cluster = Cluster(2, STRICT)
    live(cluster, 2 * HEARTBEAT_MS)
    cluster.machines[2].config = replace(cluster.machines[2].config, **settings)  # type: ignore[arg-type]
    cluster.add(4, 2, 1)
    sync_disks(cluster)
    return cluster


def test_an_origin_of_a_number_that_is_in_use_waits_and_both_are_named() -> None:
    cluster = with_newcomer()
    live(cluster, 2 * TIMEOUT_MS)
    told = waiting_for(cluster, 4)
    assert told.startswith("region number 1 is in use: region region2 hears from origin 1.0; give this node, 1.fa0")
    assert "another --region" in told and "--replace" in told
    assert admitted(cluster) == [1, 2] and origin(cluster, 1) == 1
    assert run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM") == "OK"
    cluster.sync()
    cluster.check()


@pytest.mark.parametrize("linked", [True, False], ids=["linked", "behind another region"])
def test_an_origin_is_replaced_once_it_is_silent(linked: bool) -> None:
    """Another directory: after `peer_timeout_ms`, and no sooner."""
    cluster = Cluster(3, STRICT, pairs=None if linked else [(1, 3), (2, 3)])
    live(cluster, 2 * HEARTBEAT_MS)
    cluster.add(4, 2, 1)
    live(cluster, HEARTBEAT_MS)
    cluster.stop(1)
    live(cluster, TIMEOUT_MS - HEARTBEAT_MS - STEP_MS)
    assert not cluster.node(2).replica.applied.members.is_evicted(1) and "is in use" in waiting_for(cluster, 4)
    live(cluster, 2 * HEARTBEAT_MS)
    assert cluster.node(2).replica.applied.members.is_evicted(1) and waiting_for(cluster, 4) == ""
    assert 4 in admitted(cluster)


def test_a_directory_that_comes_back_waits_for_two_heartbeats_of_silence() -> None:
    cluster = Cluster(2, STRICT)
    live(cluster, 2 * HEARTBEAT_MS)
    cluster.restart(1)
    live(cluster, HEARTBEAT_MS)
    assert admitted(cluster) == [2]
    live(cluster, HEARTBEAT_MS + STEP_MS)
    assert admitted(cluster) == [1, 2] and cluster.node(2).replica.applied.members.is_succeeded(1)


def test_who_was_joined_beyond_the_end_of_its_sponsor_alone_joins_itself() -> None:
    """R2, cut off, evicts R3, which joins R1 meanwhile; R1 evicts R2, and then hears of that: nobody else counts."""
    cluster = Cluster(3, STRICT)
    live(cluster, 2 * HEARTBEAT_MS)
    cluster.cut(1, 2)
    cluster.cut(2, 3)
    run(cluster, 2, "CRDT.EVICT 3")
    cluster.restart(1)
    live(cluster, 3 * HEARTBEAT_MS)
    assert admitted(cluster) == [1, 2, 3]
    cluster.cut(1, 3)
    run(cluster, 1, "CRDT.EVICT 2")
    cluster.heal(1, 2)
    cluster.carry(2, 1)
    cluster.cut(1, 2)
    live(cluster, HEARTBEAT_MS)
    assert cluster.node(1).replica.applied.members.joins_of(origin(cluster, 1)) == [(origin(cluster, 1), 2)]
    assert 1 in admitted(cluster) and counted(cluster, 1) == [origin(cluster, 1)]


def two_that_void_each_other() -> Cluster:
    """Machine 4 runs a copy of machine 1's directory, and has heard that both were admitted apart; 1 has not."""
    cluster = Cluster(1, STRICT)
    run(cluster, 1, "XADD x 100 f v")
    sync_disks(cluster)
    cluster.copy(1)
    cluster.twin(4, 1)
    cluster.restart(1)
    for number in (1, 4):
        assert run(cluster, number, "XGROUP CREATE x g 0") == "OK"
    cluster.heal(1, 4)
    cluster.sync()
    assert admitted(cluster) == [1] and not cluster.link(1, 4).open
    return cluster


def test_an_origin_whose_admission_is_void_is_not_replaced_for_its_silence() -> None:
    cluster = two_that_void_each_other()
    void = origin(cluster, 1)
    live(cluster, 3 * TIMEOUT_MS)
    assert admitted(cluster) == [1] and void in counted(cluster, 4)
    cluster.heal(1, 4)
    cluster.sync()
    cluster.heal(1, 4)
    live(cluster, 2 * HEARTBEAT_MS + STEP_MS)
    assert len(admitted(cluster)) == 1 and origin(cluster, 1) != void
    assert void not in counted(cluster, 1) and void not in counted(cluster, 4)
    lasting(cluster)


def test_a_member_replaces_another_directory_of_its_region_that_is_silent() -> None:
    cluster = Cluster(1, STRICT)
    run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM")
    sync_disks(cluster)
    cluster.copy(1)
    cluster.twin(4, 1)
    cluster.heal(1, 4)
    run(cluster, 4, "XGROUP CREATE x h 0")
    live(cluster, HEARTBEAT_MS)
    other = origin(cluster, 4)
    assert admitted(cluster) == [1] and other in counted(cluster, 1)
    cluster.stop(4)
    live(cluster, TIMEOUT_MS - 2 * HEARTBEAT_MS)
    assert other in counted(cluster, 1)
    live(cluster, 2 * HEARTBEAT_MS + STEP_MS)
    assert counted(cluster, 1) == [origin(cluster, 1)]


def test_an_operator_who_knows_that_the_other_directory_is_gone_replaces_it() -> None:
    cluster = two_that_void_each_other()
    void = origin(cluster, 1)
    cluster.stop(1)
    live(cluster, 3 * TIMEOUT_MS)
    assert admitted(cluster) == []
    region = cluster.machines[4]
    region.config = replace(region.config, replace=True)
    cluster.restart(4)
    assert run(cluster, 4, "XGROUP CREATE x h 0") == "OK"
    assert cluster.node(4).replica.applied.members.is_succeeded(void)


def test_an_operator_who_knows_better_replaces_an_origin_at_once() -> None:
    cluster = Cluster(2, STRICT)
    run(cluster, 1, "XADD x 100 f v")
    live(cluster, 2 * HEARTBEAT_MS)
    cluster.add(4, 2, 1)
    region = cluster.machines[4]
    region.config = replace(region.config, replace=True)
    cluster.restart(4)
    cluster.node(4).peer_met("region2:1", 2)
    live(cluster, STEP_MS)
    assert waiting_for(cluster, 4) == "" and cluster.node(2).replica.applied.members.is_evicted(1)
    assert run(cluster, 4, "XLEN x") == 1
    cluster.heal(1, 2)
    live(cluster, HEARTBEAT_MS)
    assert origin(cluster, 1) != 1, "it was at work, heard of it, and goes on as another origin"
    assert run(cluster, 1, "XADD x 200 f v") is not None
    live(cluster, 2 * TIMEOUT_MS)
    assert admitted(cluster) == [2, 4], "now it is the one that waits"
    assert [run(cluster, number, "XLEN x") for number in (1, 2, 4)] == [2, 2, 2]


def test_twins_that_are_linked_to_one_peer_both_replicate_with_ids_of_their_own() -> None:
    cluster = Cluster(2, STRICT)
    run(cluster, 1, "XADD x 100 f v")
    live(cluster, 2 * HEARTBEAT_MS)
    cluster.copy(1)
    cluster.twin(3, 1)
    cluster.heal(2, 3)
    live(cluster, HEARTBEAT_MS)
    ids = [run(cluster, number, f"XADD x {200 + turn} f v") for turn in range(3) for number in (1, 3)]
    sync_disks(cluster)
    assert len(set(map(str, ids))) == 6
    assert [run(cluster, number, "XLEN x") for number in (1, 2, 3)] == [7, 7, 7]
    assert cluster.node(2).exchange.direct_origins() == sorted([origin(cluster, 1), origin(cluster, 3)])
    cluster.check()


def test_twins_that_meet_exchange_and_the_one_at_work_stays() -> None:
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    cluster.copy(1)
    cluster.twin(3, 1)
    cluster.heal(1, 3)
    run(cluster, 3, "XADD x 100 f v")
    live(cluster, 2 * TIMEOUT_MS)
    assert admitted(cluster) == [1, 2] and origin(cluster, 1) == 1
    assert run(cluster, 1, "XLEN x") == 1


def test_two_processes_that_link_while_a_clock_is_set_back() -> None:
    cluster = Cluster(2, STRICT)
    cluster.now_ms = 1_000_000
    live(cluster, 2 * HEARTBEAT_MS)
    cluster.now_ms -= 900_000
    cluster.tick(0)
    cluster.restart(1)
    live(cluster, 3 * HEARTBEAT_MS)
    assert admitted(cluster) == [1, 2]


def test_a_new_directory_that_links_before_a_clock_is_set_back_is_admitted_in_time() -> None:
    cluster = Cluster(2, STRICT)
    cluster.now_ms = 1_000_000
    live(cluster, 2 * HEARTBEAT_MS)
    cluster.cut(1, 2)
    cluster.lose_disk(2, 7)
    cluster.heal(1, 2)
    cluster.sync()
    cluster.now_ms -= 900_000
    live(cluster, 2 * TIMEOUT_MS)
    assert admitted(cluster) == [1, 2]
