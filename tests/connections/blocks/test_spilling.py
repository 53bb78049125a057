"""When a region spills: beyond what is allowed, and with a checkpoint that it asks for in time."""

from __future__ import annotations

import pytest

from crdtstream.connections.blocks.spilling import URGENCY_MAX, Spilling
from crdtstream.connections.saving import RETRY_MS, Saving
from crdtstream.settings.config import Config, Limits
from crdtstream.settings.live import Settings
from crdtstream.status.availability import Standing
from tests.core.test_spill_walk import Region

COST = 1 << 30


class Spiller:
    """The spilling of a region whose log grows as a test says."""

    def __init__(self, allowed_bytes: int) -> None:
        self.region = Region()
        self.settings = Settings(Config("east", 1, "shop", limits=Limits(hot_bytes_max=allowed_bytes)))
        self.standing, self.saving = Standing(), Saving()
        self.spilling = Spilling(self.settings, self.standing, self.saving, self.region.keyspace, self.region.cache)
        self.region.walk = self.spilling.walk
        self.log_bytes = 0

    def write(self, byte_count: int) -> None:
        self.log_bytes += byte_count
        while self.spilling.step(COST, self.log_bytes):
            pass

    def allow(self, allowed_bytes: int) -> None:
        self.settings.change(Config("east", 1, "shop", limits=Limits(hot_bytes_max=allowed_bytes)))

    def save(self) -> None:
        """Take the checkpoint that was asked for."""
        self.saving.begin()
        self.region.save()
        self.saving.end(1, "")

    def count(self) -> int:
        return sum(block.is_spilled() for block in self.region.tree.blocks()[0])


def filled(allowed_bytes: int) -> Spiller:
    """With more blocks, all of which a checkpoint has."""
    spiller = Spiller(allowed_bytes)
    spiller.region.add(30)
    spiller.region.save()
    return spiller


def test_nothing_is_spilled_unless_it_is_asked_for() -> None:
    spiller = Spiller(0)
    spiller.region.save()
    spiller.write(1 << 30)
    assert spiller.count() == 0 and spiller.spilling.walk.walks == 0 and not spiller.saving.requested


def test_a_region_within_what_is_allowed_keeps_all() -> None:
    spiller = Spiller(1 << 30)
    spiller.region.save()
    spiller.write(1)
    assert spiller.count() == 0 and spiller.spilling.walk.walks == 1
    spiller.write(1)
    assert spiller.spilling.walk.walks == 1


def test_a_checkpoint_is_asked_for_and_then_blocks_are_spilled() -> None:
    spiller = Spiller(40_000)
    spiller.write(100_000)
    assert spiller.saving.requested and spiller.count() == 0
    spiller.save()
    spiller.write(0)
    assert spiller.count() > 0 and spiller.spilling.walk.hot_bytes() <= 40_000 + spiller.region.tree.tail.held_bytes()


def test_slices_become_longer_far_beyond_what_is_allowed() -> None:
    spiller = Spiller(40_000)
    assert spiller.spilling.urgency() == 1.0
    # There a checkpoint ends that is in time.
    spiller.spilling.walk.walked_bytes = 80_000
    assert spiller.spilling.urgency() == 1.0
    spiller.spilling.walk.walked_bytes = 120_000
    assert spiller.spilling.urgency() == 27.0
    spiller.spilling.walk.walked_bytes = 1 << 30
    assert spiller.spilling.urgency() == URGENCY_MAX
    assert Spiller(0).spilling.urgency() == 1.0


def test_it_does_not_walk_again_and_again_where_nothing_can_be_spilled() -> None:
    spiller = Spiller(1_000)
    spiller.write(100_000)
    spiller.write(1)
    walks = spiller.spilling.walk.walks
    for _ in range(10):
        spiller.write(1)
    assert spiller.spilling.walk.walks == walks
    spiller.write(1_000)
    assert spiller.spilling.walk.walks == walks + 1


def test_a_region_without_memory_spills_more() -> None:
    spiller = Spiller(1 << 20)
    spiller.region.save()
    assert spiller.spilling.target_bytes() == 1 << 20
    spiller.standing.memory_short = True
    assert spiller.spilling.target_bytes() == 1 << 19


def test_removals_from_spilled_blocks_ask_for_a_checkpoint() -> None:
    """Each replaces a block of the disk by one in memory, and the log has a few bytes of that."""
    spiller = filled(100_000)
    spiller.write(1_500_000)
    assert spiller.count() >= 28
    spiller.saving.begin()
    spiller.saving.end(1, "")
    spiller.write(0)
    for counter in range(3, 53, 5):
        spiller.region.tree.remove_counters(counter, counter)
    spiller.write(10)
    assert spiller.saving.requested
    hot = spiller.count()
    spiller.save()
    spiller.write(0)
    assert spiller.count() > hot and spiller.spilling.walk.hot_bytes() <= 100_000


def test_a_checkpoint_for_another_reason_counts() -> None:
    spiller = Spiller(10_000)
    spiller.write(1)
    spiller.write(4_000)
    spiller.saving.begin()
    spiller.write(0)
    spiller.saving.end(1, "")
    spiller.write(4_999)
    assert not spiller.saving.requested
    spiller.write(2_500)
    assert spiller.saving.requested


def test_a_removal_of_what_is_in_memory_delays_no_checkpoint() -> None:
    spiller = filled(100_000)
    spiller.write(1_500_000)
    spiller.region.cache.rewritten_bytes -= 5_000_000
    spiller.write(0)
    assert spiller.spilling.walk.unsaved_bytes() == 0
    spiller.saving.begin()
    spiller.write(0)
    spiller.saving.end(1, "")
    spiller.region.add(5)
    spiller.spilling.walk.grown_bytes = 0
    spiller.write(240_000)
    assert spiller.saving.requested


def test_a_lower_limit_is_walked_for_at_once() -> None:
    spiller = filled(600_000)
    spiller.write(1)
    spiller.write(0)
    assert 300_000 < spiller.spilling.walk.hot_bytes() <= 600_000
    spiller.standing.memory_short = True
    spiller.write(0)
    assert spiller.spilling.walk.hot_bytes() <= 300_000
    walks = spiller.spilling.walk.walks
    spiller.write(0)
    assert spiller.spilling.walk.walks == walks


@pytest.mark.parametrize("memory_short", [False, True])
@pytest.mark.parametrize("failure", ["", "the checkpoint failed: no space"])
def test_a_checkpoint_that_failed_is_asked_for_again_though_nothing_more_is_written(
    failure: str, memory_short: bool
) -> None:
    spiller = Spiller(400_000)
    spiller.region.add(20)
    spiller.write(700_000)
    assert spiller.saving.requested
    spiller.saving.begin()
    spiller.write(10_000)
    spiller.saving.end(1, failure)
    spiller.standing.memory_short = memory_short
    spiller.write(0)
    assert not spiller.saving.requested
    spiller.region.keyspace.now_ms += RETRY_MS
    spiller.write(0)
    assert spiller.saving.requested == bool(failure)


def test_copies_of_blocks_that_become_the_last_one_are_counted() -> None:
    spiller = filled(1)
    spiller.write(1_500_000)
    tree, walk = spiller.region.tree, spiller.spilling.walk
    assert spiller.count() == tree.block_count() - 1
    spiller.allow(1 << 30)
    before_bytes = walk.hot_bytes()
    tree.remove_counters(tree.tail.counter_at(0), tree.last_counter())
    spiller.write(50)
    assert walk.hot_bytes() == before_bytes + tree.tail.held_bytes() + 50


def test_what_was_trimmed_meanwhile_is_not_spilled_for() -> None:
    """The log grows by far more than is allowed, and what is there never is half of that."""
    spiller = Spiller(4_000_000)
    tree = spiller.region.tree
    for _ in range(300):
        spiller.region.add(1)
        if tree.count > 160:
            tree.remove_through(tree.first_counters(4)[-1][1])
        spiller.write(48_000)
        if spiller.saving.requested:
            spiller.save()
    assert spiller.saving.ended == 0, "what is trimmed soon needs none"
    assert spiller.spilling.walk.spills == 0 < spiller.spilling.walk.hot_bytes() <= 4_000_000


def test_what_was_written_while_nothing_was_spilled_is_counted_first() -> None:
    spiller = filled(0)
    spiller.write(100_000_000)
    spiller.allow(8_000_000)
    spiller.write(1)
    assert spiller.count() == 0
