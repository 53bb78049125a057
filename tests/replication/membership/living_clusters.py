"""Clusters in which time passes, and what their members know of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from crdtstream.core.values.entry_id import STRICT
from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster
from simulations.machine import Machine

HEARTBEAT_MS = Limits().heartbeat_ms
TIMEOUT_MS = Limits().peer_timeout_ms
STEP_MS = 100


def run(cluster: Cluster, number: int, text: str) -> object:
    """The reply, None where the client waits."""
    reply = cluster.execute(number, text.encode().split())
    return None if reply is None else read_reply(reply)


def answer(cluster: Cluster, number: int) -> object:
    """What a client that waited was told meanwhile."""
    reply = cluster.pop_reply(number)
    return None if reply is None else read_reply(reply)


def sync_disks(cluster: Cluster) -> None:
    cluster.sync()
    for region in cluster.machines.values():
        region.sync()
    cluster.sync()


def live(cluster: Cluster, milliseconds: int) -> None:
    """Everything goes on for so long."""
    for _ in range(milliseconds // STEP_MS):
        cluster.tick(STEP_MS)
        sync_disks(cluster)


def origin(cluster: Cluster, number: int) -> int:
    return cluster.node(number).birth.origin


def admitted(cluster: Cluster) -> list[int]:
    return [number for number in cluster.machines if cluster.node(number).membership.admitted]


def counted(cluster: Cluster, number: int) -> list[int]:
    """The origins that this region waits for, itself included."""
    node = cluster.node(number)
    own = origin(cluster, number)
    return sorted([own, *node.replica.applied.members.counted(own, node.birth.founders_left())])


def waiting_for(cluster: Cluster, number: int) -> str:
    return cluster.node(number).membership.waiting_for()


def rows(cluster: Cluster, number: int) -> Sequence[tuple[int, ...]]:
    return cluster.node(number).replica.applied.members.rows()


def lasting(cluster: Cluster) -> list[int]:
    """The machines' tables of members agree."""
    tables = [cluster.node(number).replica.applied.members.lasting_rows() for number in cluster.machines]
    assert all(table == tables[0] for table in tables), tables
    return cluster.node(min(cluster.machines)).replica.applied.members.joined()


def mesh_of_new(count: int, pairs: list[tuple[int, int]] | None = None) -> Cluster:
    """New directories that know nothing but each other's addresses, or those of the pairs that they are in."""
    numbers = range(1, count + 1)
    cluster = Cluster(count, STRICT, absent=tuple(numbers), pairs=pairs)
    base = Cluster(1, STRICT).machines[1].config
    for number in numbers:
        near = [a if b == number else b for a, b in cluster.pairs if number in (a, b)]
        peers = tuple(f"region{other}:1" for other in near)
        config = replace(base, name=f"region{number}", region=number, incarnation=None, peers=peers)
        cluster.machines[number] = Machine(config, cluster.now_ms)
        for other in near:
            cluster.node(number).peer_met(f"region{other}:1", other)
    return cluster
