"""A link that is saturated in both directions, and so narrow that a message of the full size would take longer than a
peer may be silent, stays.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.processes.region import RegionProcess, await_agreement
from nemesis.cluster import REDIS_PORT, REPLICATION_PORT, ROOT, launcher_of
from nemesis.network import Network
from tests.nemesis.needs import namespaces

pytestmark = [namespaces, pytest.mark.slow]

BYTES_S = 40_000
ENTRIES, ENTRY_BYTES = 60, 20_000
# What passes in half a minute, and then some.
DEADLINE_S = 180.0
LOST = ("event=link-lost", "event=link-closed")


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network({1: "east", 2: "west"})
    yield made
    made.close()


@pytest.fixture
def regions(network: Network, tmp_path: Path) -> Iterator[list[RegionProcess]]:
    made = [
        RegionProcess(
            number,
            tmp_path,
            namespace.name[-4:],
            launcher_of(ROOT, namespace),
            namespace.address,
            REDIS_PORT,
            REPLICATION_PORT,
        )
        for number, namespace in network.namespaces.items()
    ]
    for region, other in zip(made, reversed(made), strict=True):
        region.start(other, insecure_replication=True, replication_bind="0.0.0.0", allow_region=(1, 2))
    for region, other in zip(made, reversed(made), strict=True):
        region.await_serving().await_links(other.name)
    yield made
    for region in made:
        region.kill()


def lost(region: RegionProcess) -> list[str]:
    return [line for line in region.log().splitlines() if any(event in line for event in LOST)]


def test_a_narrow_link_that_is_saturated_stays(network: Network, regions: list[RegionProcess]) -> None:
    # Of two streams that met at the start, one was given up.
    before = [lost(region) for region in regions]
    network.narrow(1, 2, BYTES_S)
    network.narrow(2, 1, BYTES_S)
    noise = random.Random(1)
    for region in regions:
        for _ in range(ENTRIES):
            region.ask("XADD", region.name, "*", "f", noise.randbytes(ENTRY_BYTES))
    await_agreement(regions, DEADLINE_S)
    assert [lost(region) for region in regions] == before
