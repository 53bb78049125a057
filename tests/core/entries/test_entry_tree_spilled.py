"""An entry tree of which blocks are spilled at any time, against the same list of entries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from crdtstream.core.entries.block import demand_blocks
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.entries.spilled import BlockHandle, NotAtOnce
from tests.core.entries.test_entry_tree import TreeMachine
from tests.core.spilled_blocks import SlowFile, spill_tree
from tests.core.trees import ALL, row, rows_of, small_blocks, tree_of
from tests.effort import examples

# Blocks are small.
pytestmark = pytest.mark.interpreted


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    with small_blocks():
        yield


class SpilledTreeMachine(TreeMachine):
    """All blocks that can be spilled are, now and then."""

    @initialize(open_bytes_max=st.sampled_from([0, 700, 1 << 20]))
    def begin(self, open_bytes_max: int) -> None:
        self.open_blocks = OpenBlockCache(open_bytes_max)
        self.file = SlowFile()

    @rule()
    def spill(self) -> None:
        spill_tree(self.tree, self.file, self.open_blocks)


SpilledTreeMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestSpilledTree = SpilledTreeMachine.TestCase


def spilled(entries: int) -> tuple[EntryTree, OpenBlockCache]:
    tree, open_blocks = tree_of([row((number, 1), number, 40) for number in range(1, entries + 1)]), OpenBlockCache(0)
    assert spill_tree(tree, SlowFile(), open_blocks) > 1
    return tree, open_blocks


def remove(tree: EntryTree, open_blocks: OpenBlockCache, ranges: list[tuple[int, int]]) -> int:
    """Remove these with what is demanded for it; returns how many blocks had to be read."""
    held: dict[BlockHandle, bytes] = {}
    reads = open_blocks.reads
    reads.begin(held)
    try:
        demand_blocks(tree.spilled_at_ends(ranges))
    except NotAtOnce as missing:
        held |= {handle: handle.read() for handle in missing.handles}
    reads.may_wait = False
    tree.remove_ranges(ranges)
    assert (tree.last_id() is None) == (tree.first_id() is None)
    reads.end()
    return len(held)


@given(st.integers(20, 60), st.sets(st.integers(1, 60), max_size=50), st.booleans())
def test_what_is_demanded_for_a_removal_is_all_that_it_opens(entries: int, removed: set[int], joined: bool) -> None:
    tree, open_blocks = spilled(entries)
    ranges = [(counter, counter) for counter in sorted(removed)]
    if joined and removed:
        ranges = [(min(removed), max(removed))]
        removed = set(range(min(removed), max(removed) + 1))
    remove(tree, open_blocks, ranges)
    assert open_blocks.reads.waited == 0
    tree.check()
    left = [(number, 1) for number in range(1, entries + 1) if number not in removed]
    assert [one[0] for one in rows_of(tree.slices(*ALL, -1, False))] == left


# Blocks have six entries.
@given(st.integers(20, 60), st.sets(st.integers(1, 90), max_size=12), st.sampled_from([4, 6, 12]), st.integers(1, 4))
@example(entries=60, removed={7, 8}, every=6, gap=3)
def test_counters_of_other_streams_between_those_of_a_tree(
    entries: int, removed: set[int], every: int, gap: int
) -> None:
    """Ranges begin and end between the counters of this tree: a block that loses nothing is not opened."""
    counters = [number + gap * ((number - 1) // every) for number in range(1, entries + 1)]
    tree, open_blocks = tree_of([row((one, 1), one, 40) for one in counters]), OpenBlockCache(0)
    assert spill_tree(tree, SlowFile(), open_blocks) > 1
    remove(tree, open_blocks, [(one, one) for one in sorted(removed)])
    assert open_blocks.reads.waited == 0
    tree.check()
    assert [one[0] for one in rows_of(tree.slices(*ALL, -1, False))] == [(n, 1) for n in counters if n not in removed]


@given(st.integers(20, 60), st.integers(1, 60))
def test_a_removal_of_the_oldest_opens_one_block(entries: int, through: int) -> None:
    tree, open_blocks = spilled(entries)
    assert remove(tree, open_blocks, [(1, through)]) <= 2
    assert open_blocks.reads.waited == 0
    tree.check()


@pytest.mark.parametrize("blocks", [2, 3])
def test_a_block_that_is_the_last_one_for_a_moment_is_demanded(blocks: int) -> None:
    """Blocks are removed one after the other, from the end, unless one range has them."""
    tree, open_blocks = spilled(60)
    lows = [block.counter_at(0) for block in tree.blocks()[0][-blocks:]]
    remove(tree, open_blocks, list(zip(lows, [*[low - 1 for low in lows[1:]], 60], strict=True)))
    assert open_blocks.reads.waited == 0 and tree.last_counter() == lows[0] - 1
    tree.check()


def test_the_last_block_that_is_left_is_in_memory() -> None:
    tree, open_blocks = spilled(60)
    last = tree.tail.counter_at(0)
    assert remove(tree, open_blocks, [(counter, counter) for counter in range(last, 61)]) == 1
    waited = open_blocks.reads.waited
    assert tree.last_id() == (last - 1, 1) and tree.last_counter() == last - 1
    assert open_blocks.reads.waited == waited == 0
    tree.check()
