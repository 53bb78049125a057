"""Simulated regions whose blocks are spilled by the test (tests/core/spilled_blocks.py)."""

from __future__ import annotations

from crdtstream.core.entries.block import BLOCK_ENTRIES
from crdtstream.core.values.entry_id import LIBERAL
from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster
from tests.core.spilled_blocks import SlowFile, spill_all

LIMITS = Limits(peer_timeout_ms=1 << 40, client_idle_s_max=0)
FIRST_MS = 10_001
ENTRIES = 3 * BLOCK_ENTRIES + 10
LAST_MS = FIRST_MS + ENTRIES - 1


def say(cluster: Cluster, number: int, line: str) -> object:
    return read_reply(cluster.execute(number, line.encode().split()) or b"")


def formed(regions: int, limits: Limits = LIMITS) -> Cluster:
    cluster = Cluster(regions, LIBERAL, limits=limits)
    cluster.sync()
    return cluster


def fill(cluster: Cluster, number: int, *keys: str) -> None:
    """Add entries to these streams by turns: where there are several, their counters are listed."""
    for ms in range(FIRST_MS, LAST_MS + 1):
        turn = [f"XADD {key} {ms}-{number} field value-{ms}".encode().split() for key in keys]
        cluster.execute_turn(number, turn)
    cluster.sync()


def spill(cluster: Cluster, number: int, at_least: int = 2) -> SlowFile:
    """Spill all blocks of a region that can be."""
    file, packing = SlowFile(), cluster.node(number).context.packing
    assert spill_all(cluster.node(number).replica.keyspace, file, packing.open_blocks) >= at_least
    return file


def waited(cluster: Cluster) -> int:
    """How many blocks were read by who could wait no more."""
    return sum([cluster.node(number).replica.reads.waited for number in cluster.machines])
