"""The checker of what a client finds that moves with a token: what it passes, and what it names."""

from __future__ import annotations

import pytest

from crdtstream.core.tokens import TOKEN, encode
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import STRICT
from simulations.cluster import Cluster
from simulations.history import Violation
from simulations.session_checkers import AWAIT_EVERY, Carried, ReadsItsWrites, ask


def cluster_with(checker: ReadsItsWrites) -> Cluster:
    cluster = Cluster(2, STRICT, checked=("sessions",))
    cluster.watch(checker)
    cluster.sync()
    return cluster


def write(cluster: Cluster) -> None:
    cluster.execute(1, [b"XADD", b"x", b"*", b"f", b"v"])


def turns(cluster: Cluster, count: int) -> None:
    for _ in range(count):
        cluster.turn(2)


def test_clients_that_find_what_they_had_seen() -> None:
    checker = ReadsItsWrites()
    cluster = cluster_with(checker)
    for _ in range(40):
        write(cluster)
        cluster.sync()
    checker.at_end(cluster)


def test_an_answer_that_comes_too_early() -> None:
    checker = ReadsItsWrites()
    cluster = cluster_with(checker)
    write(cluster)
    seen = cluster.node(1).replica.applied.vector.copy()
    checker.carry(Carried(encode(TOKEN, "test", []), seen, [2]))
    with pytest.raises(Violation, match=r"sessions: region 2 answers OK, and lacks VersionVector\(\{1: \d+\}\)"):
        turns(cluster, AWAIT_EVERY)


def test_a_loss_that_is_none() -> None:
    checker = ReadsItsWrites()
    cluster = cluster_with(checker)
    carried = Carried(encode(TOKEN, "test", []), VersionVector({1: 1}), [])
    carried.lost_in[2] = "LOST a write"
    checker.carry(carried)
    write(cluster)
    cluster.sync()
    with pytest.raises(Violation, match=r"sessions: .*LOST a write.*, and all of VersionVector\(\{1: 1\}\) is there"):
        checker.at_end(cluster)


def test_a_region_that_waits_for_what_it_has() -> None:
    checker = ReadsItsWrites()
    cluster = cluster_with(checker)
    write(cluster)
    cluster.sync()
    checker.carry(Carried(encode(TOKEN, "test", [(2, 1 << 20)]), VersionVector({1: 1}), []))
    with pytest.raises(Violation, match="sessions: region 1 does not answer"):
        checker.at_end(cluster)


def test_asking_leaves_no_client_behind() -> None:
    cluster = cluster_with(ReadsItsWrites())
    assert ask(cluster, 1, b"CRDT.AWAIT", encode(TOKEN, "test", [(2, 1 << 20)]), b"0") is None
    assert len(cluster.node(1).context.parking) == 0
