"""A move that another region asks for, where what is pending is spilled: it waits for blocks, and the turn does not."""

from __future__ import annotations

import pytest

from simulations.cluster import Cluster
from tests.spilled_regions import fill, formed, say, spill, waited

PENDING = 400
OTHER_CLIENT = 7


def delivering() -> tuple[Cluster, list[str]]:
    """Region 1 delivers, and holds what lies in several blocks."""
    cluster = formed(2)
    fill(cluster, 1, "a")
    cluster.live(1_000)
    assert say(cluster, 1, "XGROUP CREATE a g 0 CRDT DELIVER OWNER 1") == "OK"
    cluster.live(1_000)
    read = say(cluster, 1, f"XREADGROUP GROUP g one COUNT {PENDING} STREAMS a >")
    assert isinstance(read, list)
    spill(cluster, 1)
    return cluster, [entry[0] for entry in read[0][1]]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("rest", ["", "WAIT 500"])
def test_a_move_that_is_refused_counts_what_is_pending_in_spilled_blocks(rest: str, number: int) -> None:
    cluster, _ = delivering()
    reply = cluster.execute(number, f"CRDT.GROUP MOVE a g 2 {rest}".encode().split())
    if reply is None:
        cluster.live(1_000)
        reply = cluster.pop_reply(number)
    assert reply is not None and reply.startswith(b"-ERR %d entries are pending" % PENDING)
    assert waited(cluster) == 0


@pytest.mark.parametrize("number", [1, 2])
def test_a_move_is_made_once_what_was_spilled_is_acknowledged(number: int) -> None:
    cluster, ids = delivering()
    cluster.machines[number].connect(OTHER_CLIENT, cluster.clock_ms(number))
    assert cluster.execute(number, b"CRDT.GROUP MOVE a g 2 WAIT 60000".split(), OTHER_CLIENT) is None
    cluster.live(500)
    assert say(cluster, 1, "XREADGROUP GROUP g one COUNT 1 STREAMS a >") is None, "it moves"
    say(cluster, 1, f"XACK a g {' '.join(ids)}")
    cluster.live(1_000)
    assert cluster.machines[number].pop_reply(OTHER_CLIENT) == b"+OK\r\n"
    read = say(cluster, 2, "XREADGROUP GROUP g two COUNT 1 STREAMS a >")
    assert isinstance(read, list) and read[0][1][0][0] > ids[-1]
    assert waited(cluster) == 0
    cluster.check()
