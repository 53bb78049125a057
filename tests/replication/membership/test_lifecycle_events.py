"""The life of a region among others, as its log tells it."""

from __future__ import annotations

from crdtstream.core.values.causality import origin_name
from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication.membership.lifecycle_events import LifecycleEvent
from simulations.cluster import Cluster
from tests.replication.membership.living_clusters import HEARTBEAT_MS, live, mesh_of_new, run, sync_disks


def events(cluster: Cluster, number: int) -> list[LifecycleEvent]:
    """Those since the last time."""
    told = cluster.node(number).chronicle.events
    taken = list(told)
    told.clear()
    return taken


def names(cluster: Cluster, number: int) -> list[str]:
    return [name for name, _ in events(cluster, number)]


def test_regions_that_begin_a_cluster_found_it() -> None:
    cluster = mesh_of_new(2)
    assert names(cluster, 1) == []
    cluster.heal(1, 2)
    cluster.sync()
    for number in (1, 2):
        told = events(cluster, number)
        assert told == [("founded", {"origin": f"{number}.0"}), ("ready", {"origin": f"{number}.0"})]


def test_a_region_that_comes_later_is_admitted_and_then_ready() -> None:
    cluster = Cluster(3, STRICT, absent=(3,))
    run(cluster, 1, "XADD x * f v")
    sync_disks(cluster)
    cluster.add(3, 1)
    assert names(cluster, 3) == []
    cluster.sync()
    assert names(cluster, 3) == ["admitted", "ready"]


def test_a_restart_is_ready_and_then_admitted() -> None:
    cluster = Cluster(2, STRICT)
    run(cluster, 1, "XADD x * f v")
    sync_disks(cluster)
    cluster.restart(1)
    cluster.sync()
    assert events(cluster, 1) == [("ready", {"origin": "1.1"})]
    live(cluster, 3 * HEARTBEAT_MS)
    assert events(cluster, 1) == [("admitted", {"origin": "1.1", "by": "2.0"})]


def test_an_evicted_region_is_told_what_it_goes_on_as() -> None:
    cluster = Cluster(3, STRICT)
    sync_disks(cluster)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    events(cluster, 3)
    run(cluster, 3, "XADD x * f tail")
    run(cluster, 1, "CRDT.EVICT 3")
    cluster.heal(1, 3)
    cluster.sync()
    cluster.heal(1, 3)
    cluster.sync()
    told = events(cluster, 3)
    assert told[0] == ("evicted", {"origin": "3.0", "goes_on_as": origin_name(cluster.node(3).birth.origin)})
    assert [name for name, _ in told[1:]] == ["admitted"]
