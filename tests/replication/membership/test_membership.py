"""Membership: how an origin is admitted, what it waits for, when it serves, and its region's life after an eviction."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from crdtstream.core.values.causality import VersionVector, region_of
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols import codec
from crdtstream.scenarios.reply import ReplyError
from crdtstream.settings.config import Limits
from crdtstream.status.availability import TICK_BYTES
from simulations.cluster import Cluster
from tests.core.remaining import names_of
from tests.replication.membership.living_clusters import (
    HEARTBEAT_MS,
    STEP_MS,
    TIMEOUT_MS,
    admitted,
    answer,
    counted,
    lasting,
    live,
    mesh_of_new,
    origin,
    rows,
    run,
    sync_disks,
    waiting_for,
)

# As a founder


def test_regions_that_meet_admit_each_other_once() -> None:
    cluster = Cluster(3, STRICT)
    cluster.sync()
    assert admitted(cluster) == lasting(cluster) == [1, 2, 3]
    before = rows(cluster, 1)
    cluster.cut(1, 2)
    cluster.heal(1, 2)
    cluster.sync()
    assert rows(cluster, 1) == before


def test_new_regions_found_a_cluster_together() -> None:
    cluster = mesh_of_new(3)
    assert all("waits to hear" in waiting_for(cluster, number) for number in (1, 2, 3))
    for pair in cluster.pairs:
        cluster.heal(*pair)
    cluster.sync()
    for number in (1, 2, 3):
        assert waiting_for(cluster, number) == ""
        assert cluster.node(number).birth.founders_left() == counted(cluster, number) == [1, 2, 3]
    assert run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM") == "OK"


def test_a_line_of_new_regions_is_founded_once_all_have_met() -> None:
    """Were it sooner, both ends could found clusters of their own, and one forget what the other never had."""
    cluster = mesh_of_new(4, [(1, 2), (2, 3), (3, 4)])
    cluster.heal(1, 2)
    cluster.heal(2, 3)
    cluster.sync()
    for number in (1, 2):
        assert "a new cluster begins when all its regions have met" in waiting_for(cluster, number)
        assert cluster.node(number).replica.applied.vector.total() == 0
    cluster.heal(3, 4)
    cluster.sync()
    for number in (1, 2, 3, 4):
        assert waiting_for(cluster, number) == ""
        assert counted(cluster, number) == [1, 2, 3, 4]


def test_a_founder_that_has_forgotten_its_cluster_is_evicted_and_comes_back() -> None:
    """Region 3 lost its disk and began a cluster of its own, whose creates nobody there waited for."""
    cluster = Cluster(3, STRICT)
    run(cluster, 3, "XADD x 100 f old")
    sync_disks(cluster)
    for number in (1, 2):
        cluster.cut(number, 3)
    region = cluster.machines[3]
    region.lose_disk()
    region.start(cluster.now_ms)
    founder = origin(cluster, 3)
    assert cluster.node(3).membership.admitted
    assert run(cluster, 3, "XADD x 200 f new") is not None
    assert run(cluster, 3, "XGROUP CREATE x void 0") == "OK"
    for _ in range(3):
        for number in (1, 2):
            cluster.heal(number, 3)
        live(cluster, 2 * TIMEOUT_MS)
    assert cluster.node(1).replica.applied.members.is_evicted(founder)
    assert founder not in cluster.node(1).birth.founders
    assert origin(cluster, 3) not in (3, founder) and admitted(cluster) == [1, 2, 3]
    assert lasting(cluster) == [1, 2, origin(cluster, 3)]
    for number in (1, 2, 3):
        assert run(cluster, number, "XLEN x") == 2, "what it did counts"
        assert run(cluster, number, "XINFO GROUPS x") == [], "but for its groups"


# By a sponsor


def test_a_new_region_serves_once_its_sponsor_has_admitted_it() -> None:
    cluster = Cluster(3, STRICT, absent=(3,))
    cluster.sync()
    cluster.node(2).writable(False)
    cluster.add(3, 2)
    cluster.sync()
    assert "until another region admits" in waiting_for(cluster, 3)
    assert str(run(cluster, 3, "XLEN x")).count("LOADING") == 1
    # A full disk, whose reserve takes the admission.
    cluster.node(2).writable(False, 0, TICK_BYTES)
    cluster.tick(STEP_MS)
    cluster.sync()
    assert waiting_for(cluster, 3) == "" and run(cluster, 3, "XLEN x") == 0
    assert lasting(cluster) == [1, 2, 3]
    sponsor = cluster.node(1).replica.applied.members.sponsor_of(3)
    assert sponsor is not None and sponsor[0] == 2


@pytest.mark.parametrize("adds", [False, True])
def test_a_new_region_that_has_heard_of_a_cluster_serves_no_sooner_after_a_restart(adds: bool) -> None:
    """The others do not count it yet, so they may forget what it has not seen."""
    cluster = Cluster(3, STRICT, absent=(3,))
    cluster.sync()
    if adds:
        run(cluster, 1, "XADD x 100 f v")
        cluster.sync()
    cluster.node(2).writable(False)
    cluster.add(3, 2)
    sync_disks(cluster)
    assert cluster.node(3).birth.founders
    cluster.cut(2, 3)
    cluster.restart(3)
    assert "waits to hear from its peers" in waiting_for(cluster, 3)
    assert str(run(cluster, 3, "XLEN x")).count("LOADING") == 1
    cluster.heal(2, 3)
    cluster.node(2).writable(True)
    live(cluster, TIMEOUT_MS)
    assert waiting_for(cluster, 3) == "" and run(cluster, 3, "XLEN x") == adds
    cluster.cut(2, 3)
    cluster.restart(3)
    assert waiting_for(cluster, 3) == "", "now it was in the cluster"


def test_a_new_region_that_was_evicted_before_its_admission_serves_no_sooner_after_a_restart() -> None:
    cluster = Cluster(3, STRICT, absent=(3,))
    cluster.sync()
    cluster.node(2).writable(False)
    cluster.add(3, 2)
    sync_disks(cluster)
    cluster.node(2).writable(True)
    assert isinstance(run(cluster, 2, f"CRDT.EVICT {origin(cluster, 3)} FORCE"), list)
    cluster.node(2).writable(False)
    sync_disks(cluster)
    assert cluster.node(3).replica.applied.members.is_evicted(3)
    cluster.cut(2, 3)
    cluster.restart(3)
    assert "waits to hear from its peers" in waiting_for(cluster, 3)


def test_a_region_whose_admission_lapsed_serves_after_a_restart() -> None:
    """It has served readers, which makes no effects."""
    cluster = Cluster(3, STRICT, absent=(3,))
    cluster.sync()
    run(cluster, 1, "XADD x 100 f v")
    cluster.sync()
    cluster.cut(1, 2)
    cluster.add(3, 2)
    sync_disks(cluster)
    assert waiting_for(cluster, 3) == "" and not cluster.node(3).replica.applied.counter()
    cluster.cut(2, 3)
    run(cluster, 1, "CRDT.EVICT 2 FORCE")
    sync_disks(cluster)
    cluster.node(1).writable(False)
    cluster.heal(1, 3)
    sync_disks(cluster)
    cluster.tick(100)
    sync_disks(cluster)
    assert waiting_for(cluster, 3) == "" and not cluster.node(3).membership.admitted
    cluster.restart(3)
    assert waiting_for(cluster, 3) == ""


def test_new_regions_go_on_without_the_only_one_that_was_in_the_cluster() -> None:
    cluster = Cluster(3, STRICT, absent=(2, 3))
    cluster.sync()
    run(cluster, 1, "XADD x 100 f v")
    cluster.node(1).writable(False)
    for number in (2, 3):
        cluster.add(number, 1)
    sync_disks(cluster)
    for number in (2, 3):
        assert cluster.node(number).birth.founders
        cluster.cut(1, number)
    for number in (2, 3):
        region = cluster.machines[number]
        region.config = replace(region.config, incarnation=0, peers=())
        cluster.restart(number)
        assert run(cluster, number, "XLEN x") == 1
    cluster.heal(2, 3)
    cluster.sync()
    assert isinstance(run(cluster, 2, "CRDT.EVICT 1 FORCE"), list)
    live(cluster, TIMEOUT_MS)
    sync_disks(cluster)
    assert all(cluster.node(number).membership.admitted for number in (2, 3))
    assert run(cluster, 2, "XGROUP CREATE x g 0") == "OK"


def test_a_new_region_that_has_served_at_once_does_so_after_a_restart_without_the_option() -> None:
    cluster = Cluster(3, STRICT, absent=(3,))
    cluster.sync()
    cluster.node(2).writable(False)
    cluster.add(3, 2)
    region = cluster.machines[3]
    region.config = replace(region.config, incarnation=7)
    cluster.restart(3)
    assert isinstance(run(cluster, 3, "XADD x 100 f v"), str)
    sync_disks(cluster)
    cluster.cut(2, 3)
    region.config = replace(region.config, incarnation=None)
    cluster.restart(3)
    assert waiting_for(cluster, 3) == "" and not cluster.node(3).membership.admitted
    assert run(cluster, 3, "XLEN x") == 1


def test_an_incarnation_that_is_given_waits_for_nobody() -> None:
    cluster = mesh_of_new(2)
    region = cluster.machines[1]
    region.config = replace(region.config, incarnation=7)
    region.start(cluster.now_ms)
    assert waiting_for(cluster, 1) == "" and not cluster.node(1).membership.admitted
    assert isinstance(run(cluster, 1, "XADD x 100 f v"), str)
    cluster.heal(1, 2)
    sync_disks(cluster)
    assert run(cluster, 1, "XLEN x") == 1


def test_a_region_that_comes_back_creates_no_group_before_it_is_admitted() -> None:
    """It may have been evicted meanwhile; all else it serves."""
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 2)
    cluster.lose_power(1, random.Random(0), odds=0.0)
    assert origin(cluster, 1) == 257
    assert isinstance(run(cluster, 1, "XADD x * f v"), str)
    assert run(cluster, 1, "XGROUP CREATE x g 0") is None
    cluster.heal(1, 2)
    cluster.sync()
    assert answer(cluster, 1) == "OK"
    assert lasting(cluster) == [2, 257]
    assert cluster.node(2).replica.applied.members.is_succeeded(1)


def test_a_client_that_waits_for_an_admission_is_told_to_try_again() -> None:
    cluster = Cluster(2, STRICT, limits=Limits(admission_wait_ms=500))
    sync_disks(cluster)
    cluster.cut(1, 2)
    cluster.restart(1)
    assert run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM") is None
    cluster.tick(499)
    assert answer(cluster, 1) is None
    cluster.tick(1)
    refused = answer(cluster, 1)
    assert isinstance(refused, ReplyError) and refused.text.startswith("TRYAGAIN")


def test_a_predecessor_ends_once_its_sponsor_holds_all_that_anybody_has_of_it() -> None:
    """Region 3 holds a group of it that has not come to region 2."""
    cluster = Cluster(3, STRICT)
    run(cluster, 1, "XADD x 100 f v")
    sync_disks(cluster)
    cluster.cut(1, 2)
    run(cluster, 1, "XGROUP CREATE x g 0")
    cluster.carry(1, 3)
    cluster.cut(1, 3)
    cluster.machines[1].sync()
    cluster.restart(1)
    cluster.node(3).writable(False)
    cluster.heal(1, 2)
    for _ in range(3):
        cluster.carry_one(3, 2)
    while cluster.node(2).replica.applied.vector.get(1) < cluster.node(3).replica.applied.vector.get(1):
        assert not cluster.node(2).replica.applied.members.is_evicted(1)
        assert not cluster.node(1).membership.admitted
        assert cluster.carry_one(1, 2) or cluster.carry_one(2, 1)
    cluster.node(3).writable(True)
    cluster.heal(2, 3)
    live(cluster, 3 * HEARTBEAT_MS)
    assert cluster.node(2).replica.applied.members.is_evicted(1)
    for number in (1, 2, 3):
        assert len(run(cluster, number, "XINFO GROUPS x")) == 1  # type: ignore[arg-type]


def test_who_alone_knows_of_a_birth_ends_it_once_its_region_goes_on_as_another() -> None:
    """Region 1 lost its birth with the power, and founded with region 2 as another origin; region 3 is not its peer."""
    cluster = Cluster(3, STRICT, pairs=[(1, 2), (2, 3)])
    sync_disks(cluster)
    unborn = 1 + (9 << 8)
    cluster.node(3).birth.found(unborn, cluster.node(3).turn)
    live(cluster, HEARTBEAT_MS)
    assert counted(cluster, 3) == [1, 2, 3, unborn] and counted(cluster, 2) == [1, 2, 3]
    live(cluster, TIMEOUT_MS)
    assert counted(cluster, 3) == [1, 2, 3]
    assert cluster.node(2).replica.applied.members.is_succeeded(unborn)


def test_an_admission_that_was_not_said_lapses_with_the_end_of_its_sponsor() -> None:
    """Region 1 evicts region 2, and has not heard of the Join by which region 3 was admitted."""
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    cluster.restart(3)
    live(cluster, 3 * HEARTBEAT_MS)
    assert admitted(cluster) == [1, 2, 3]
    run(cluster, 1, "CRDT.EVICT 2.0 FORCE")
    cluster.machines[1].sync()
    cluster.cut(2, 3)
    cluster.heal(1, 3)
    while not cluster.node(3).replica.applied.members.is_evicted(2):
        assert cluster.carry_one(1, 3) or cluster.carry_one(3, 1)
    assert run(cluster, 3, "XGROUP CREATE x g 0 MKSTREAM") is None
    live(cluster, 3 * HEARTBEAT_MS)
    assert answer(cluster, 3) == "OK"
    sponsor = cluster.node(1).replica.applied.members.sponsor_of(origin(cluster, 3))
    assert sponsor is not None and sponsor[0] == 1


# Evicted


def test_an_evicted_region_goes_on_as_a_new_origin_and_hands_over_its_tail() -> None:
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    run(cluster, 3, "XADD x * f tail")
    run(cluster, 3, "XGROUP CREATE x void 0")
    run(cluster, 1, "CRDT.EVICT 3")
    cluster.heal(1, 3)
    cluster.sync()
    assert not cluster.link(1, 3).open, "it greets again"
    assert region_of(origin(cluster, 3)) == 3 and origin(cluster, 3) != 3
    assert run(cluster, 3, "XLEN x") == 1, "it never stopped"
    assert run(cluster, 3, "XINFO GROUPS x") == []
    assert run(cluster, 3, "XGROUP CREATE x g 0") is None
    cluster.heal(1, 3)
    cluster.sync()
    assert answer(cluster, 3) == "OK"
    cluster.sync()
    for number in (1, 2):
        assert run(cluster, number, "XLEN x") == 1
    assert lasting(cluster) == [1, 2, origin(cluster, 3)]


def test_an_evicted_region_whose_process_began_with_a_new_directory_serves_on() -> None:
    """As it would after a restart: its directory has been at work."""
    cluster = mesh_of_new(3)
    for pair in cluster.pairs:
        cluster.heal(*pair)
    sync_disks(cluster)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    assert isinstance(run(cluster, 3, "XADD x 100 f v"), str)
    run(cluster, 1, "CRDT.EVICT 3.0 FORCE")
    cluster.machines[1].sync()
    cluster.heal(1, 3)
    while origin(cluster, 3) == 3:
        assert cluster.carry_one(1, 3) or cluster.carry_one(3, 1)
    assert not cluster.node(3).membership.admitted
    assert waiting_for(cluster, 3) == "" and run(cluster, 3, "XLEN x") == 1


def test_an_eviction_that_was_logged_and_not_obeyed_is_obeyed_at_the_start() -> None:
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 2)
    run(cluster, 1, "CRDT.EVICT 2")
    log = cluster.machines[1].log
    _, kind, payload = log.read(log.last_position, 1 << 16)[-1]
    assert kind == codec.BATCH
    cluster.machines[2].log.append([(kind, payload)])
    cluster.machines[2].log.sync()
    cluster.restart(2)
    assert (origin(cluster, 2), cluster.node(2).birth.predecessors()) == (258, [])
    cluster.heal(1, 2)
    cluster.sync()
    assert lasting(cluster) == [1, 258]


def test_nobody_heeds_what_an_origin_that_ended_tells_of_itself() -> None:
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    cluster.restart(1)
    live(cluster, 3 * HEARTBEAT_MS)
    assert [row[0] for row in cluster.node(2).exchange.progress.rows()] == [257]


# Stability


def test_who_was_never_heard_of_keeps_everything_and_who_is_evicted_nothing() -> None:
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    assert cluster.node(1).exchange.stable().total() > 0
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    run(cluster, 1, "XADD x * f v")
    sync_disks(cluster)
    behind = cluster.node(1).exchange.stable()
    run(cluster, 2, "CRDT.EVICT 3")
    sync_disks(cluster)
    ahead = cluster.node(1).exchange.stable()
    assert ahead.descends(behind) and ahead.get(1) > behind.get(1)
    config = replace(cluster.node(1).settings.config, peers=("a:1", "b:1", "c:1"))
    cluster.node(1).exchange.view.settings.change(config)
    assert cluster.node(1).exchange.stable() == VersionVector(), "three are configured, two were ever met"


def test_collection_runs_with_the_ticks_in_slices() -> None:
    cluster = Cluster(2, STRICT, limits=Limits(collected_keys_max=4))
    for number in range(10):
        run(cluster, 1, f"XADD k{number} * f v")
        run(cluster, 1, f"DEL k{number}")
    sync_disks(cluster)
    counts = []
    for _ in range(4):
        counts.append(len(names_of(cluster.node(2).replica.keyspace)))
        cluster.tick(100)
    assert counts == [10, 6, 2, 0]
    assert cluster.node(2).replica.keyspace.collection.waiting == {}


# What is held back


def held_back(cluster: Cluster, number: int, origin: int) -> int:
    return cluster.node(number).neighbours.held_back(origin)


def test_what_a_region_holds_back_grows_until_it_has_it_or_is_evicted() -> None:
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    assert held_back(cluster, 1, 2) == held_back(cluster, 1, 3) == 0
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    for _ in range(600):
        run(cluster, 1, f"XADD x * f {'v' * 100}")
    sync_disks(cluster)
    assert held_back(cluster, 1, 2) == 0
    kept = held_back(cluster, 1, 3)
    assert kept > 60_000
    info = str(run(cluster, 1, "INFO replication"))
    assert f"held_back_bytes={kept}" in info and "held_back_bytes=0" in info
    run(cluster, 1, f"XADD x * f {'v' * 1000}")
    sync_disks(cluster)
    assert held_back(cluster, 1, 3) > kept + 1000
    cluster.heal(1, 3)
    cluster.sync()
    sync_disks(cluster)
    assert held_back(cluster, 1, 3) == 0


@pytest.mark.parametrize(("limit", "kept"), [(0, True), (1 << 17, False), (1 << 30, True)])
def test_the_log_is_kept_for_who_is_gone_up_to_a_limit(limit: int, kept: bool) -> None:
    cluster = Cluster(2, STRICT, limits=Limits(segment_bytes_max=1 << 16, log_retention_bytes=limit))
    sync_disks(cluster)
    cluster.cut(1, 2)
    for _ in range(300):
        run(cluster, 1, f"XADD x * f {'v' * 1000}")
    region = cluster.machines[1]
    region.sync()
    region.checkpoint()
    assert (region.log.first_position == 1) == kept
    if not kept:
        assert region.log.byte_count() <= limit + (1 << 16)
    cluster.heal(1, 2)
    cluster.sync()
    assert run(cluster, 2, "XLEN x") == 300
    region.sync()
    cluster.restart(1)
    assert run(cluster, 1, "XLEN x") == 300
