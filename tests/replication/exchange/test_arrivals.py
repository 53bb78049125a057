"""Batches that wait for room: links stay, everything arrives in the end, and what frees room passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication.links.session import Session
from crdtstream.replication.log.holding import SETTLED_MS, TOLD_AFTER_MS
from crdtstream.scenarios.reply import ReplyError, read_reply
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster

MEMORY_MAX = 1_000
LIMITS = Limits(segment_bytes_max=1 << 18, memory_bytes_max=MEMORY_MAX, message_bytes=1024, peer_timeout_ms=1 << 40)
RESERVE = 1 << 20
LACKS = ("disk", "memory")


def run(cluster: Cluster, number: int, text: str) -> object:
    return read_reply(cluster.execute(number, text.encode().split()) or b"")


def add(cluster: Cluster, number: int, count: int, key: str = "x") -> None:
    for _ in range(count):
        run(cluster, number, f"XADD {key} * f {'v' * 100}")


def lack(cluster: Cluster, number: int, kind: str, reserve: int = RESERVE) -> None:
    """Take the room of a region."""
    node = cluster.node(number)
    if kind == "disk":
        node.writable(False, reserve, reserve)
    else:
        node.observe(MEMORY_MAX + 1, 0.0, 0.0)


def free(cluster: Cluster, number: int) -> None:
    """Give it back, and let a tick pass after the time for which memory counts as short."""
    cluster.node(number).writable(True)
    cluster.node(number).observe(MEMORY_MAX - 1, 0.0, 0.0)
    cluster.tick(1_000)


def session(cluster: Cluster, number: int) -> Session:
    return cluster.node(number).exchange.sessions()[0]


def cluster_of(regions: int = 2, limits: Limits = LIMITS, **words: object) -> Cluster:
    cluster = Cluster(regions, STRICT, limits=limits, **words)  # type: ignore[arg-type]
    cluster.sync()
    return cluster


@pytest.mark.parametrize("kind", LACKS)
def test_batches_wait_and_what_the_full_region_has_goes_out(kind: str) -> None:
    cluster = cluster_of()
    add(cluster, 2, 1, "y")
    lack(cluster, 2, kind)
    link = cluster.link(1, 2)
    add(cluster, 1, 3)
    cluster.sync()
    assert run(cluster, 2, "XLEN x") == 0 and run(cluster, 1, "XLEN y") == 1
    assert cluster.link(1, 2) is link and link.open
    assert cluster.node(2).exchange.waiting()[0] > 0
    counter = cluster.node(1).replica.applied.counter()
    for number in (1, 2):
        cluster.machines[number].sync()
    cluster.tick(1_000)
    cluster.sync()
    assert cluster.node(1).exchange.progress.told_of(2).get(1) == counter - 3, "what waits is not acknowledged"
    free(cluster, 2)
    cluster.sync()
    assert run(cluster, 2, "XLEN x") == 3 and cluster.link(1, 2) is link
    cluster.check()


@pytest.mark.parametrize("kind", LACKS)
def test_what_exceeds_the_bound_is_dropped_and_asked_for_again(kind: str) -> None:
    cluster = cluster_of(limits=replace(LIMITS, window_bytes=2_000))
    lack(cluster, 2, kind)
    add(cluster, 1, 100)
    cluster.sync()
    arrivals = cluster.node(2).exchange.arrivals
    assert arrivals.drops > 0 and 0 < arrivals.inbox.held_bytes <= 2_000
    free(cluster, 2)
    cluster.sync()
    assert run(cluster, 2, "XLEN x") == 100
    assert arrivals.inbox.waiting_count == 0 and cluster.link(1, 2).open
    cluster.check()


def test_a_region_short_of_memory_is_sent_little() -> None:
    cluster = cluster_of()
    lack(cluster, 2, "memory")
    cluster.tick(0)
    cluster.sync()
    sent = session(cluster, 1).sent_bytes
    add(cluster, 1, 200)
    cluster.sync()
    assert 0 < session(cluster, 1).sent_bytes - sent < 2 * LIMITS.message_bytes
    free(cluster, 2)
    cluster.sync()
    assert run(cluster, 2, "XLEN x") == 200


@pytest.mark.parametrize("kind", LACKS)
@pytest.mark.parametrize("removal", ["DEL x", "XDEL x 5-1", "XTRIM x MAXLEN 0", "XGROUP DESTROY x g", "FLUSHALL"])
def test_removals_of_peers_pass_in_their_turn(kind: str, removal: str) -> None:
    cluster = cluster_of()
    run(cluster, 1, "XADD x 5 f v")
    run(cluster, 1, "XGROUP CREATE x g 0")
    cluster.sync()
    lack(cluster, 2, kind)
    vectors = [cluster.node(number).replica.applied.vector for number in (1, 2)]
    before = vectors[0].copy()
    run(cluster, 1, removal)
    assert vectors[0] != before
    cluster.sync()
    assert vectors[0] == vectors[1], "it is applied"
    add(cluster, 1, 1, "y")
    run(cluster, 1, "DEL y")
    cluster.sync()
    assert vectors[0] != vectors[1], "behind an add it waits"
    free(cluster, 2)
    cluster.sync()
    assert vectors[0] == vectors[1]


def test_a_full_disk_without_a_reserve_takes_no_removal() -> None:
    cluster = cluster_of()
    add(cluster, 1, 1)
    cluster.sync()
    lack(cluster, 2, "disk", reserve=0)
    run(cluster, 1, "DEL x")
    cluster.sync()
    assert run(cluster, 2, "EXISTS x") == 1
    cluster.node(2).writable(False, 100, 100)
    cluster.tick(0)
    assert run(cluster, 2, "EXISTS x") == 1, "too little"
    cluster.node(2).writable(False, RESERVE, RESERVE)
    cluster.tick(0)
    assert run(cluster, 2, "EXISTS x") == 0
    assert cluster.node(2).standing.removal_bytes < RESERVE, "it was taken from the reserve"


def test_two_regions_without_memory_do_not_block_each_other() -> None:
    """Each has removed what the other still holds, behind adds that the other cannot take. Whoever removes something
    locally goes on, and the other one follows once it has removed something too.
    """
    cluster = cluster_of()
    add(cluster, 1, 3, "a")
    add(cluster, 2, 3, "b")
    cluster.sync()
    for number in (1, 2):
        lack(cluster, number, "memory")
    # Adds of one that the other cannot take; no client may add any more, so they come from before.
    cluster.node(1).standing.memory_short = cluster.node(2).standing.memory_short = False
    add(cluster, 1, 2, "c")
    add(cluster, 2, 2, "d")
    for number in (1, 2):
        lack(cluster, number, "memory")
    cluster.sync()
    assert run(cluster, 1, "DEL b") == 1 and run(cluster, 2, "DEL a") == 1, "removals of clients never wait"
    cluster.sync()
    assert run(cluster, 1, "EXISTS a") == 1 and run(cluster, 2, "EXISTS b") == 1
    free(cluster, 1)
    cluster.sync()
    assert run(cluster, 1, "XLEN d") == 2 and run(cluster, 1, "EXISTS a") == 0, "one is enough for one"
    assert run(cluster, 2, "XLEN c") == 0
    free(cluster, 2)
    cluster.sync()
    vectors = [cluster.node(number).replica.applied.vector for number in (1, 2)]
    assert vectors[0] == vectors[1]


def test_a_full_region_admits_a_new_one_from_its_reserve() -> None:
    cluster = Cluster(3, STRICT, absent=(3,), limits=LIMITS)
    cluster.sync()
    lack(cluster, 2, "disk")
    cluster.add(3, 2)
    for _ in range(5):
        cluster.tick(300)
        cluster.sync()
    assert cluster.node(3).membership.waiting_for() == ""
    run(cluster, 3, "XADD x * f v")
    assert run(cluster, 3, "XGROUP CREATE x g 0") == "OK"
    cluster.sync()
    assert run(cluster, 1, "XLEN x") == 0, "the link of 1 and 3 does not exist, and 2 takes nothing"


def test_a_full_region_admits_a_peer_that_has_restarted() -> None:
    cluster = cluster_of()
    lack(cluster, 1, "disk")
    cluster.restart(2)
    for _ in range(10):
        cluster.tick(300)
        cluster.sync()
    run(cluster, 2, "XADD x * f v")
    assert run(cluster, 2, "XGROUP CREATE x g 0") == "OK"


def test_the_log_is_not_kept_for_what_a_peer_has_although_its_own_effects_wait() -> None:
    """Only a shorter log may give the room that these wait for."""
    cluster = cluster_of()
    add(cluster, 1, 10)
    lack(cluster, 1, "disk")
    add(cluster, 2, 1, "y")
    for _ in range(3):
        cluster.sync()
        for number in (1, 2):
            cluster.machines[number].sync()
        cluster.tick(1_000)
    exchange = cluster.node(1).exchange
    assert not exchange.stable().descends(exchange.view.durable_vector), "tombstones are kept"
    assert exchange.replicated().descends(exchange.view.durable_vector)
    assert cluster.node(1).neighbours.held_back(2) == 0


@pytest.mark.parametrize("kind", LACKS)
def test_both_sides_tell_what_lacks_and_since_when(kind: str) -> None:
    cluster = cluster_of()
    for number in (1, 2):
        cluster.node(number).news.clear()
    lack(cluster, 2, kind)
    cluster.tick(0)
    cluster.sync()
    cluster.tick(TOLD_AFTER_MS)
    waits = cluster.node(2).neighbours.waits()
    assert waits[:2] == (kind, TOLD_AFTER_MS)
    peer = cluster.node(1).neighbours.peers()[0]
    assert (peer.lacking, peer.lacking_ms) == (kind, TOLD_AFTER_MS)
    assert f",lacking={kind},lacking_ms={TOLD_AFTER_MS}" in str(run(cluster, 1, "INFO replication"))
    assert f"inbound_lacking:{kind}" in str(run(cluster, 2, "INFO replication"))
    assert "lacking" in str(run(cluster, 1, "CRDT.REGIONS")) and "lacking" in str(run(cluster, 2, "CRDT.REGIONS"))
    assert [notice.event for notice in cluster.node(2).news] == ["batches-wait"]
    assert [notice.event for notice in cluster.node(1).news] == ["peer-lacks-room"]
    free(cluster, 2)
    cluster.sync()
    cluster.tick(SETTLED_MS)
    assert [notice.event for notice in cluster.node(2).news][1:] == ["batches-taken"]
    assert [notice.event for notice in cluster.node(1).news][1:] == ["peer-has-room"]
    assert cluster.node(1).neighbours.peers()[0].lacking == ""


def test_what_waits_is_lost_with_the_state_that_is_replaced() -> None:
    cluster = cluster_of()
    lack(cluster, 2, "disk")
    add(cluster, 1, 1)
    cluster.sync()
    arrivals = cluster.node(2).exchange.arrivals
    arrivals.forget()
    assert arrivals.inbox.waiting_count == 0


FREEING = (
    "XDEL x 5-1",
    "XDELEX x IDS 1 5-1",
    "XTRIM x MAXLEN 0",
    "XACK x g 5-1",
    "XACKDEL x g IDS 1 5-1",
    "XGROUP DELCONSUMER x g c",
    "XGROUP DESTROY x g",
    "DEL x",
    "UNLINK x",
    "EXPIRE x 1",
    "FLUSHDB",
    "FLUSHALL",
    "CRDT.EVICT 2 FORCE",
    "CRDT.LEAVE",
)


@pytest.mark.parametrize("command", FREEING)
def test_what_frees_memory_works_without_any(command: str) -> None:
    cluster = cluster_of()
    run(cluster, 1, "XADD x 5 f v")
    run(cluster, 1, "XGROUP CREATE x g 0")
    run(cluster, 1, "XREADGROUP GROUP g c STREAMS x >")
    lack(cluster, 1, "memory")
    assert str(run(cluster, 1, "XADD x * f v")).count("OOM") == 1
    reply = run(cluster, 1, command)
    assert not isinstance(reply, ReplyError) and reply != 0, reply


@pytest.mark.parametrize("kind", LACKS)
def test_a_region_without_room_does_not_start_over(kind: str) -> None:
    """It would wait for the state, and refuse its clients meanwhile, who alone can make room."""
    cluster = cluster_of()
    lack(cluster, 1, kind)
    reply = run(cluster, 1, "CRDT.STARTOVER 2")
    assert isinstance(reply, ReplyError)
    assert "MISCONF" in reply.text if kind == "disk" else "it lacks memory" in reply.text
    assert cluster.node(1).membership.serving()
