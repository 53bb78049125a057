"""Peers that are added and removed while a region runs, on simulated regions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.connections.cluster import PeerStatus
from crdtstream.core.values.entry_id import STRICT
from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Config
from simulations.cluster import Cluster
from simulations.machine import Machine

START_MS = 1_700_000_000_000
OK = b"+OK\r\n"


def set_peers(cluster: Cluster, number: int, *peers: str) -> bytes | None:
    return cluster.execute(number, [b"CONFIG", b"SET", b"peers", " ".join(peers).encode()])


def linked(regions: int) -> Cluster:
    """Region 1 has the others as peers."""
    cluster = Cluster(regions, STRICT)
    node = cluster.node(1)
    node.reconfigure(replace(node.settings.config, insecure_replication=True))
    others = [f"region{other}:1" for other in range(2, regions + 1)]
    assert set_peers(cluster, 1, *others) == OK or not others
    for number, peer in enumerate(others, 2):
        cluster.node(1).peer_met(peer, number)
    cluster.sync()
    return cluster


def peers_of(cluster: Cluster) -> list[PeerStatus]:
    return cluster.node(1).neighbours.peers()


def links(cluster: Cluster, number: int) -> list[tuple[int, str, str]]:
    return [(peer.region, peer.address, peer.link) for peer in cluster.node(number).neighbours.peers()]


def test_a_peer_that_is_added_is_shown_before_it_answers() -> None:
    cluster = Cluster(1, STRICT)
    assert set_peers(cluster, 1, "127.0.0.1:7", "127.0.0.1:8") == OK
    assert links(cluster, 1) == [(0, "127.0.0.1:7", "none"), (0, "127.0.0.1:8", "none")]
    shown = read_reply(cluster.execute(1, b"CONFIG GET peers".split()) or b"")
    assert shown == ["peers", "127.0.0.1:7 127.0.0.1:8"]


def test_a_peer_without_a_link_is_silent_since_its_last_sign_of_life() -> None:
    cluster = linked(2)
    assert [peer.silent_ms for peer in peers_of(cluster)] == [0]
    cluster.cut(1, 2)
    cluster.tick(60_000)
    (peer,) = peers_of(cluster)
    assert (peer.link, peer.silent_ms, peer.unlinked_ms) == ("none", 60_000, 60_000)


def test_a_peer_that_another_region_hears_is_not_silent() -> None:
    cluster = linked(3)
    cluster.cut(1, 3)
    cluster.live(60_000)
    peer = peers_of(cluster)[-1]
    limits = cluster.node(1).settings.limits
    assert (peer.region, peer.link) == (3, "none")
    assert peer.unlinked_ms >= 60_000 > 3 * limits.heartbeat_ms >= peer.silent_ms


def test_an_address_that_never_answered_is_silent_since_the_start() -> None:
    cluster = Cluster(1, STRICT)
    assert set_peers(cluster, 1, "127.0.0.1:7") == OK
    cluster.tick(60_000)
    assert [(peer.region, peer.silent_ms) for peer in peers_of(cluster)] == [(0, 60_000)]


def test_nothing_is_owed_to_a_region_that_was_evicted() -> None:
    cluster = linked(3)
    cluster.execute(1, b"XADD s * f v".split())
    cluster.sync()
    for other in (1, 2):
        cluster.cut(other, 3)
    assert (cluster.execute(1, b"CRDT.EVICT 3".split()) or b"").startswith(b"*")
    cluster.sync(1, 2)
    cluster.execute(1, b"XADD s * f v".split())
    peer = peers_of(cluster)[-1]
    assert (peer.region, peer.address, peer.evicted) == (3, "region3:1", True)
    assert cluster.node(1).context.cluster.lags_of(cluster.node(1).replica.applied.vector, peer) == (0, 0)
    assert peer.reason == "its region was evicted, so remove this address from the peers: cut"
    # On the first link it learns of its eviction; on the second it is another origin.
    for _ in range(2):
        cluster.heal(1, 3)
        cluster.sync()
    assert not any(peer.evicted for peer in peers_of(cluster))


def test_links_of_a_removed_peer_are_closed_and_it_is_told_why() -> None:
    cluster = linked(3)
    assert links(cluster, 1) == [(2, "region2:1", "open"), (3, "region3:1", "open")]
    before = {session.peer_region: session for session in cluster.node(1).exchange.sessions()}
    assert set_peers(cluster, 1, "region2:1") == OK
    assert not before[3].is_open and before[2].is_open
    assert links(cluster, 1)[0] == (2, "region2:1", "open")
    assert before[3].reason == "region region1 no longer has region 3 as a peer"


@pytest.mark.parametrize("peers", ["west", "west:0", "west:1 north"])
def test_addresses_that_cannot_be_dialled_change_nothing(peers: str) -> None:
    cluster = linked(2)
    reply = set_peers(cluster, 1, *peers.split()) or b""
    assert reply.startswith(b"-ERR CONFIG SET failed (possibly related to argument 'peers') - peer '")
    assert reply.endswith(b"must be HOST:PORT, the replication address of another region\r\n")
    assert links(cluster, 1) == [(2, "region2:1", "open")]


def test_a_peer_beyond_loopback_needs_tls_as_at_a_start() -> None:
    cluster = Cluster(1, STRICT)
    node = cluster.node(1)
    reply = set_peers(cluster, 1, "west.example.net:1") or b""
    assert reply.startswith(b"-ERR CONFIG SET failed - west.example.net is not loopback")
    assert node.settings.config.peers == ()


def waiting(*peers: str) -> Machine:
    return Machine(Config("region1", 1, "c", peers=peers), START_MS)


def test_a_new_region_waits_for_no_peer_that_was_removed() -> None:
    region = waiting("127.0.0.1:7", "127.0.0.1:8")
    region.node.peer_failed("127.0.0.1:7", "connection refused")
    assert b"127.0.0.1:7, 127.0.0.1:8" in (region.execute([b"PING"], START_MS) or b"")
    assert region.execute(b"CONFIG SET peers 127.0.0.1:8".split(), START_MS) == OK
    region.node.tick(START_MS + 100)
    said = region.execute([b"PING"], START_MS + 100) or b""
    assert b"127.0.0.1:8;" in said and b"127.0.0.1:7" not in said


def test_a_new_region_whose_last_peer_is_removed_is_a_cluster_of_its_own() -> None:
    region = waiting("127.0.0.1:7")
    assert region.execute([b"CONFIG", b"SET", b"peers", b""], START_MS) == OK
    region.node.tick(START_MS + 100)
    assert region.execute([b"PING"], START_MS + 100) == b"+PONG\r\n"
    assert region.node.birth.founders == {region.node.birth.origin: None}
    region.node.check()


def test_what_near_peers_have_is_told_apart_from_those_that_are_long_away() -> None:
    """The log yields to writing on a full disk: a peer that is away too long does not count."""
    cluster = linked(3)
    cluster.execute(1, b"XADD x * f v".split())
    cluster.sync()
    for machine in cluster.machines.values():
        machine.sync()
    node = cluster.node(1)
    both = node.replica.applied.vector.copy()
    cluster.tick(1_000)
    cluster.sync()
    assert node.neighbours.near().descends(both)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    cluster.execute(1, b"XADD x * f v".split())
    cluster.machines[1].sync()
    cluster.sync()
    cluster.machines[2].sync()
    cluster.tick(1_000)
    cluster.sync()
    newest = node.replica.applied.vector.copy()
    assert not node.neighbours.near().descends(newest), "region 3 was linked a short while ago"
    cluster.tick(node.limits.log_yield_ms)
    cluster.sync()
    assert node.neighbours.near().descends(newest)
    assert not node.exchange.replicated().descends(newest)
    node.reconfigure(replace(node.settings.config, limits=replace(node.limits, log_yield_ms=0)))
    assert not node.neighbours.near().descends(newest), "0 is for ever"
