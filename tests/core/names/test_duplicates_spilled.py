"""Adds under one name that met in spilled blocks: what is lost of them is removed once the blocks were read."""

from __future__ import annotations

import pytest

from crdtstream.core.digest import digest_replica
from simulations.cluster import Cluster
from tests.spilled_regions import FIRST_MS, LAST_MS, fill, formed, say, spill, waited


def met(spilled: bool, exact: bool = False) -> Cluster:
    """Two regions that added the same names while they were cut off, and then much else. With `exact` all adds under
    these names are acknowledged in region 2.
    """
    cluster = formed(2)
    cluster.cut(1, 2)
    for number in (1, 2):
        for name in range(5):
            cluster.now_ms = FIRST_MS - 20 + name
            say(cluster, number, f"XADD s IDMP p {name} * f {name}")
        say(cluster, number, "XGROUP CREATE s g 0")
        if exact:
            say(cluster, number, "CRDT.GROUP SET s g ACKNOWLEDGE EXACT")
        fill(cluster, number, "s")
    first = say(cluster, 2, "XREADGROUP GROUP g one COUNT 10 STREAMS s >")
    assert isinstance(first, list)
    say(cluster, 2, f"XACK s g {' '.join(one[0] for one in first[0][1][: 5 if exact else 1])}")
    # The other one of that name is all that keeps region 1 from telling a run over several blocks.
    read = say(cluster, 1, "XREADGROUP GROUP g one COUNT 600 STREAMS s >")
    assert isinstance(read, list)
    for at in range(1, 600, 100):
        say(cluster, 1, f"XACK s g {' '.join(one[0] for one in read[0][1][at : at + 100])}")
    for number in (1, 2) if spilled else ():
        spill(cluster, number)
    cluster.heal(1, 2)
    for _ in range(10):
        cluster.sync()
        cluster.tick(100)
    return cluster


@pytest.mark.parametrize("exact", [False, True])
def test_lost_adds_leave_spilled_blocks(exact: bool) -> None:
    digests: list[bytes] = []
    for spilled in (False, True):
        cluster = met(spilled, exact)
        assert waited(cluster) == 0
        assert [cluster.node(number).replica.keyspace.named.met for number in (1, 2)] == [{}, {}]
        assert say(cluster, 1, "XLEN s") == 2 * (LAST_MS - FIRST_MS + 1) + 5
        digests += [digest_replica(cluster.node(number).replica) for number in (1, 2)]
        cluster.check()
    assert len(set(digests)) == 1
