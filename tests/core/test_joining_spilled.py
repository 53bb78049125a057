"""States that are joined where blocks are spilled: the join is one piece, so what it has to open it reads at once."""

from __future__ import annotations

import dataclasses

import pytest

from crdtstream.core.digest import digest_replica
from crdtstream.core.entries.block import BLOCK_ENTRIES
from simulations.cluster import Cluster
from tests.spilled_regions import FIRST_MS, LAST_MS, LIMITS, fill, formed, say, spill, waited

SMALL = dataclasses.replace(LIMITS, segment_bytes_max=150, message_bytes=20_000, window_bytes=100_000)
MIDDLE = FIRST_MS + BLOCK_ENTRIES + 50


def apart(*keys: str) -> Cluster:
    """Region 2 has what region 1 wrote to these streams, and lacks what region 1 has removed and added since."""
    cluster = formed(2, SMALL)
    fill(cluster, 1, *keys)
    say(cluster, 2, "XADD a 99999-2 of region-2")
    cluster.sync()
    cluster.cut(1, 2)
    for key in keys:
        say(cluster, 1, f"XDEL {key} {MIDDLE}-1 {LAST_MS}-1")
        say(cluster, 1, f"XTRIM {key} MAXLEN 700")
        say(cluster, 1, f"XADD {key} {LAST_MS + 9}-1 f v")
    cluster.machines[1].cut_log()
    return cluster


def join(cluster: Cluster) -> list[bytes]:
    cluster.heal(1, 2)
    for _ in range(80):
        cluster.tick(50)
        cluster.sync()
    assert any("is joined" in notice.text for notice in cluster.node(2).news)
    return [digest_replica(cluster.node(number).replica) for number in (1, 2)]


@pytest.mark.parametrize("keys", [("a",), ("a", "b")])
def test_a_state_is_joined_with_spilled_blocks(keys: tuple[str, ...]) -> None:
    plain = join(apart(*keys))
    cluster = apart(*keys)
    for number in (1, 2):
        spill(cluster, number)
    assert join(cluster) == plain and plain[0] == plain[1]
    assert say(cluster, 2, "XRANGE a - +") == say(cluster, 1, "XRANGE a - +")
    if keys == ("a",):
        assert waited(cluster) <= 4, "where counters are contiguous, few blocks are opened"
    cluster.check()
