"""What regions remove by themselves from streams whose blocks are spilled: it waits for blocks, and the region does
not.
"""

from __future__ import annotations

import pytest

from crdtstream.core.digest import digest_replica
from simulations.cluster import Cluster
from simulations.machine import CLIENT
from tests.spilled_regions import ENTRIES, FIRST_MS, LAST_MS, fill, formed, say, spill, waited

LIMITS = ["MAXLEN 300", "MAXBYTES 20000", "MAXAGE 1000", "MAXLEN 300 ACKED", "ACKED YES"]


def filled(regions: int) -> Cluster:
    cluster = formed(regions)
    for number in range(1, regions + 1):
        fill(cluster, number, "a", "b")
    say(cluster, 1, "XGROUP CREATE a g 0")
    say(cluster, 1, f"XREADGROUP GROUP g one COUNT {regions * 700} STREAMS a >")
    acknowledged = [f"{ms}-{number}" for ms in range(FIRST_MS + 20, FIRST_MS + 600) for number in range(1, regions + 1)]
    say(cluster, 1, f"XACK a g {' '.join(acknowledged)}")
    cluster.sync()
    cluster.now_ms = LAST_MS + 700
    for _ in range(3):
        cluster.tick(1)
        cluster.sync()
    return cluster


def settle(cluster: Cluster) -> None:
    for _ in range(20):
        cluster.tick(1)
        cluster.sync()


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("regions", [1, 2])
def test_what_exceeds_a_limit_leaves_spilled_blocks(limit: str, regions: int) -> None:
    digests: list[bytes] = []
    for spilled in (False, True):
        cluster = filled(regions)
        for number in range(1, regions + 1) if spilled else []:
            spill(cluster, number)
        assert say(cluster, 1, f"CRDT.STREAM SET a {limit}") == "OK"
        settle(cluster)
        assert waited(cluster) == 0
        length = say(cluster, 1, "XLEN a")
        assert isinstance(length, int) and length < regions * ENTRIES
        digests += [digest_replica(cluster.node(number).replica) for number in range(1, regions + 1)]
        cluster.check()
    assert len(set(digests)) == 1


def test_a_key_expires_once_its_acknowledgements_were_told() -> None:
    cluster = filled(1)
    say(cluster, 1, "PEXPIRE a 500")
    spill(cluster, 1)
    cluster.machines[1].reads_blocks = False
    say(cluster, 1, f"XACK a g {FIRST_MS}-1")
    assert cluster.node(1).replica.changed.dirty, "its runs wait for a block"
    cluster.now_ms += 1_000
    settle(cluster)
    assert say(cluster, 1, "EXISTS a") == 0 and cluster.node(1).replica.keyspace.known((0, b"a")) is not None
    cluster.machines[1].reads_blocks = True
    settle(cluster)
    assert cluster.node(1).replica.keyspace.known((0, b"a")) is None and waited(cluster) == 0


def test_a_group_that_changed_right_before_delays_no_expiry() -> None:
    """What it acknowledges is there at once."""
    cluster = filled(1)
    say(cluster, 1, "PEXPIRE a 500")
    spill(cluster, 1).is_cached = True
    node = cluster.node(1)
    node.execute(CLIENT, f"XACK a g {FIRST_MS}-1".encode().split(), cluster.now_ms)
    assert node.replica.changed.dirty
    node.tick(cluster.now_ms + 501)
    assert node.replica.keyspace.known((0, b"a")) is None and waited(cluster) == 0


def test_a_disk_that_does_not_answer_delays_one_stream() -> None:
    cluster = filled(1)
    spill(cluster, 1)
    machine = cluster.machines[1]
    machine.reads_blocks = False
    say(cluster, 1, "XADD small 1-1 f v")
    say(cluster, 1, "XADD small 2-1 f v")
    say(cluster, 1, "CRDT.STREAM SET a MAXLEN 300")
    say(cluster, 1, "CRDT.STREAM SET small MAXLEN 1")
    settle(cluster)
    assert say(cluster, 1, "XLEN small") == 1 and say(cluster, 1, "XLEN a") == ENTRIES
    machine.reads_blocks = True
    settle(cluster)
    assert say(cluster, 1, "XLEN a") == 300 and waited(cluster) == 0
