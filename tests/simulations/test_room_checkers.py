"""The checker of regions without room: what it passes, and what it names."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import AddCounted, Batch, StreamDeleted
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication import wire_pb2 as wire
from simulations.cluster import Cluster
from simulations.history import Violation
from simulations.room_checkers import WaitsForRoom

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
