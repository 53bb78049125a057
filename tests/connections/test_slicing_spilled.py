"""Commands of several turns on spilled streams: a slice that needs a block waits for it, and others go on meanwhile."""

from __future__ import annotations

import dataclasses

import pytest

from simulations.cluster import Cluster
from tests.core.spilled_blocks import SlowFile, spill_all
from tests.spilled_regions import LIMITS, fill, formed, say, waited

SMALL = dataclasses.replace(LIMITS, dump_slice_bytes=5_000, digest_entries_max=100)


def filled() -> Cluster:
    cluster = formed(1, SMALL)
    fill(cluster, 1, "a", "b")
    return cluster


def spilled(cluster: Cluster) -> SlowFile:
    """With blocks whose sums nobody knows, as in files of older formats."""
    file = SlowFile()
    spill_all(cluster.node(1).replica.keyspace, file, cluster.node(1).context.packing.open_blocks, sums=False)
    return file


def dump_of_several_writers() -> list[bytes | None]:
    payloads: list[bytes | None] = []
    for is_spilled in (False, True):
        cluster = formed(2, SMALL)
        for number in (1, 2):
            fill(cluster, number, "a")
        if is_spilled:
            spilled(cluster)
        payloads.append(cluster.execute(1, [b"DUMP", b"a"]))
        assert waited(cluster) == 0
    return payloads


def test_a_dump_of_entries_of_several_regions_is_the_same() -> None:
    payloads = dump_of_several_writers()
    assert payloads[0] == payloads[1] is not None


@pytest.mark.parametrize("line", ["DUMP a", "CRDT.DIGEST", "CRDT.DIGEST a"])
def test_a_slice_waits_for_its_block_and_other_clients_do_not(line: str) -> None:
    plain, cluster = filled(), filled()
    expected = plain.execute(1, line.encode().split())
    spilled(cluster)
    machine, node = cluster.machines[1], cluster.node(1)
    machine.reads_blocks = False
    assert cluster.execute(1, line.encode().split()) is None
    node.connect(2, "127.0.0.1:1", cluster.now_ms)
    for _ in range(20):
        assert machine.execute([b"PING"], cluster.now_ms, 2) == b"+PONG\r\n"
    assert not node.is_behind(), "the loop does not turn for it"
    machine.reads_blocks = True
    machine.perform()
    assert machine.pop_reply() == expected
    assert waited(cluster) == 0 and not node.context.works and node.replica.keyspace.digests == 0


def test_a_digest_whose_first_slice_runs_again_is_counted_once() -> None:
    limits = dataclasses.replace(SMALL, digest_entries_max=1_000)
    plain, cluster = formed(1, limits), formed(1, limits)
    for each in (plain, cluster):
        fill(each, 1, "a", "b")
    expected = say(plain, 1, "CRDT.DIGEST")
    assert spilled(cluster).data
    assert say(cluster, 1, "CRDT.DIGEST") == expected
    assert cluster.node(1).context.block_reads.started > 0 and cluster.node(1).replica.keyspace.digests == 0


def test_a_block_that_cannot_be_read_ends_the_command_with_an_error() -> None:
    cluster = filled()
    file = spilled(cluster)
    file.data[:] = bytes(len(file.data))
    reply = cluster.execute(1, b"CRDT.DIGEST a".split())
    assert reply is not None and reply.startswith(b"-ERR internal error: BlockDamaged")
    assert say(cluster, 1, "PING") == "PONG"


def test_a_client_that_leaves_takes_its_command_with_it() -> None:
    cluster = filled()
    spilled(cluster)
    machine, node = cluster.machines[1], cluster.node(1)
    machine.reads_blocks = False
    assert machine.execute([b"DUMP", b"a"], cluster.now_ms) is None
    node.disconnect(1)
    machine.reads_blocks = True
    machine.perform()
    machine.perform()
    assert not node.context.works and not len(node.context.deferred_work)
