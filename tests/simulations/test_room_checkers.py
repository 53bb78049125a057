"""The checker of regions without room: what it passes, and what it names."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import AddCounted, Batch, StreamDeleted
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication import wire_pb2 as wire
from simulations.adversary import draw_world
from simulations.cluster import Cluster
from simulations.history import Violation
from simulations.room_checkers import OWED_MS, FreesFullDisk, WaitsForRoom
from simulations.settings import Settings
from simulations.world import World

KEY = (0, b"x")
ADDED = Batch(1, 9, 9, VersionVector(), [AddCounted(KEY, 1, 0)])
DELETED = Batch(1, 9, 9, VersionVector(), [StreamDeleted(KEY, {})])
OWN = Batch(2, 9, 9, VersionVector(), [AddCounted(KEY, 1, 0)])
STATE = VersionVector({1: 9})


def cluster_of(writable: bool) -> Cluster:
    cluster = Cluster(2, STRICT)
    cluster.sync()
    cluster.node(2).writable(writable)
    cluster.tick(0)
    return cluster


@pytest.mark.parametrize(("batch", "text"), [(ADDED, "lacks disk and applies 1:9"), (STATE, "lacks disk and joins")])
def test_data_of_peers_has_to_wait(batch: Batch | VersionVector, text: str) -> None:
    for writable in (True, False):
        cluster = cluster_of(writable)
        cluster.machines[2].logged.append(batch)
        if writable:
            WaitsForRoom().turned(cluster, 2)
        else:
            with pytest.raises(Violation, match=text):
                WaitsForRoom().turned(cluster, 2)


def test_removals_and_what_is_of_the_region_itself_need_not() -> None:
    cluster = cluster_of(False)
    cluster.machines[2].logged += [DELETED, OWN]
    WaitsForRoom().turned(cluster, 2)


@pytest.mark.parametrize("writable", [True, False])
def test_nobody_is_refused_for_it(writable: bool) -> None:
    cluster, checker = cluster_of(writable), WaitsForRoom()
    link, message = cluster.link(1, 2), wire.Message(refused=wire.Refused(reason="no room"))
    checker.sent(cluster, link, 2, wire.Message(refused=wire.Refused(reason="a batch of its own origin")), b"")
    if writable:
        checker.sent(cluster, link, 2, message, b"")
    else:
        with pytest.raises(Violation, match="region 2 lacks disk and refuses 1: no room"):
            checker.sent(cluster, link, 2, message, b"")


def turns(world: World, checker: FreesFullDisk, from_ms: int, to_ms: int) -> None:
    """Turns of region 1, whose disk is full and whose log is worth a checkpoint."""
    machine = world.machines[1]
    for world.now_ms in range(from_ms, to_ms, 50):
        machine.room.full = True
        checker.turned(world, 1)


@pytest.fixture
def world() -> World:
    made = draw_world(1, Settings(2, "mesh", STRICT, 400, (), 100, 1_000_000))
    made.run()
    assert made.machines[1].checkpointer.is_owed()
    return made


def test_a_full_disk_that_nothing_frees(world: World) -> None:
    checker, now_ms = FreesFullDisk(), world.now_ms
    turns(world, checker, now_ms, now_ms + OWED_MS)
    with pytest.raises(Violation, match="full disk: region 1 has a full disk since"):
        turns(world, checker, now_ms + OWED_MS, now_ms + 2 * OWED_MS)


def test_a_full_disk_that_a_checkpoint_frees_and_one_of_a_suspended_process(world: World) -> None:
    checker, now_ms = FreesFullDisk(), world.now_ms
    for second in range(3):
        turns(world, checker, now_ms + second * OWED_MS, now_ms + (second + 1) * OWED_MS)
        checker.saving(world, 1)
    turns(world, checker, now_ms + 20 * OWED_MS, now_ms + 21 * OWED_MS)
    checker.stopped(world, 1, "power")
    turns(world, checker, now_ms + 21 * OWED_MS, now_ms + 22 * OWED_MS)
