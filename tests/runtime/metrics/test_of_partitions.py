"""Sums over partitioned streams of two running regions: homes and instances are counted where they are."""

from __future__ import annotations

from pathlib import Path

from crdtstream.partitions.values import StreamSpec
from crdtstream.runtime.metrics.of_partitions import partition_families
from tests.running_region import Running, until
from tests.runtime.metrics.scraped import Scraped, scraped
from tests.runtime.test_partition_port import two_regions

DAY_MS = 86_400_000
NAMES = ("partitioned_streams", "partitioned_streams_homed", "partition_groups", "partition_instances")
RENUMBERED = "partition_messages_renumbered_total"


def of(region: Running) -> Scraped:
    node = region.loop.node
    return scraped(partition_families(node.partitions, node.settings.config.region))


async def test_each_region_counts_what_has_its_home_there(tmp_path: Path) -> None:
    async with two_regions(tmp_path) as (one, other):
        here, there = one.loop.partitions, other.loop.partitions
        await here.create_stream(StreamSpec("s", 2, DAY_MS))
        await there.create_stream(StreamSpec("t", 1, DAY_MS))
        await until(lambda: here.spec("t") is not None and there.spec("s") is not None, "both are known")
        for instance in ("a", "b"):
            mark = await there.join_group("s", "g", "TRIM_HORIZON", 0, 50)
            await there.poll("s", "g", instance, 30_000, mark, True)
        assert [of(one).value(name) for name in NAMES] == [2, 1, 1, 2]
        assert [of(other).value(name) for name in NAMES] == [2, 1, 0, 0]
        assert of(one).value(RENUMBERED) == 0
        one.loop.node.partitions.renumbered = 7
        assert of(one).value(RENUMBERED) == 7
