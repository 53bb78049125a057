"""Rot in the log of a region that runs: it goes on, and who lacks what cannot be read any more takes a state.

Damage in what a start has to read stops the start; that is tested with the log and the checkpoint.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.core.values.entry_id import STRICT
from crdtstream.storage.segment import FRAME_BYTES, HEADER_BYTES, segment_names
from simulations.cluster import Cluster
from tests.state_transfers import LIMITS, add, assert_equal, run, settle, told

ROT_LIMITS = replace(LIMITS, segment_bytes_max=500)


def apart(regions: int = 2) -> Cluster:
    """The last region is away, and lacks much of what region 1 has on its disk, and not in memory: since it started,
    nobody has read its log to the end.
    """
    cluster = Cluster(regions, STRICT, limits=ROT_LIMITS)
    settle(cluster)
    cluster.cut(1, regions)
    cluster.restart(1)
    add(cluster, 1, 40)
    cluster.machines[1].sync()
    return cluster


def rot(cluster: Cluster, at: int) -> str:
    """A bit of the first record in one of region 1's segments."""
    disk = cluster.machines[1].disk
    name = segment_names(disk)[at]
    disk.flip_bit(name, HEADER_BYTES + FRAME_BYTES + 20)
    return name


def shown(cluster: Cluster) -> str:
    return str(run(cluster, 1, "INFO persistence"))


@pytest.mark.parametrize("restarts", [False, True])
def test_who_lacks_what_rotted_in_an_old_segment_takes_a_state(restarts: bool) -> None:
    cluster = apart()
    cluster.machines[1].checkpoint()
    add(cluster, 1)
    cluster.machines[1].sync()
    name = rot(cluster, 1)
    if restarts:
        cluster.restart(1)
    assert "log_damages:0\r\nlog_last_damage:\r\n" in shown(cluster)
    settle(cluster)
    assert_equal(cluster)
    assert told(cluster, 1, "a state transfer to region 2 begins") == 1
    assert [damage.file for damage in cluster.machines[1].log.damages] == [name]
    assert f"log_damages:1\r\nlog_last_damage:{name}:" in shown(cluster)


@pytest.mark.parametrize("at", [1, -1])
def test_a_checkpoint_rids_the_region_of_what_rotted(at: int) -> None:
    """In the last segment too: then the region goes on in another one."""
    cluster = apart()
    name = rot(cluster, at)
    settle(cluster)
    assert_equal(cluster)
    assert cluster.node(1).context.saving.requested
    add(cluster, 1)
    cluster.machines[1].checkpoint()
    assert name not in cluster.machines[1].disk.names()
    cluster.restart(1)
    settle(cluster)
    assert_equal(cluster)
    assert cluster.machines[1].log.damages == []


def test_who_lacks_nothing_of_what_rotted_is_served_on() -> None:
    """Another region meets the damage."""
    cluster = Cluster(3, STRICT, limits=ROT_LIMITS)
    settle(cluster)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    cluster.restart(1)
    add(cluster, 1, 40)
    cluster.sync()
    rot(cluster, -1)
    cluster.heal(1, 3)
    cluster.sync()
    assert len(cluster.machines[1].log.damages) == 1
    assert told(cluster, 1, "a state transfer to region 3 begins") == 1
    add(cluster, 1)
    cluster.sync()
    assert cluster.node(2).replica.applied.vector == cluster.node(1).replica.applied.vector
    assert told(cluster, 1, "a state transfer to region 2 begins") == 0


def test_rot_that_nobody_needs_is_not_read() -> None:
    cluster = apart(3)
    cluster.sync()
    rot(cluster, -1)
    cluster.cut(2, 3)
    cluster.heal(1, 3)
    add(cluster, 1)
    cluster.sync()
    assert cluster.node(3).replica.applied.vector == cluster.node(1).replica.applied.vector
    assert cluster.machines[1].log.damages == []
    assert told(cluster, 1, "state transfer") == 0


def test_who_keeps_up_is_served_from_memory() -> None:
    cluster = Cluster(2, STRICT, limits=ROT_LIMITS)
    settle(cluster)
    add(cluster, 1, 40)
    cluster.machines[1].sync()
    rot(cluster, -1)
    cluster.sync()
    assert_equal(cluster)
    assert cluster.machines[1].log.damages == []
    assert told(cluster, 1, "state transfer") == 0


def test_rot_that_is_met_while_a_state_goes() -> None:
    """What follows the state lies behind the damage: another state goes."""
    cluster = apart()
    cluster.machines[1].cut_log()
    add(cluster, 1, 10)  # or the first read of the log would be one to its end
    cluster.heal(1, 2)
    for _ in range(4):
        cluster.carry_one(1, 2)
        cluster.carry_one(2, 1)
    assert told(cluster, 1, "a state transfer to region 2 begins") == 1
    add(cluster, 1, 20)
    cluster.machines[1].sync()
    rot(cluster, -2)
    settle(cluster)
    assert_equal(cluster)
    assert len(cluster.machines[1].log.damages) == 1
