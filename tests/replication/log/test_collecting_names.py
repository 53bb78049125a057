"""Names of adds are forgotten once all regions have them, whatever else clients ask for."""

from __future__ import annotations

import pytest

from crdtstream.core.values.entry_id import STRICT
from simulations.cluster import Cluster

PATIENCE_MS = 30_000


@pytest.mark.parametrize("restarted", [False, True])
def test_names_leave_without_groups_or_tombstones(restarted: bool) -> None:
    cluster = Cluster(2, STRICT)
    cluster.sync()
    if restarted:
        cluster.restart(1)
        cluster.sync()
    for number in range(5):
        cluster.execute(1, (b"XADD x IDMP p %d * f v" % number).split())
    named = [cluster.node(number).replica.keyspace.named for number in (1, 2)]
    assert named[0].held == 5
    cluster.sync()
    cluster.live(PATIENCE_MS)
    assert [one.held for one in named] == [0, 0]
    assert cluster.execute(2, b"XADD x IDMP p 3 * f v".split()) is not None
    assert named[1].held == 0


def test_names_stay_while_a_region_is_away() -> None:
    cluster = Cluster(2, STRICT)
    cluster.sync()
    cluster.cut(1, 2)
    cluster.execute(1, b"XADD x IDMP p 1 * f v".split())
    cluster.live(PATIENCE_MS)
    named = cluster.node(1).replica.keyspace.named
    assert named.held == 1
    cluster.heal(1, 2)
    cluster.sync()
    cluster.live(PATIENCE_MS)
    assert named.held == 0
