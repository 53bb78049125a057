"""What the log tells while a region runs: a region number in use twice, and why clients wait."""

from __future__ import annotations

import pytest

from crdtstream.core.values.causality import origin_name
from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication.membership.lookout import REPEATED_MS
from simulations.cluster import Cluster


def told(cluster: Cluster, event: str) -> dict[int, list[str]]:
    """What each machine has noticed since the last call."""
    found: dict[int, list[str]] = {}
    for number, machine in sorted(cluster.machines.items()):
        node = machine.node
        found[number] = [notice.text for notice in [*node.notices, *node.news] if notice.event == event]
        node.notices.clear()
        node.news.clear()
    return found


@pytest.fixture
def doubled() -> Cluster:
    """Regions 1 and 2 are linked; a third process has the number 2, an empty disk and region 1 as its peer."""
    cluster = Cluster(3, STRICT, absent=(3,))
    cluster.execute(1, b"XADD s * f v".split())
    cluster.live(3_000)
    cluster.add(3, 1, region=2)
    return cluster


def test_all_regions_tell_of_a_number_that_is_used_twice(doubled: Cluster) -> None:
    timeout_ms = doubled.node(1).settings.limits.peer_timeout_ms
    doubled.live(timeout_ms)
    assert told(doubled, "region-number-shared") == {1: [], 2: [], 3: []}, "one could be the process before the other"
    doubled.live(2 * timeout_ms)
    two, three = [origin_name(doubled.node(number).birth.origin) for number in (2, 3)]
    found = told(doubled, "region-number-shared")
    text = "give all but one of them another --region, or stop them"
    origins = sorted([f"{two} (region2)", f"{three} (region3)"])
    assert found[1] == [f"region number 2 is in use by 2 processes, origins {', '.join(origins)}: {text}"]
    assert len(found[2]) == 1 and f"{two} (region2)" in found[2][0] and three in found[2][0]
    assert found[3] == [doubled.node(3).standing.loading]
    assert found[3][0].startswith(f"region number 2 is in use: region region1 hears from origin {two}; give this node")


def test_it_is_told_once_a_minute_until_it_ends(doubled: Cluster) -> None:
    doubled.live(20_000)
    assert [len(texts) for texts in told(doubled, "region-number-shared").values()] == [1, 1, 1]
    doubled.live(REPEATED_MS)
    assert [len(texts) for texts in told(doubled, "region-number-shared").values()] == [1, 1, 1]
    doubled.stop(3)
    doubled.live(2 * REPEATED_MS)
    assert told(doubled, "region-number-shared") == {1: [], 2: []}


@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_a_restart_is_no_second_process(fault: str) -> None:
    cluster = Cluster(3, STRICT)
    cluster.live(3_000)
    told(cluster, "waiting")
    for _ in range(4):
        cluster.restart(2, fault)
        cluster.live(4_000)
    assert told(cluster, "region-number-shared") == {1: [], 2: [], 3: []}


def test_a_lost_disk_is_no_second_process() -> None:
    cluster = Cluster(3, STRICT)
    cluster.live(3_000)
    cluster.lose_disk(2, 0)
    cluster.live(30_000)
    assert told(cluster, "region-number-shared") == {1: [], 2: [], 3: []}


def test_a_region_tells_why_its_clients_wait(doubled: Cluster) -> None:
    doubled.live(30_000)
    waiting = told(doubled, "waiting")
    assert waiting == {1: [], 2: [], 3: [doubled.node(3).standing.loading]}
    doubled.live(30_000)
    assert told(doubled, "waiting")[3] == [], "the same reason is told once"
