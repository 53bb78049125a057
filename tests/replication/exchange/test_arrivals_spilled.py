"""Batches of peers that open spilled blocks: they wait with their link, and change what they would change anyway."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.core.digest import digest_replica
from crdtstream.core.entries.block import BLOCK_ENTRIES
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster
from tests.spilled_regions import ENTRIES, FIRST_MS, LAST_MS, LIMITS, fill, formed, say, spill, waited


def filled(limits: Limits = LIMITS) -> Cluster:
    """Two regions; region 1 has written two streams, by turns, so that their counters are listed, and a third alone."""
    cluster = formed(2, limits)
    fill(cluster, 1, "a", "b")
    fill(cluster, 1, "c")
    say(cluster, 1, "XGROUP CREATE c g 0")
    cluster.sync()
    return cluster


def contents(cluster: Cluster) -> list[object]:
    digests = [digest_replica(cluster.node(number).replica) for number in (1, 2)]
    assert digests[0] == digests[1]
    return [say(cluster, number, f"XRANGE {key} - +") for key in ("a", "b", "c") for number in (1, 2)]


def ids(first_ms: int, last_ms: int) -> str:
    return " ".join(f"{ms}-1" for ms in range(first_ms, last_ms + 1))


MIDDLE = FIRST_MS + BLOCK_ENTRIES + 50
REMOVALS = [
    [f"XDEL a {MIDDLE}-1"],
    [f"XDEL c {MIDDLE}-1 {MIDDLE + 300}-1 {LAST_MS}-1"],
    [f"XTRIM b MINID = {MIDDLE}"],
    ["XTRIM c MAXLEN = 5"],
    [f"XDEL c {ids(LAST_MS - 20, LAST_MS)}"],
    [f"XDEL a {ms}-1" for ms in range(LAST_MS, LAST_MS - 300, -1)],
    # The block before the last one goes first, and then the last one.
    [f"XDEL c {ids(LAST_MS - 9 - BLOCK_ENTRIES, LAST_MS - 10)}", f"XDEL c {ids(LAST_MS - 9, LAST_MS)}"],
    ["DEL a", f"XADD a {LAST_MS + 9}-1 f v"],
    ["XREADGROUP GROUP g one COUNT 300 STREAMS c >", f"XACK c g {MIDDLE}-1 {FIRST_MS}-1"],
]


@pytest.mark.parametrize("lines", REMOVALS, ids=range(len(REMOVALS)))
def test_a_batch_removes_what_is_spilled_without_waiting_once_it_began(lines: list[str]) -> None:
    outcomes: list[list[object]] = []
    for spilled in (False, True):
        cluster = filled()
        if spilled:
            spill(cluster, 2)
        cluster.execute_turn(1, [line.encode().split() for line in lines])
        cluster.sync()
        assert waited(cluster) == 0
        cluster.check()
        outcomes.append(contents(cluster))
    assert outcomes[0] == outcomes[1]


def test_a_batch_waits_for_its_blocks_with_those_behind_it_and_others_go_on() -> None:
    cluster = filled()
    spill(cluster, 2)
    machine, link = cluster.machines[2], cluster.link(1, 2)
    machine.reads_blocks = False
    say(cluster, 1, f"XDEL a {MIDDLE}-1")
    say(cluster, 1, f"XADD b {LAST_MS + 1}-1 f v")
    cluster.sync()
    assert cluster.node(2).exchange.waiting()[0] == 2
    assert say(cluster, 2, "XLEN a") == ENTRIES and say(cluster, 2, "XLEN b") == ENTRIES
    assert isinstance(say(cluster, 2, "XADD other 1-1 f v"), bytes | str), "its clients go on"
    cluster.sync()
    assert say(cluster, 1, "XLEN other") == 1
    machine.reads_blocks = True
    machine.perform()
    cluster.sync()
    assert cluster.node(2).exchange.waiting()[0] == 0
    assert say(cluster, 2, "XLEN a") == ENTRIES - 1 and say(cluster, 2, "XLEN b") == ENTRIES + 1
    assert cluster.link(1, 2) is link and link.open
    assert waited(cluster) == 0
    contents(cluster)


def test_a_batch_that_is_larger_than_what_may_wait_is_kept_until_its_blocks_were_read() -> None:
    """What came with it is asked for again; it would find its blocks gone each time that it comes."""
    cluster = filled(replace(LIMITS, inbox_bytes_max=2_000))
    spill(cluster, 2)
    machine = cluster.machines[2]
    machine.reads_blocks = False
    large = f"XADD c {LAST_MS + 1}-1 f {'v' * 3_000}"
    cluster.execute_turn(1, [line.encode().split() for line in (f"XDEL a {MIDDLE}-1", large)])
    cluster.sync()
    say(cluster, 1, large.replace(f"{LAST_MS + 1}", f"{LAST_MS + 2}"))
    cluster.sync()
    arrivals = cluster.node(2).exchange.arrivals
    assert arrivals.inbox.waiting_count == 1 and arrivals.drops == 1, "the second batch is dropped"
    arrivals.check()
    machine.reads_blocks = True
    machine.perform()
    assert say(cluster, 2, "XLEN a") == ENTRIES - 1 and say(cluster, 2, "XLEN c") == ENTRIES + 1
    cluster.tick(1_000)
    cluster.sync()
    assert arrivals.inbox.waiting_count == 0 and waited(cluster) == 0
    contents(cluster)


def test_a_batch_whose_blocks_cannot_be_read_is_tried_again_at_each_tick() -> None:
    cluster = filled()
    file = spill(cluster, 2)
    whole = bytes(file.data)
    file.data[:] = bytes(len(whole))
    say(cluster, 1, f"XDEL a {MIDDLE}-1")
    for _ in range(3):
        cluster.sync()
        cluster.tick(100)
    assert say(cluster, 2, "XLEN a") == ENTRIES and cluster.node(2).exchange.arrivals.deferred_work.failures > 1
    file.data[:] = whole
    cluster.tick(100)
    cluster.sync()
    assert say(cluster, 2, "XLEN a") == ENTRIES - 1
    contents(cluster)
