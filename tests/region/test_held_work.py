"""A damaged block that holds up work of the region: told once, shown as long as it lasts."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import Key
from crdtstream.core.entries.block import BLOCK_ENTRIES
from crdtstream.core.entries.spilled import BlockHandle
from crdtstream.core.values.causality import origin_name
from crdtstream.observing.info import fields_of_info, report_of
from crdtstream.region.held_work import described, notice
from crdtstream.replication.exchange.state_joining import COMPARES
from crdtstream.runtime.metrics.of_spilling import spilling_families
from simulations.cluster import Cluster
from tests.core.spilled_blocks import SlowFile
from tests.runtime.metrics.scraped import scraped
from tests.spilled_regions import FIRST_MS, fill, formed, say, spill

MIDDLE = FIRST_MS + BLOCK_ENTRIES + 50
KEY: Key = (0, b"orders")


def damaged() -> tuple[Cluster, SlowFile, bytes]:
    """Region 1 has removed an entry from a block that region 2 cannot read."""
    cluster = formed(2)
    fill(cluster, 1, "a", "b")
    file = spill(cluster, 2)
    whole = bytes(file.data)
    file.data[:] = bytes(len(whole))
    say(cluster, 1, f"XDEL a {MIDDLE}-1")
    pass_time(cluster, 3)
    return cluster, file, whole


def pass_time(cluster: Cluster, ticks: int) -> None:
    for _ in range(ticks):
        cluster.sync()
        cluster.tick(100)
    cluster.sync()


def told(cluster: Cluster) -> list[str]:
    return [one.text for one in cluster.node(2).news if one.event == "block-unreadable"]


def unreadable(cluster: Cluster) -> list[str]:
    shown = say(cluster, 2, "INFO persistence")
    assert isinstance(shown, str)
    report = report_of(fields_of_info(shown.encode()))
    assert report.blocks_unreadable == (1 if report.blocks_first_unreadable else 0)
    return [report.blocks_first_unreadable] if report.blocks_unreadable else []


def test_what_waits_is_told_once_with_file_and_remedy() -> None:
    cluster, _, _ = damaged()
    origin = cluster.node(1).replica.applied.origin
    (text,) = told(cluster)
    assert f"cannot be read or is damaged, and batches of the origin {origin_name(origin)} wait for it" in text
    assert text.startswith("a block of the file staged-blocks, at byte ") and "replace the disk" in text
    pass_time(cluster, 3)
    assert len(told(cluster)) == 1


def test_it_is_shown_as_long_as_it_lasts_and_told_again_when_it_comes_back() -> None:
    cluster, file, whole = damaged()
    (place,) = unreadable(cluster)
    assert place.startswith("staged-blocks:")
    shown = scraped(spilling_families(cluster.node(2)))
    assert shown.value("blocks_unreadable", file="staged-blocks") == 1
    file.data[:] = whole
    pass_time(cluster, 2)
    assert unreadable(cluster) == [] and len(told(cluster)) == 1
    assert scraped(spilling_families(cluster.node(2))).value("blocks_unreadable", file="") == 0
    file.fails = True
    say(cluster, 1, f"XDEL b {MIDDLE}-1")
    pass_time(cluster, 2)
    assert len(told(cluster)) == 2 and len(unreadable(cluster)) == 1


def test_a_region_that_reads_all_says_nothing() -> None:
    cluster = formed(2)
    fill(cluster, 1, "a", "b")
    spill(cluster, 2)
    say(cluster, 1, f"XDEL a {MIDDLE}-1")
    pass_time(cluster, 3)
    assert told(cluster) == [] and unreadable(cluster) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (2 + 256, "batches of the origin 2.1 wait"),
        (("runs", (KEY, b"g\xff")), "acknowledgements of the group g\\xff of orders wait"),
        (("lost", KEY), "removals from orders wait"),
        (("retention", KEY, "age"), "removals from orders wait"),
        (COMPARES, "a state that has arrived waits"),
        ("audit", "work of this region waits"),
        (("partition", "id", 1), "work of this region waits"),
    ],
)
def test_each_task_is_described(name: object, text: str) -> None:
    assert described(name) == text


def test_the_file_of_a_checkpoint_is_named() -> None:
    handle = BlockHandle(SlowFile(), 4096, 10, 0, False, (7 << 40) + 3)
    assert notice(1, handle).text.startswith("block 3 of the file blocks-00000007, at byte 4096, cannot be read")
