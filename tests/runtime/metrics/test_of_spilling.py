"""What is in memory and on disk alone, as a scrape shows it."""

from __future__ import annotations

from crdtstream.runtime.metrics.of_spilling import spilling_families
from simulations.cluster import Cluster
from tests.runtime.metrics.scraped import Scraped, scraped
from tests.spilled_regions import fill, formed, say, spill


def of(cluster: Cluster) -> Scraped:
    return scraped(spilling_families(cluster.node(1)))


def reads(cluster: Cluster) -> list[float]:
    return [of(cluster).value("cold_reads_total", kind=kind) for kind in ("at-once", "thread", "waited")]


def test_reads_are_counted_by_their_kind() -> None:
    cluster = formed(1)
    fill(cluster, 1, "a")
    file = spill(cluster, 1)
    assert reads(cluster) == [0, 0, 0] and of(cluster).value("cold_read_bytes_total") == 0
    say(cluster, 1, "XRANGE a - + COUNT 1")
    assert reads(cluster) == [0, 1, 0] and of(cluster).value("cold_read_bytes_total") > 0
    file.is_cached = True
    spill(cluster, 1)
    say(cluster, 1, "XRANGE a - + COUNT 1")
    assert reads(cluster) == [1, 1, 0]
    file.is_cached = False
    spill(cluster, 1)
    cluster.check()
    assert reads(cluster)[2] > 0


def test_what_cannot_be_spilled_is_beside_the_limit() -> None:
    cluster = formed(1)
    fill(cluster, 1, "a")
    walk = cluster.node(1).context.spilling.walk
    walk.begin(1)
    while walk.go_on(1_000):
        pass
    shown = of(cluster)
    assert shown.value("hot_bytes_max") == 0 and shown.value("spilled_blocks") == 0
    assert shown.value("hot_bytes") == shown.value("hot_bytes_unspillable") > 1_000, "no checkpoint has them"
    parts = {part: shown.value("bound_bytes", part=part) for part in ("last-blocks", "unsaved", "trimmed-blocks")}
    assert sum(parts.values()) == shown.value("hot_bytes_unspillable") and parts["trimmed-blocks"] == 0
    assert min(parts["last-blocks"], parts["unsaved"]) > 0
