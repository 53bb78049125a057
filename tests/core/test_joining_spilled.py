"""States that are joined where blocks are spilled: the join is one piece, so what it has to open it reads at once."""

from __future__ import annotations

import dataclasses

import pytest

from crdtstream.core.digest import digest_replica
from crdtstream.core.entries.block import BLOCK_ENTRIES
from simulations.cluster import Cluster
from tests.core.spilled_blocks import SlowFile
from tests.spilled_regions import FIRST_MS, LAST_MS, LIMITS, fill, formed, say, spill, waited

SMALL = dataclasses.replace(LIMITS, segment_bytes_max=150, message_bytes=20_000, window_bytes=100_000)
MIDDLE = FIRST_MS + BLOCK_ENTRIES + 50


def apart(*keys: str) -> Cluster:
    """Region 2 has what region 1 wrote to these streams, and lacks what region 1 has removed and added since."""
    cluster = formed(2, SMALL)
    fill(cluster, 1, *keys)
    say(cluster, 2, "XADD a 99999-2 of region-2")
    cluster.sync()
    cluster.cut(1, 2)
    for key in keys:
        say(cluster, 1, f"XDEL {key} {MIDDLE}-1 {LAST_MS}-1")
        say(cluster, 1, f"XTRIM {key} MAXLEN 700")
        say(cluster, 1, f"XADD {key} {LAST_MS + 9}-1 f v")
    cluster.machines[1].cut_log()
    return cluster


def join(cluster: Cluster) -> list[bytes]:
    cluster.heal(1, 2)
    for _ in range(80):
        cluster.tick(50)
        cluster.sync()
    assert any("is joined" in notice.text for notice in cluster.node(2).news)
    return [digest_replica(cluster.node(number).replica) for number in (1, 2)]


@pytest.mark.parametrize("keys", [("a",), ("a", "b")])
def test_a_state_is_joined_with_spilled_blocks(keys: tuple[str, ...]) -> None:
    plain = join(apart(*keys))
    cluster = apart(*keys)
    for number in (1, 2):
        spill(cluster, number)
    assert join(cluster) == plain and plain[0] == plain[1]
    assert say(cluster, 2, "XRANGE a - +") == say(cluster, 1, "XRANGE a - +")
    assert waited(cluster) <= 4, "what was compared before is not opened again"
    cluster.check()


def comparing(*keys: str) -> Cluster:
    """The same regions; region 2 has all of the state, waits for the first blocks to compare, and reads none."""
    cluster = apart(*keys)
    for number in (1, 2):
        spill(cluster, number)
    cluster.machines[2].reads_blocks = False
    cluster.heal(1, 2)
    for _ in range(200):
        cluster.tick(50)
        cluster.sync()
        if cluster.node(2).exchange.fetching.comparison is not None:
            return cluster
    raise AssertionError("no state is compared")


def spilled_file(cluster: Cluster) -> SlowFile:
    handles = [block.handle for block in cluster.node(2).replica.keyspace.databases[0][b"a"].trees[1].blocks()[0]]
    (file,) = {handle.file for handle in handles if handle is not None}
    assert isinstance(file, SlowFile)
    return file


def is_joined(cluster: Cluster) -> bool:
    return any("is joined" in notice.text for notice in cluster.node(2).news)


def test_both_regions_go_on_while_a_state_is_compared() -> None:
    """Entries that were compared go, and others come, from here and from the peer."""
    cluster = comparing("a", "b")
    turns = 0
    while not is_joined(cluster):
        turns += 1
        for number in (1, 2):
            say(cluster, number, f"XADD a {LAST_MS + 1_000 + turns}-{number} f later")
        say(cluster, 1, f"XDEL b {MIDDLE + turns}-1")
        assert say(cluster, 2, f"XDEL a {LAST_MS - turns}-1") == 1
        cluster.sync()
        cluster.machines[2].read_blocks()
        cluster.machines[2].perform()
    assert turns >= 3
    cluster.machines[2].reads_blocks = True
    digests = join(cluster)
    assert digests[0] == digests[1]
    for key in ("a", "b"):
        assert say(cluster, 2, f"XRANGE {key} - +") == say(cluster, 1, f"XRANGE {key} - +")
    cluster.check()


def test_a_state_that_is_compared_needs_no_link_and_is_not_abandoned() -> None:
    cluster = comparing("a", "b")
    cluster.cut(1, 2)
    for _ in range(3):
        cluster.tick(LIMITS.transfer_keep_ms)
    assert cluster.node(2).exchange.fetching.comparison is not None
    cluster.machines[2].reads_blocks = True
    cluster.machines[2].perform()
    assert is_joined(cluster) and cluster.node(2).exchange.fetching.staging is None
    digests = join(cluster)
    assert digests[0] == digests[1]


def test_a_state_that_is_offered_during_the_comparison_is_fetched_afterwards() -> None:
    cluster = comparing("a", "b")
    for turn in range(30):
        say(cluster, 1, f"XADD b {LAST_MS + 1_000 + turn}-1 f {'v' * 100}")
        # Batches that are cut before they are sent can come with another state only.
        cluster.machines[1].cut_log()
        cluster.tick(50)
        cluster.sync()
    cluster.machines[2].reads_blocks = True
    cluster.machines[2].perform()
    digests = join(cluster)
    assert digests[0] == digests[1]


def test_a_region_that_ends_while_it_compares_fetches_the_state_again() -> None:
    cluster = comparing("a", "b")
    cluster.cut(1, 2)
    cluster.restart(2)
    assert cluster.node(2).exchange.fetching.staging is None
    digests = join(cluster)
    assert digests[0] == digests[1]


def test_a_damaged_block_keeps_a_state_waiting_and_not_the_region() -> None:
    cluster = comparing("a", "b")
    machine = cluster.machines[2]
    file = spilled_file(cluster)
    file.fails = True
    machine.reads_blocks = True
    for _ in range(5):
        cluster.tick(50)
        cluster.sync()
    assert not is_joined(cluster) and cluster.node(2).exchange.arrivals.deferred_work.failures > 0
    assert say(cluster, 2, "PING") == "PONG"
    file.fails = False
    digests = join(cluster)
    assert digests[0] == digests[1]
