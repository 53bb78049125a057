"""A cluster with a group that one region delivers at a time, for tests."""

from __future__ import annotations

import re

from crdtstream.core.values.entry_id import LIBERAL
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster

LIMITS = Limits(heartbeat_ms=100, peer_timeout_ms=1_000, segment_bytes_max=1 << 16)
TAKEOVER_MS = 1_000


def ask(cluster: Cluster, number: int, line: str) -> bytes | None:
    return cluster.execute(number, line.encode().split())


def say(cluster: Cluster, number: int, line: str) -> bytes:
    reply = ask(cluster, number, line)
    assert reply is not None, f"{line} waits"
    return reply


def assert_refused(cluster: Cluster, line: str, text: str) -> None:
    """The first region refuses this with an error that begins so, and nothing is changed."""
    before = cluster.node(1).replica.applied.vector.copy()
    assert say(cluster, 1, line).startswith(b"-" + text.encode())
    assert cluster.node(1).replica.applied.vector == before


def formed(properties: str, regions: int = 3) -> Cluster:
    """Each region n has added n-1 to n-3, and all hear each other."""
    cluster = Cluster(regions, LIBERAL, limits=LIMITS)
    for number in cluster.machines:
        for index in (1, 2, 3):
            say(cluster, number, f"XADD s {number}-{index} f v")
    cluster.live(1_000)
    assert say(cluster, 1, f"XGROUP CREATE s g 0 CRDT {properties}") == b"+OK\r\n"
    cluster.live(1_000)
    return cluster


def read(cluster: Cluster, number: int, count: int = 100, consumer: str = "c") -> list[str]:
    reply = say(cluster, number, f"XREADGROUP GROUP g {consumer} COUNT {count} STREAMS s >")
    return re.findall(r"\d+-\d+(?=\r)", reply.decode())


ALL = [f"{number}-{index}" for number in (1, 2, 3) for index in (1, 2, 3)]


def away(cluster: Cluster, number: int) -> None:
    for other in set(cluster.machines) - {number}:
        cluster.cut(number, other)


def back(cluster: Cluster, number: int) -> None:
    for other in set(cluster.machines) - {number}:
        cluster.heal(number, other)
