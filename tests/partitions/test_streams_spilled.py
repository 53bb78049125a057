"""What the home does with messages that are spilled."""

from __future__ import annotations

from crdtstream.core.entries.block import BLOCK_ENTRIES
from crdtstream.partitions.streams import UPKEEP_MS
from tests.partitions.region_streams import HOUR_MS, Regions
from tests.spilled_regions import spill, waited

BLOCKS = 9
TICK_MS = 20
# The first block, and those that the search for the first message that stays visits.
READS_MAX = 6


def test_retention_goes_on_at_the_next_tick_after_each_block_that_it_needs() -> None:
    regions = Regions(1, partitions=1)
    for _ in range(BLOCKS):
        regions.now_ms += HOUR_MS
        regions.put(1, *[b"%d" % number for number in range(BLOCK_ENTRIES)])
    regions.now_ms += HOUR_MS
    regions.put(1, b"last")
    partition = regions.streams(1).partition("s", 0)
    assert partition.oldest_offset() == 0
    spill(regions, 1, BLOCKS - 1)
    regions.now_ms += 19 * HOUR_MS
    regions.tick(UPKEEP_MS)
    assert partition.oldest_offset() == 0, "it waits for blocks"
    ticks = 0
    while not partition.oldest_offset():
        ticks += 1
        regions.tick(TICK_MS)
    assert 1 <= ticks <= READS_MAX and partition.oldest_offset() == 5 * BLOCK_ENTRIES
    assert waited(regions) == 0
    regions.check()
