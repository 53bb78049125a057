"""WAIT on simulated regions: what a writer and a reader are told while their peers come and go."""

from __future__ import annotations

from crdtstream.core.values.entry_id import STRICT
from crdtstream.scenarios.reply import Value, read_reply
from simulations.cluster import CLIENT, Cluster

READER = 9


def ask(cluster: Cluster, text: str, client_id: int = CLIENT) -> Value:
    reply = cluster.execute(1, text.encode().split(), client_id)
    assert reply is not None, f"{text} waits"
    return read_reply(reply)


def written(regions: int) -> Cluster:
    """Region 1 has an entry that the others have on disk, and a client that wrote nothing."""
    cluster = Cluster(regions, STRICT)
    cluster.machines[1].connect(READER, cluster.now_ms)
    ask(cluster, "XADD s * f v")
    cluster.sync()
    return cluster


def test_a_reader_is_told_of_linked_regions_only() -> None:
    cluster = written(3)
    assert ask(cluster, "WAIT 2 0", READER) == ask(cluster, "WAIT 2 0") == 2
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    assert ask(cluster, "WAIT 0 0", READER) == 0
    assert ask(cluster, "WAIT 2 0") == 2
    cluster.heal(1, 2)
    cluster.sync()
    assert ask(cluster, "WAIT 1 0", READER) == 1


def test_a_reader_is_not_told_that_an_unsent_write_is_safe() -> None:
    cluster = written(2)
    ask(cluster, "XADD s * f v")
    assert ask(cluster, "WAIT 0 0", READER) == 0
    cluster.sync()
    cluster.machines[2].sync()
    cluster.sync()
    assert ask(cluster, "WAIT 1 0", READER) == 1


def test_an_evicted_region_no_longer_counts() -> None:
    cluster = written(3)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    ask(cluster, "CRDT.EVICT 3 FORCE", READER)
    cluster.sync(1, 2)
    assert ask(cluster, "WAIT 0 0") == 1
