"""A region with spilled blocks starts over: what it reads of its own is there, or it keeps its state and says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.core.entries.block import BLOCK_ENTRIES
from crdtstream.core.values.entry_id import STRICT
from simulations.cluster import Cluster
from tests.core.spilled_blocks import SlowFile, spill_all
from tests.replication.membership.test_start_over import LIMITS, TICK_MS, digests, is_done, pass_time, run


@pytest.mark.parametrize("is_read_again", [False, True])
def test_a_block_of_its_own_that_cannot_be_read_ends_it(is_read_again: bool) -> None:
    cluster = Cluster(2, STRICT, limits=replace(LIMITS, audit_interval_ms=0))
    for number in range(3 * BLOCK_ENTRIES):
        run(cluster, 1, f"XADD x * f {number}")
    pass_time(cluster)
    node, file = cluster.node(2), SlowFile()
    assert spill_all(node.replica.keyspace, file, node.open_blocks, sums=False) >= 2
    file.fails = not is_read_again
    assert run(cluster, 2, "CRDT.STARTOVER 1") == "OK"
    while not is_done(cluster, 2):
        cluster.tick(TICK_MS)
        cluster.sync()
    told = [notice.text for notice in node.exchange.notices if "did not start over" in notice.text]
    assert [("damage in" in text) for text in told] == ([] if is_read_again else [True])
    file.fails = False
    pass_time(cluster)
    assert digests(cluster)[0] == digests(cluster)[1]
