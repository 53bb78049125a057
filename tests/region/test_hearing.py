"""What a region waits for after a silence: what the other one announced, for as long as that may still come."""

from __future__ import annotations

from crdtstream.core.values.causality import VersionVector
from simulations.cluster import Cluster
from tests.group_delivery import ALL, LIMITS, TAKEOVER_MS, away, back, formed, read

AHEAD = 5


def silent_then_announced() -> Cluster:
    """Region 2 was silent for longer than a takeover takes; then a sign of life of it came to region 1 by way of region
    3, and with it what region 2 has: effects that are not here.
    """
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    away(cluster, 2)
    cluster.live(2 * TAKEOVER_MS)
    announce(cluster)
    assert read(cluster, 1) == []
    return cluster


def announce(cluster: Cluster) -> None:
    applied = cluster.node(2).replica.applied
    vector = applied.vector.copy()
    vector.advance(applied.origin, applied.counter() + AHEAD)
    row = (applied.origin, VersionVector(), vector, 1_000)
    assert cluster.node(1).exchange.progress.merge_row(row, 1 << 62, cluster.clock_ms(1))
    cluster.tick(10)


def test_what_was_announced_is_waited_for_while_the_region_is_not_silent_for_a_takeover() -> None:
    cluster = silent_then_announced()
    for _ in range(9):
        cluster.live(TAKEOVER_MS // 10)
        assert read(cluster, 1) == []
    cluster.live(TAKEOVER_MS // 5)
    assert read(cluster, 1) == ALL


def test_the_first_life_of_a_region_since_the_start_lets_wait_longer() -> None:
    """It is no sign of life, and yet that region may be there."""
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    away(cluster, 1)
    cluster.restart(1)
    cluster.live(TAKEOVER_MS * 7 // 10)
    announce(cluster)
    cluster.live(TAKEOVER_MS // 2)
    assert read(cluster, 1) == []
    cluster.live(TAKEOVER_MS * 7 // 10)
    assert read(cluster, 1) == ALL


def test_what_a_region_has_lost_with_its_disk_is_not_waited_for() -> None:
    cluster = silent_then_announced()
    cluster.lose_disk(2, 1)
    back(cluster, 2)
    cluster.live(3 * TAKEOVER_MS)
    assert read(cluster, 1) == ALL


def test_a_sign_of_life_that_others_remember_is_none_since_the_start() -> None:
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    away(cluster, 2)
    cluster.live(2 * TAKEOVER_MS)
    cluster.restart(1)
    for _ in range(8):
        cluster.live(TAKEOVER_MS // 10)
        assert read(cluster, 1) == [], "region 2 may have taken over"
    cluster.live(TAKEOVER_MS // 2)
    assert read(cluster, 1) == ALL


def test_a_sign_of_life_that_came_before_a_pause_is_none_since_then() -> None:
    cluster = formed(f"DELIVER OWNER 1 TAKEOVER {TAKEOVER_MS}")
    cluster.live(LIMITS.heartbeat_ms)
    cluster.machines[1].skew_ms = 5_000
    cluster.tick_one(1)
    cluster.tick_one(1)
    assert read(cluster, 1) == []
    cluster.live(5 * LIMITS.heartbeat_ms)
    assert read(cluster, 1) == ALL
