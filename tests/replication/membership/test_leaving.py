"""Leaving: who is waited for, who ends the membership, and what happens when one of them is lost."""

from __future__ import annotations

from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication.links.greeting import Versions
from crdtstream.replication.values.states import DRAINING, ENDING, LEFT, STAYING
from crdtstream.status.availability import TICK_BYTES
from simulations.cluster import Cluster
from tests.replication.membership.living_clusters import counted, live, origin, run, sync_disks


def step(cluster: Cluster, number: int) -> str:
    return cluster.node(number).leaving.step


def text_of(reply: object) -> str:
    return str(reply)


def test_nobody_waits_for_a_region_that_has_left() -> None:
    cluster = Cluster(3, STRICT)
    run(cluster, 3, "XADD x * f v")
    gone = origin(cluster, 3)
    run(cluster, 3, "CRDT.LEAVE")
    live(cluster, 3_000)
    assert step(cluster, 3) == LEFT
    assert origin(cluster, 3) == gone, "it continues as no other origin"
    for number in (1, 2):
        assert gone not in counted(cluster, number)
        members = cluster.node(number).replica.applied.members
        assert members.is_evicted(gone) and len(members.evictors_of(gone)) == 1
    run(cluster, 1, "XADD x * f v")
    run(cluster, 1, "XADD x * f v")
    sync_disks(cluster)
    vector = cluster.node(1).replica.applied.vector
    assert cluster.node(1).exchange.stable() == vector == cluster.node(2).exchange.stable()


def test_a_region_that_has_made_no_effect_leaves() -> None:
    """It has just joined: the peer that ends it need not hold anything of it."""
    cluster = Cluster(2, STRICT)
    cluster.add(3, 2)
    live(cluster, 3_000)
    run(cluster, 3, "CRDT.LEAVE")
    live(cluster, 3_000)
    assert cluster.node(1).replica.applied.vector.get(origin(cluster, 3)) == 0
    assert step(cluster, 3) == LEFT


def test_a_configured_address_of_a_region_that_has_left_keeps_nothing_back() -> None:
    cluster = Cluster(2, STRICT)
    run(cluster, 2, "CRDT.LEAVE")
    live(cluster, 3_000)
    cluster.stop(2)
    settings = cluster.node(1).settings
    object.__setattr__(settings.config, "peers", ("region2:1",))
    run(cluster, 1, "XADD x * f v")
    sync_disks(cluster)
    assert cluster.node(1).exchange.stable() == cluster.node(1).replica.applied.vector


def test_another_peer_is_asked_when_the_first_is_lost() -> None:
    cluster = Cluster(3, STRICT)
    run(cluster, 3, "XADD x * f v")
    sync_disks(cluster)
    # Both are told, and neither can answer: what they write down finds no room.
    for number in (1, 2):
        cluster.node(number).writable(False)
    run(cluster, 3, "CRDT.LEAVE")
    live(cluster, 1_000)
    assert step(cluster, 3) == ENDING
    asked = cluster.node(3).exchange.view.leaving[0]
    assert asked == origin(cluster, 1)
    cluster.cut(1, 3)
    # Its disk is still full, and its reserve takes the end.
    cluster.node(2).writable(False, 0, TICK_BYTES)
    live(cluster, 1_000)
    assert cluster.node(3).exchange.view.leaving[0] == origin(cluster, 2)
    assert step(cluster, 3) == LEFT
    members = cluster.node(2).replica.applied.members
    assert members.evictors_of(origin(cluster, 3)) == [origin(cluster, 2)]


def test_only_a_peer_that_knows_the_request_is_asked() -> None:
    cluster = Cluster(2, STRICT)
    cluster.cut(1, 2)
    cluster.node(1).exchange.view.versions = Versions(protocol=(2, 2))
    cluster.heal(1, 2)
    sync_disks(cluster)
    run(cluster, 2, "XADD x * f v")
    sync_disks(cluster)
    assert run(cluster, 1, "XLEN x") == 1, "the regions are linked all the same"
    assert "a member that runs this release or a newer one" in text_of(run(cluster, 2, "CRDT.LEAVE"))
    assert step(cluster, 2) == STAYING


def test_words_and_repetitions() -> None:
    cluster = Cluster(2, STRICT)
    cluster.cut(1, 2)
    assert "syntax error" in text_of(run(cluster, 2, "CRDT.LEAVE NOW"))
    assert "is not leaving" in text_of(run(cluster, 2, "CRDT.LEAVE ABORT"))
    assert "no linked region can end the membership" in text_of(run(cluster, 2, "CRDT.LEAVE"))
    cluster.heal(1, 2)
    sync_disks(cluster)
    run(cluster, 2, "XADD x * f v")
    first = run(cluster, 2, "CRDT.LEAVE")
    assert step(cluster, 2) == DRAINING
    assert run(cluster, 2, "CRDT.LEAVE") == first == run(cluster, 2, "CRDT.LEAVE STATUS")
    run(cluster, 2, "CRDT.LEAVE ABORT")
    assert step(cluster, 2) == STAYING
    assert not cluster.node(2).standing.departing


def test_clients_that_wait_to_write_are_told() -> None:
    cluster = Cluster(2, STRICT)
    run(cluster, 2, "XGROUP CREATE x g 0 MKSTREAM")
    sync_disks(cluster)
    assert run(cluster, 2, "XREADGROUP GROUP g me BLOCK 0 STREAMS x >") is None
    cluster.node(2).leaving.begin()
    cluster.execute_turn(1, [b"XADD x * f v".split()])
    sync_disks(cluster)
    assert b"READONLY" in (cluster.pop_reply(2) or b"")
