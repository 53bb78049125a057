"""State transfers of a region whose blocks are spilled: a chunk is not there yet while its blocks are read."""

from __future__ import annotations

import dataclasses

from crdtstream.core.digest import digest_replica
from simulations.cluster import Cluster
from tests.core.spilled_blocks import SlowFile
from tests.spilled_regions import LIMITS, fill, formed, say, spill, waited

SMALL = dataclasses.replace(LIMITS, segment_bytes_max=150, message_bytes=2_000, window_bytes=10_000)


def behind() -> tuple[Cluster, SlowFile]:
    """Region 2 needs the state of region 1, whose blocks are spilled."""
    cluster = formed(2, SMALL)
    cluster.cut(1, 2)
    fill(cluster, 1, "a", "b")
    cluster.machines[1].cut_log()
    return cluster, spill(cluster, 1, 6)


def settle(cluster: Cluster, rounds: int = 120) -> None:
    for _ in range(rounds):
        cluster.tick(50)
        cluster.sync()


def test_a_spilled_state_is_sent_and_nothing_waits_for_a_block() -> None:
    cluster, _ = behind()
    cluster.heal(1, 2)
    settle(cluster)
    assert waited(cluster) == 0
    assert cluster.node(2).exchange.fetching.staging is None
    digests = [digest_replica(cluster.node(number).replica) for number in (1, 2)]
    assert digests[0] == digests[1]
    assert say(cluster, 1, "XRANGE a - +") == say(cluster, 2, "XRANGE a - +")
    cluster.check()


def test_a_sender_whose_disk_does_not_answer_goes_on_serving() -> None:
    cluster, file = behind()
    machine = cluster.machines[1]
    machine.reads_blocks = False
    cluster.heal(1, 2)
    settle(cluster, 5)
    assert say(cluster, 1, "XADD c 1-1 f v") is not None and file.reads == 0
    assert cluster.node(2).replica.keyspace.find((0, b"a")) is None
    held = sum([len(read.handles) for read in cluster.node(1).context.block_reads.wanted])
    assert 0 < held <= 3, "a chunk's blocks are read, and no more"
    machine.reads_blocks = True
    settle(cluster)
    assert say(cluster, 2, "XLEN a") == say(cluster, 1, "XLEN a") and say(cluster, 2, "XLEN c") == 1
    assert waited(cluster) == 0


def test_what_is_removed_while_it_is_sent_is_sent_as_it_was() -> None:
    cluster, _ = behind()
    cluster.heal(1, 2)
    settle(cluster, 3)
    say(cluster, 1, "XTRIM a MAXLEN 5")
    say(cluster, 1, "DEL b")
    settle(cluster)
    assert say(cluster, 2, "XLEN a") == 5 and say(cluster, 2, "EXISTS b") == 0
    digests = [digest_replica(cluster.node(number).replica) for number in (1, 2)]
    assert digests[0] == digests[1]
