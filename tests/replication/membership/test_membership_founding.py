"""Clients that wait for a group while new regions meet: the wish must not keep them from founding a cluster."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from crdtstream.core.values.causality import VersionVector, origin_of
from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication.values.progress import ROWS_MAX, GrownRow, Unheard
from simulations.cluster import Cluster
from tests.replication.membership.living_clusters import (
    HEARTBEAT_MS,
    TIMEOUT_MS,
    admitted,
    answer,
    counted,
    live,
    mesh_of_new,
    origin,
    run,
    sync_disks,
)

CREATE = "XGROUP CREATE x g 0 MKSTREAM"
ORDERS = list(permutations([(1, 2), (1, 3), (2, 3)]))


def serving_at_once(cluster: Cluster, *numbers: int) -> None:
    for number in numbers:
        region = cluster.machines[number]
        region.config = replace(region.config, incarnation=0)
        region.start(cluster.now_ms)
        for peer in region.config.peers:
            cluster.node(number).peer_met(peer, int(peer[len("region") : -len(":1")]))


def meet(cluster: Cluster, order: tuple[tuple[int, int], ...]) -> None:
    for pair in order:
        cluster.heal(*pair)
        sync_disks(cluster)
    live(cluster, 3 * HEARTBEAT_MS)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("met", [0, 1, 2])
def test_a_group_is_wanted_before_all_have_met(order: tuple[tuple[int, int], ...], met: int) -> None:
    cluster = mesh_of_new(3)
    serving_at_once(cluster, 1, 2, 3)
    meet(cluster, order[:met])
    assert run(cluster, 1, CREATE) is None
    meet(cluster, order[met:])
    assert admitted(cluster) == [1, 2, 3]
    assert answer(cluster, 1) == "OK"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("writes", [True, False])
def test_a_region_that_wrote_and_restarted_alone_meets_new_ones(
    order: tuple[tuple[int, int], ...], wanted: bool, writes: bool
) -> None:
    """It has a history, so it founds nothing; the others do not wait for it to."""
    cluster = mesh_of_new(3)
    serving_at_once(cluster, 1)
    assert isinstance(run(cluster, 1, "XADD x 1 f v"), str)
    sync_disks(cluster)
    cluster.restart(1)
    for peer in (2, 3):
        cluster.node(1).peer_met(f"region{peer}:1", peer)
    if writes:
        assert isinstance(run(cluster, 1, "XADD x 2 f v"), str)
    if wanted:
        assert run(cluster, 1, CREATE) is None
    meet(cluster, order)
    assert admitted(cluster) == [1, 2, 3]
    assert answer(cluster, 1) == ("OK" if wanted else None)


def test_a_new_region_whose_peer_is_at_work_founds_nothing_before_it_has_what_that_peer_holds() -> None:
    """Machine 3 has the number of region 1, which is at work, and an empty disk. Only region 1's Hello has come."""
    cluster = Cluster(2, STRICT, absent=(2,))
    run(cluster, 1, "XADD x * f v")
    cluster.restart(1)
    live(cluster, 3 * HEARTBEAT_MS)
    assert run(cluster, 1, "XGROUP CREATE x g 0") == "OK"
    cluster.add(2, 1)
    cluster.add(3, 2, 1)
    for _ in range(4):
        cluster.carry(2, 3)
        cluster.carry(3, 2)
    assert admitted(cluster) == [1]
    assert not cluster.node(2).birth.founders and not cluster.node(3).birth.founders
    live(cluster, 3 * HEARTBEAT_MS)
    assert admitted(cluster) == [1, 2]


def test_of_two_founders_of_a_silent_region_the_one_that_was_heard_last_stays() -> None:
    """Region 3 restarted with an empty disk while the cluster was being founded, and is then cut off."""
    cluster = mesh_of_new(3, [(1, 2), (2, 3)])
    meet(cluster, ((1, 2), (2, 3)))
    assert admitted(cluster) == [1, 2, 3]
    first, later, node = origin(cluster, 3), origin_of(3, 5), cluster.node(1)
    cluster.cut(2, 3)
    live(cluster, HEARTBEAT_MS)
    node.birth.founders[later] = None
    node.birth.changes += 1
    signs: GrownRow = (later, VersionVector(), VersionVector(), 1)
    assert not node.exchange.progress.merge_rows([signs], Unheard(), ROWS_MAX, cluster.clock_ms(1))
    live(cluster, 3 * TIMEOUT_MS)
    assert later in counted(cluster, 1) and first not in counted(cluster, 1)
