"""What a walk spills: what a checkpoint has and nobody read, until little enough is in memory."""

from __future__ import annotations

from random import Random

import pytest

from crdtstream.core.block_walk import KEY_COST
from crdtstream.core.digest import Digesting, digest_replica
from crdtstream.core.effects import UNKNOWN_ENTRIES_READ, Position
from crdtstream.core.entries.packed_block import BlockDamaged, OpenBlockCache
from crdtstream.core.keyspace import DATABASES, Keyspace
from crdtstream.core.replica import Replica
from crdtstream.core.spill_walk import PASSING_WALKS, PENDING_BYTES, SpillWalk
from tests.core.spilled_blocks import SlowFile

BLOCKS = 8
# What a walk costs that visits no spilled block: a tree of a hundred blocks, and all databases.
VISITS = KEY_COST + 3 * DATABASES
KEY = (0, b"x")


class Region:
    """A stream of some full blocks, all of which but the last a checkpoint has."""

    def __init__(self) -> None:
        self.replica = Replica(1)
        self._random = Random(1)
        self._entries = 0
        self.add(BLOCKS)
        self._add_entry()
        self.keyspace: Keyspace = self.replica.keyspace
        self.tree = self.keyspace.databases[0][b"x"].trees[1]
        self.cache = OpenBlockCache(1 << 20)
        self.walk = SpillWalk(self.keyspace, self.cache)
        self.file = SlowFile()

    def add(self, blocks: int) -> None:
        for _ in range(blocks * 4):
            self._add_entry()

    def _add_entry(self) -> None:
        self._entries += 1
        value = bytes(self._random.choices(b"0123456789abcdef", k=12_000))
        self.replica.add_entry(KEY, (self._entries, 0), [b"f", value])

    def save(self) -> None:
        for block in self.tree.resting(0, 100):
            if block.packed_form is None:
                block.pack(self.cache)
            if block.handle is None:
                assert self.file.keep(block)
            block.read = False

    def spill(self, target_bytes: int) -> list[bool]:
        """Walk once; returns which blocks are spilled."""
        self.walk.begin(target_bytes)
        while self.walk.go_on(1):
            pass
        return [block.is_spilled() for block in self.tree.blocks()[0]]


def test_nothing_is_spilled_that_no_checkpoint_has() -> None:
    region = Region()
    assert not any(region.spill(0))
    walk = region.walk
    assert walk.unspillable_bytes() == walk.walked_bytes == walk.hot_bytes() > 0
    assert walk.bound.last == region.tree.tail.held_bytes() and walk.bound.unsaved == walk.hot_bytes() - walk.bound.last


def test_all_but_the_last_block_can_be_spilled() -> None:
    region = Region()
    region.spill(0)
    region.save()
    spilled = region.spill(0)
    assert spilled[:-1] == [True] * (len(spilled) - 1) and not spilled[-1]
    walk = region.walk
    assert (walk.spilled_blocks, walk.spilled_bytes) == (len(spilled) - 1, len(region.file.data))
    assert walk.walked_bytes == walk.unspillable_bytes() == walk.bound.last == region.tree.tail.held_bytes()
    assert all(block.unsummed() for block in region.tree.blocks()[0][:-1])


def test_a_digest_reads_what_was_spilled_before_it_and_nothing_that_is_spilled_meanwhile() -> None:
    region = Region()
    region.spill(0)
    region.save()
    before = sum(region.spill(0))
    digesting = Digesting(region.replica)
    while any(block.unsummed() for block in region.tree.blocks()[0][:-1]):
        digesting.step(1)
    assert region.file.reads == before > 2 and not digesting.is_fixed()
    region.add(BLOCKS)
    region.save()
    assert sum(region.spill(0)) > before
    while not digesting.step(1):
        pass
    assert region.file.reads == before and region.keyspace.digests == 0
    assert digesting.digest == digest_replica(region.replica)


def test_a_digest_that_finds_damage_is_no_longer_under_way() -> None:
    region = Region()
    region.spill(0)
    region.save()
    region.spill(0)
    region.file.data[100] ^= 1
    digesting = Digesting(region.replica)
    with pytest.raises(BlockDamaged):
        digesting.step(1 << 30)
    assert region.keyspace.digests == 0


def test_no_more_is_spilled_than_was_asked_for() -> None:
    region = Region()
    region.save()
    region.spill(1 << 40)
    target_bytes = region.walk.hot_bytes() // 2
    spilled = region.spill(target_bytes)
    assert 0 < sum(spilled) < len(spilled) - 1
    assert target_bytes // 2 < region.walk.hot_bytes() <= target_bytes


def test_what_was_read_stays_for_another_walk() -> None:
    region = Region()
    region.spill(0)
    region.save()
    region.tree.blocks()[0][2].read = True
    spilled = region.spill(0)
    assert not spilled[2] and sum(spilled) == len(spilled) - 2 and region.walk.read_on
    assert region.spill(0)[2] and not region.walk.read_on


def test_a_first_block_of_which_entries_were_trimmed_stays() -> None:
    region = Region()
    region.spill(0)
    region.save()
    region.tree.remove_through(2)
    spilled = region.spill(0)
    assert not spilled[0] and all(spilled[1:-1])
    bound = region.walk.bound
    assert bound.trimmed == region.tree.blocks()[0][0].held_bytes() and bound.unsaved == 0


def test_what_was_written_since_a_walk_counts() -> None:
    region = Region()
    region.spill(0)
    before = region.walk.hot_bytes()
    region.walk.grown_bytes += 1_000
    assert region.walk.hot_bytes() == before + 1_000
    assert region.walk.unsaved_bytes() == region.walk.bound.unsaved + 1_000


def test_what_was_written_before_a_walk_counts_while_it_walks() -> None:
    """Much is written while the first walk lasts, and memory must not look empty meanwhile."""
    region = Region()
    walk = region.walk
    walk.grown_bytes += 1_000
    walk.begin(0)
    walk.grown_bytes += 10
    assert walk.hot_bytes() == walk.unsaved_bytes() == walk.unspillable_bytes() == 1_010
    while walk.go_on(1):
        pass
    assert walk.hot_bytes() == walk.walked_bytes + 10


def test_pending_entries_are_counted_beside_blocks() -> None:
    region = Region()
    region.replica.create_group(KEY, b"g", Position((0, 0)), UNKNOWN_ENTRIES_READ)
    group = region.keyspace.databases[0][b"x"].groups[b"g"]
    group.pending.add(1, [(1, 0), (2, 0), (5, 0)], b"c", 0, 1)
    before = region.walk.hot_bytes()
    region.spill(1 << 40)
    assert region.walk.bound.pending == 3 * PENDING_BYTES
    assert region.walk.unspillable_bytes() == region.walk.hot_bytes() > before


def long_tree() -> Region:
    """A tree with a hundred blocks, nearly all of which are spilled."""
    region = Region()
    region.add(100)
    region.spill(0)
    region.save()
    region.spill(0)
    return region


def test_most_walks_pass_over_what_is_spilled() -> None:
    region = long_tree()
    blocks = region.tree.block_count()
    walk, spilled_bytes = region.walk, region.walk.spilled_bytes
    region.add(5)
    region.save()
    walk.grown_bytes += 5 * 48_000
    assert sum(region.spill(0)) == blocks + 3
    assert walk.spilled_blocks == blocks + 3 and walk.spilled_bytes > spilled_bytes
    assert walk.walked_bytes == walk.bound.last == region.tree.tail.held_bytes()
    walk.begin(0)
    assert not walk.go_on(VISITS)


def test_now_and_then_a_walk_counts_all_spilled_blocks() -> None:
    region = long_tree()
    blocks = region.tree.block_count()
    region.tree.remove_counters(1, 40)
    region.spill(0)
    assert region.walk.spilled_blocks == blocks - 1
    for _ in range(PASSING_WALKS):
        region.spill(0)
    assert region.walk.spilled_blocks == region.tree.block_count() - 1 < blocks - 1


def hot_bytes_of(region: Region) -> int:
    return sum(block.held_bytes() for block in region.tree.blocks()[0])


def test_what_was_read_among_spilled_blocks_is_spilled_by_the_next_walks() -> None:
    region = Region()
    region.add(100)
    region.spill(0)
    region.save()
    for block in region.tree.blocks()[0][:-2:5]:
        block.read = True
    assert not all(region.spill(0)[:-1]) and region.walk.read_on
    assert region.walk.walked_bytes == hot_bytes_of(region)
    assert all(region.spill(0)[:-1])
    assert region.walk.walked_bytes == hot_bytes_of(region) == region.walk.bound.last


def test_what_removals_make_of_spilled_blocks_is_spilled_again() -> None:
    region = long_tree()
    walk, before = region.walk, region.cache.rewritten_bytes
    for counter in range(3, 253, 5):
        region.tree.remove_counters(counter, counter)
    hot = [block for block in region.tree.blocks()[0] if not block.is_spilled()]
    held_bytes = sum(block.held_bytes() for block in hot)
    assert len(hot) == 51
    more_bytes = held_bytes - region.tree.tail.held_bytes()
    assert region.cache.rewritten_bytes - before == pytest.approx(more_bytes, rel=0.01)
    region.spill(0)
    assert walk.walked_bytes == held_bytes and walk.bound.unsaved == held_bytes - walk.bound.last
    region.save()
    region.spill(0)
    assert walk.hot_bytes() == walk.bound.last == hot_bytes_of(region)
    assert walk.spilled_blocks == region.tree.block_count() - 1


def test_hot_blocks_that_are_removed_beside_spilled_ones_are_missed_by_nothing_later() -> None:
    region = long_tree()
    region.add(60)
    region.spill(1 << 40)
    region.tree.remove_counters(200, 500)
    assert region.cache.rewritten_bytes < 0
    region.spill(1 << 40)
    region.add(30)
    region.spill(1 << 40)
    assert region.walk.walked_bytes == hot_bytes_of(region) > 30 * 48_000
    assert region.walk.bound.unsaved == region.walk.walked_bytes - region.walk.bound.last


def test_a_first_block_that_is_trimmed_again_and_again_counts_once() -> None:
    region = long_tree()
    for counter in range(2, 202):
        region.tree.remove_through(counter)
    first = region.tree.blocks()[0][0].held_bytes()
    assert 0 < region.cache.rewritten_bytes < 2 * first
    region.spill(0)
    assert region.walk.bound.trimmed <= first and region.walk.walked_bytes == hot_bytes_of(region)
    # Behind the first block it still passes over the others.
    region.walk.begin(0)
    assert not region.walk.go_on(VISITS)


def test_hot_blocks_that_are_removed_before_a_walk_finds_them_count_once() -> None:
    region = long_tree()
    region.add(60)
    region.spill(1 << 40)
    before_bytes = region.cache.rewritten_bytes
    region.walk.begin(0)
    region.tree.remove_counters(200, 500)
    region.walk.grown_bytes += region.cache.rewritten_bytes - before_bytes
    assert region.walk.grown_bytes < 0 <= region.walk.hot_bytes()
    while region.walk.go_on(1):
        pass
    assert region.walk.hot_bytes() == hot_bytes_of(region)


def test_a_second_removal_from_a_block_beside_spilled_ones_counts_what_rests() -> None:
    region = long_tree()
    region.tree.remove_counters(103, 103)
    region.save()
    before_bytes, rewritten_bytes = hot_bytes_of(region), region.cache.rewritten_bytes
    region.tree.remove_counters(104, 104)
    more_bytes = hot_bytes_of(region) - before_bytes
    assert region.cache.rewritten_bytes - rewritten_bytes == pytest.approx(more_bytes, rel=0.02) and more_bytes > 0
