"""Admission by all, where nobody is left who could sponsor."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from crdtstream.core.values.causality import region_of
from crdtstream.core.values.entry_id import STRICT
from crdtstream.scenarios.reply import read_reply
from simulations.cluster import Cluster
from simulations.machine import Machine
from tests.replication.membership.living_clusters import (
    HEARTBEAT_MS,
    STEP_MS,
    TIMEOUT_MS,
    admitted,
    answer,
    counted,
    lasting,
    live,
    origin,
    rows,
    run,
    sync_disks,
)


def lasting_regions(cluster: Cluster) -> list[int]:
    return sorted(map(region_of, lasting(cluster)))


def test_where_all_restart_each_waits_until_all_have_its_join_on_disk() -> None:
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    for number in (1, 2):
        cluster.restart(number)
    for number in (1, 2):
        assert run(cluster, number, f"XGROUP CREATE x g{number} 0 MKSTREAM") is None
    cluster.cut(1, 2)
    for region in cluster.machines.values():
        region.sync()
    cluster.tick(STEP_MS)
    assert admitted(cluster) == []
    cluster.heal(1, 2)
    live(cluster, 3 * HEARTBEAT_MS)
    assert admitted(cluster) == [1, 2]
    assert [answer(cluster, number) for number in (1, 2)] == ["OK", "OK"]
    assert lasting(cluster) == [257, 258]


def test_the_second_to_come_back_is_sponsored_by_the_first() -> None:
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    for number in (1, 2):
        cluster.restart(number)
        live(cluster, 3 * HEARTBEAT_MS)
        assert admitted(cluster) == [1, 2, 3]
    assert lasting(cluster) == [3, 257, 258]


def restarted_apart() -> Cluster:
    """All links are cut, and regions 1 and 2 have restarted since then."""
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    for pair in cluster.pairs:
        cluster.cut(*pair)
    for number in (1, 2):
        cluster.restart(number)
    return cluster


def test_an_admission_by_all_waits_for_a_region_that_is_away() -> None:
    cluster = restarted_apart()
    cluster.heal(1, 2)
    live(cluster, 2 * TIMEOUT_MS)
    assert admitted(cluster) == [3], "region 3 may have forgotten what they have not seen"
    cluster.heal(2, 3)
    live(cluster, 3 * HEARTBEAT_MS)
    assert admitted(cluster) == [1, 2, 3]


def test_a_region_alone_comes_back_without_anybody() -> None:
    cluster = Cluster(1, STRICT)
    run(cluster, 1, "XADD x 100 f v")
    cluster.lose_power(1, random.Random(0), odds=0.0)
    assert run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM") == "OK"
    assert lasting(cluster) == [257]


def test_a_region_alone_waits_for_a_peer_that_it_has_never_heard_of() -> None:
    """It may know of another process of this region."""
    cluster = Cluster(2, STRICT, absent=(2,))
    run(cluster, 1, "XADD x 100 f v")
    cluster.machines[1].config = replace(cluster.machines[1].config, peers=("region2:1",))
    cluster.restart(1)
    assert run(cluster, 1, "XGROUP CREATE x g 0") is None
    live(cluster, STEP_MS)
    assert answer(cluster, 1) is None and admitted(cluster) == []
    cluster.node(1).peer_met("region2:1", 2)
    cluster.add(2, 1)
    cluster.sync()
    assert answer(cluster, 1) == "OK" and admitted(cluster) == lasting_regions(cluster) == [1, 2]


def test_a_copy_of_a_region_alone_waits_until_its_peer_has_met_the_original() -> None:
    """Region 2 is new, as it seems to the copy, and region 1 has forgotten a destroy that the copy never had."""
    cluster = Cluster(3, STRICT, absent=(2, 3))
    run(cluster, 1, "XADD x 100 f v")
    cluster.machines[1].sync()
    known = cluster.machines[1].config
    copy = replace(known, name="copy", peers=("region2:1",))
    cluster.machines[3] = Machine(copy, cluster.now_ms, cluster.machines[1].disk.copy(), starts=7)
    new = replace(known, name="region2", region=2, incarnation=None, peers=("region1:1",))
    cluster.machines[2] = Machine(new, cluster.now_ms)
    cluster.node(3).peer_met("region2:1", 2)
    cluster.heal(2, 3)
    assert run(cluster, 3, "XGROUP CREATE x g 0") is None
    run(cluster, 1, "XGROUP CREATE x g 0")
    run(cluster, 1, "XGROUP DESTROY x g")
    live(cluster, HEARTBEAT_MS)
    assert answer(cluster, 3) is None and admitted(cluster) == [1]
    assert not cluster.node(1).replica.keyspace.collection.waiting
    cluster.node(2).peer_met("region1:1", 1)
    cluster.node(2).link_opened(77, True, cluster.now_ms)
    live(cluster, STEP_MS)
    assert admitted(cluster) == [1], "the copy has greeted, the original not yet"
    cluster.node(2).link_closed(77, "lost", cluster.now_ms)
    cluster.heal(1, 2)
    live(cluster, HEARTBEAT_MS)
    assert admitted(cluster) == [1, 2] and origin(cluster, 1) in lasting(cluster)
    assert "TRYAGAIN" in str(answer(cluster, 3))
    assert len({str(run(cluster, number, "CRDT.DIGEST")) for number in (1, 2, 3)}) == 1


def test_a_process_that_starts_again_and_again_leaves_nothing_behind() -> None:
    cluster = Cluster(1, STRICT)
    run(cluster, 1, "XADD x 100 f v")
    cluster.machines[1].sync()
    for _ in range(5):
        cluster.restart(1)
        live(cluster, HEARTBEAT_MS)
    assert cluster.node(1).replica.applied.vector.as_dict() == {1: 1}
    assert rows(cluster, 1) == []


@pytest.mark.parametrize(("starts", "life_ms"), [(200, STEP_MS), (20, HEARTBEAT_MS)])
def test_a_process_that_cannot_stay_up_leaves_nothing_behind_at_its_peers(starts: int, life_ms: int) -> None:
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    run(cluster, 1, "XADD x 100 f v")
    live(cluster, HEARTBEAT_MS)
    before = {number: (rows(cluster, number), vector_of(cluster, number)) for number in (2, 3)}
    for _ in range(starts):
        cluster.restart(1)
        live(cluster, life_ms)
    assert {number: (rows(cluster, number), vector_of(cluster, number)) for number in (2, 3)} == before
    assert sorted(cluster.node(1).exchange.greeted()) == [2, 3]
    live(cluster, 3 * HEARTBEAT_MS)
    assert admitted(cluster) == [1, 2, 3]
    assert counted(cluster, 2) == [2, 3, origin(cluster, 1)]


def vector_of(cluster: Cluster, number: int) -> dict[int, int]:
    return cluster.node(number).replica.applied.vector.as_dict()


def test_an_origin_that_is_waited_for_is_joined_at_once() -> None:
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    cluster.restart(1)
    assert run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM") is None
    live(cluster, STEP_MS)
    assert answer(cluster, 1) == "OK"


def test_contexts_of_ended_origins_do_not_add_up() -> None:
    """Each start is an origin that writes, and whose context names all before it."""
    cluster = Cluster(2, STRICT)
    for start in range(20):
        cluster.restart(1)
        live(cluster, 3 * HEARTBEAT_MS)
        run(cluster, 1, f"XADD x {1000 + start} f v")
        live(cluster, 3 * HEARTBEAT_MS)
    for number in (1, 2):
        replica = cluster.node(number).replica
        assert replica.applied.vector.origin_count() > 20
        assert sorted(replica.applied.contexts) == [2, origin(cluster, 1)]


def test_the_last_region_evicts_the_others_and_needs_nobody() -> None:
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 2)
    cluster.lose_power(1, random.Random(0), odds=0.0)
    assert run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM") is None
    cluster.machines[1].connect(2, cluster.now_ms)
    evicted = read_reply(cluster.execute(1, b"CRDT.EVICT 2".split(), 2) or b"")
    assert evicted == ["2.0", cluster.node(1).replica.applied.vector.get(2)]
    live(cluster, 2 * STEP_MS)
    assert answer(cluster, 1) == "OK"


def test_an_admission_by_all_and_an_eviction_that_knew_nothing_of_each_other_are_void() -> None:
    """Regions 1 and 2 restarted and went on without 3, which an operator evicted; 3, restarted too, evicts region 2."""
    cluster = restarted_apart()
    run(cluster, 1, "CRDT.EVICT 3")
    cluster.heal(1, 2)
    live(cluster, 3 * HEARTBEAT_MS)
    assert admitted(cluster) == [1, 2, 3]
    run(cluster, 1, "XGROUP CREATE x g 0 MKSTREAM")
    run(cluster, 3, "CRDT.EVICT 2")
    run(cluster, 3, "XGROUP CREATE x h 0 MKSTREAM")
    for _ in range(4):
        for number in (1, 2):
            cluster.heal(number, 3)
        live(cluster, 2 * TIMEOUT_MS)
    assert admitted(cluster) == [1, 2, 3]
    assert sorted(map(region_of, lasting(cluster))) == [1, 2, 3]
    digests = {str(run(cluster, number, "CRDT.DIGEST")) for number in (1, 2, 3)}
    assert len(digests) == 1
    for number, group in ((1, "i"), (2, "j"), (3, "k")):
        assert run(cluster, number, f"XGROUP CREATE x {group} 0 MKSTREAM") == "OK"
    cluster.sync()
    assert len({str(run(cluster, number, "CRDT.DIGEST")) for number in (1, 2, 3)}) == 1


def test_regions_that_evict_each_other_admit_each_other_again() -> None:
    cluster = Cluster(2, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 2)
    run(cluster, 1, "CRDT.EVICT 2")
    run(cluster, 2, "CRDT.EVICT 1")
    for _ in range(3):
        cluster.heal(1, 2)
        live(cluster, HEARTBEAT_MS)
    assert admitted(cluster) == [1, 2]
    before = cluster.node(1).replica.applied.vector.total()
    live(cluster, HEARTBEAT_MS)
    assert cluster.node(1).replica.applied.vector.total() == before, "nobody repeats what is worth nothing"
    for number, group in ((1, "g"), (2, "h")):
        assert run(cluster, number, f"XGROUP CREATE x {group} 0 MKSTREAM") == "OK"
    cluster.sync()
    assert run(cluster, 1, "CRDT.DIGEST") == run(cluster, 2, "CRDT.DIGEST")
