"""Audits of spilled streams: blocks with sums are not read, and those without wait for their read."""

from __future__ import annotations

import dataclasses

import pytest

from tests.core.spilled_blocks import SlowFile, spill_all
from tests.spilled_regions import LIMITS, fill, formed, waited

AUDITED = dataclasses.replace(LIMITS, audit_interval_ms=1_000, audit_entries_max=300)


@pytest.mark.parametrize("sums", [True, False])
def test_an_audit_reads_only_blocks_that_have_no_sum(sums: bool) -> None:
    cluster = formed(2, AUDITED)
    fill(cluster, 1, "a", "b")
    files = {number: SlowFile() for number in (1, 2)}
    for number, file in files.items():
        node = cluster.node(number)
        spilled = spill_all(node.replica.keyspace, file, node.context.packing.open_blocks, sums)
        assert spilled > 3
    for _ in range(60):
        cluster.tick(200)
        cluster.sync()
    audit = cluster.node(2).exchange.audit
    assert audit.comparisons and not audit.differences and waited(cluster) == 0
    assert all((file.reads == 0) == sums for file in files.values())
