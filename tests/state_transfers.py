"""Clusters whose logs are cut, so that states are sent."""

from __future__ import annotations

from crdtstream.core.digest import digest_replica
from crdtstream.core.values.entry_id import STRICT
from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster

LIMITS = Limits(
    segment_bytes_max=150,
    message_bytes=150,
    window_bytes=500,
    expiry_takeover_ms=15,
    peer_timeout_ms=1 << 40,
    client_idle_s_max=0,
)
LINE = [(1, 2), (2, 3)]
ROUNDS = 6


def cluster_of(regions: int = 2, pairs: list[tuple[int, int]] | None = None, fsync: str = "everysec") -> Cluster:
    return Cluster(regions, STRICT, fsync, pairs, LIMITS)


def run(cluster: Cluster, number: int, text: str) -> object:
    return read_reply(cluster.execute(number, text.encode().split()) or b"")


def add(cluster: Cluster, number: int, count: int = 1, key: str = "x") -> None:
    for _ in range(count):
        cluster.now_ms += 1
        run(cluster, number, f"XADD {key} * region {number}")


def cut_log(cluster: Cluster, number: int) -> None:
    cluster.machines[number].cut_log()


def settle(cluster: Cluster) -> None:
    """Some offers are taken up only after a while."""
    for a, b in cluster.pairs:
        cluster.heal(a, b)
    for _ in range(ROUNDS):
        cluster.sync()
        cluster.check()
        for region in cluster.machines.values():
            region.sync()
        cluster.tick(LIMITS.heartbeat_ms)
    cluster.sync()
    cluster.check()


def assert_equal(cluster: Cluster) -> None:
    vectors = [cluster.node(number).replica.applied.vector.as_dict() for number in cluster.machines]
    assert all(vector == vectors[0] for vector in vectors), vectors
    assert len({digest_replica(cluster.node(number).replica) for number in cluster.machines}) == 1
    members = [cluster.node(number).replica.applied.members.lasting_rows() for number in cluster.machines]
    assert all(rows == members[0] for rows in members)
    for number in cluster.machines:
        node = cluster.node(number)
        assert node.replica.keyspace.observers == [] or node.exchange.transfers.wanted == {}


def told(cluster: Cluster, number: int, text: str) -> int:
    return sum(text in news.text for news in cluster.node(number).exchange.news)


def behind(entries: int = 30) -> Cluster:
    """Region 2 lacks what region 1 has cut, and has an entry of its own."""
    cluster = cluster_of()
    add(cluster, 1, 2)
    cluster.sync()
    cluster.cut(1, 2)
    add(cluster, 1, entries)
    add(cluster, 2)
    cut_log(cluster, 1)
    return cluster
