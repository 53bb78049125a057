"""State transfers of a region that lacks room: chunks wait, and a transfer that waits too long is given up, and made
again once there is room, all on one link.
"""

from __future__ import annotations

import pytest

from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication.exchange.exchange import RESTS, Exchange
from simulations.cluster import Cluster
from tests.state_transfers import LIMITS, add, assert_equal, cut_log, run, settle

MEMORY_MAX = 1_000


def lack(cluster: Cluster, number: int, kind: str) -> None:
    if kind == "disk":
        cluster.node(number).writable(False)
    else:
        cluster.node(number).standing.memory_short = True


def free(cluster: Cluster, number: int) -> None:
    cluster.node(number).writable(True)
    cluster.node(number).standing.memory_short = False
    cluster.tick(1_000)


def behind(count: int = 40) -> Cluster:
    """Region 2 needs the state of region 1."""
    cluster = Cluster(2, STRICT, limits=LIMITS)
    cluster.sync()
    cluster.cut(1, 2)
    add(cluster, 1, count)
    cut_log(cluster, 1)
    cluster.heal(1, 2)
    return cluster


def receiver(cluster: Cluster) -> Exchange:
    return cluster.node(2).exchange


def receive_some(cluster: Cluster) -> None:
    """Exchange messages until the first chunk is staged."""
    for _ in range(50):
        cluster.carry_one(2, 1)
        cluster.machines[1].perform()
        if receiver(cluster).fetching.staging is not None:
            return
        cluster.carry_one(1, 2)
    raise AssertionError("no transfer began")


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_chunks_wait_and_are_staged_in_order(kind: str) -> None:
    cluster = behind()
    receive_some(cluster)
    link, fetching = cluster.link(1, 2), receiver(cluster).fetching
    assert fetching.staging is not None
    staged = fetching.staging.next
    lack(cluster, 2, kind)
    cluster.sync()
    assert fetching.waiting and fetching.staging.next == staged, "nothing more is staged"
    assert fetching.waiting_bytes <= 2 * LIMITS.window_bytes, "the window of the sender is closed"
    cluster.check()
    free(cluster, 2)
    settle(cluster)
    assert_equal(cluster)
    assert cluster.link(1, 2) is link and not fetching.waiting


@pytest.mark.parametrize("kind", ["disk", "memory"])
@pytest.mark.parametrize("count", [5, 40])
def test_a_transfer_that_waits_too_long_is_given_up_and_made_again(kind: str, count: int) -> None:
    """What is staged takes room, and keeps checkpoints from being taken. A small state is sent as a whole meanwhile."""
    cluster = behind(count)
    receive_some(cluster)
    link, exchange = cluster.link(1, 2), receiver(cluster)
    lack(cluster, 2, kind)
    cluster.sync()
    assert exchange.fetching.staging is not None and not cluster.node(2).can_describe()
    for _ in range(LIMITS.transfer_keep_ms // LIMITS.heartbeat_ms + 1):
        cluster.tick(LIMITS.heartbeat_ms)
        cluster.sync()
    assert exchange.fetching.staging is None and not exchange.fetching.waiting and cluster.node(2).can_describe()
    assert cluster.link(1, 2) is link and link.open
    free(cluster, 2)
    cluster.sync()
    assert exchange.fetching.rests and exchange.fetching.staging is None, "it is not begun again at once"
    for _ in range(LIMITS.transfer_keep_ms // RESTS // LIMITS.heartbeat_ms + 1):
        cluster.tick(LIMITS.heartbeat_ms)
    settle(cluster)
    assert_equal(cluster)
    assert cluster.link(1, 2) is link


def test_no_transfer_is_begun_without_room() -> None:
    cluster = behind()
    lack(cluster, 2, "memory")
    cluster.sync()
    assert receiver(cluster).fetching.link is None
    run(cluster, 2, "XADD y * f v")
    free(cluster, 2)
    settle(cluster)
    assert_equal(cluster)


def test_a_peer_that_gave_a_transfer_up_and_needs_it_no_more_is_served_from_the_log() -> None:
    """Another region has brought it what the log of this one lacks; the transfer itself stopped half-way."""
    cluster = behind()
    receive_some(cluster)
    lack(cluster, 2, "memory")
    cluster.sync()
    sender = cluster.node(1).exchange.sessions()[0]
    assert sender.handover.is_sending
    receiver(cluster).fetching.abandon("of the test")
    # As if it had come by another route.
    sender._feed.record_covered(cluster.node(1).replica.applied.vector)
    sender.handover.heard_progress(cluster.node(1).exchange.transfers)
    assert not sender.handover.is_sending and not sender._feed.behind


def compared(kind: str) -> Cluster:
    """Region 2 spills, has compared a state, and lacked room before it could join that."""
    cluster = behind()
    machine, fetching = cluster.machines[2], receiver(cluster).fetching
    machine.node.replica.reads.on = True
    machine.reads_blocks = False
    cluster.sync()
    assert fetching.comparison is not None
    lack(cluster, 2, kind)
    cluster.tick(1)
    while machine.read_blocks():
        cluster.turn(2)
    assert fetching.comparison is not None and fetching.comparison.done, "it is not joined"
    machine.reads_blocks = True
    return cluster


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_a_state_that_was_compared_waits_for_room_before_it_is_joined(kind: str) -> None:
    cluster = compared(kind)
    link = cluster.link(1, 2)
    cluster.sync()
    assert receiver(cluster).fetching.comparison is not None
    free(cluster, 2)
    settle(cluster)
    assert_equal(cluster)
    assert cluster.link(1, 2) is link and link.open


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_a_state_that_was_compared_and_waits_too_long_is_given_up_and_made_again(kind: str) -> None:
    cluster = compared(kind)
    link, exchange = cluster.link(1, 2), receiver(cluster)
    for _ in range(LIMITS.transfer_keep_ms // LIMITS.heartbeat_ms + 1):
        cluster.tick(LIMITS.heartbeat_ms)
        cluster.sync()
    assert exchange.fetching.comparison is None and exchange.fetching.staging is None
    free(cluster, 2)
    for _ in range(LIMITS.transfer_keep_ms // RESTS // LIMITS.heartbeat_ms + 1):
        cluster.tick(LIMITS.heartbeat_ms)
    settle(cluster)
    assert_equal(cluster)
    assert cluster.link(1, 2) is link and link.open
