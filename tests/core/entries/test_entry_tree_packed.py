"""An entry tree whose blocks are packed at any time, against the same list of entries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.packed_block import OpenBlockCache
from tests.core.entries.test_entry_tree import TreeMachine
from tests.core.trees import ALL, block_of, row, rows_of, small_blocks, tree_of
from tests.effort import examples


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    with small_blocks():
        yield


class PackedTreeMachine(TreeMachine):
    """Some blocks are packed when anything is asked or changed."""

    @initialize(open_bytes_max=st.sampled_from([0, 700, 2_000, 1 << 20]))
    def begin(self, open_bytes_max: int) -> None:
        self.open_blocks = OpenBlockCache(open_bytes_max)

    @rule(wanted=st.integers(0, 2**16 - 1), with_tail=st.booleans())
    def pack(self, wanted: int, with_tail: bool) -> None:
        """Pack some of the sealed blocks; a tail may be sealed and packed too, as after a removal at the end."""
        blocks, _, _ = self.tree.blocks()
        if with_tail and blocks:
            blocks[-1].seal()
        for at, block in enumerate(blocks):
            if block.sealed and block.packed_form is None and wanted >> at % 16 & 1:
                block.read = False
                block.pack(self.open_blocks)

    @rule(at=st.integers(0, 6), count=st.integers(2, 6))
    def gather(self, at: int, count: int) -> None:
        blocks = self.tree.resting(at, count)
        if blocks:
            full = self.tree.gather(at, len(blocks))
            assert full is self.tree.blocks()[0][at] and full.sealed and not full.read

    @rule()
    def age(self) -> None:
        self.open_blocks.age()
        self.open_blocks.age()

    @invariant()
    def keeps_to_the_limit(self) -> None:
        if hasattr(self, "open_blocks"):
            self.open_blocks.check()


PackedTreeMachine.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestPackedTree = PackedTreeMachine.TestCase


@pytest.mark.interpreted
def test_a_range_over_whole_blocks_opens_none_before_it_is_read() -> None:
    tree = tree_of([row((ms, 1), ms) for ms in range(1, 65)])
    open_blocks = OpenBlockCache(0)
    for block in tree.resting(0, 100):
        block.read = False
        block.pack(open_blocks)
    count = tree.block_count()
    assert len(tree.slices((1, 0), (99, 0), -1, reverse=False)) == count
    assert len(tree.slices((1, 0), (99, 0), -1, reverse=True)) == count
    assert tree.count_in((1, 0), (99, 0)) == 64
    assert tree.first_counters(16) == [(1, 16)]
    assert open_blocks.opened == 0


@pytest.mark.interpreted
def test_whole_blocks_are_trimmed_without_opening_them() -> None:
    tree = tree_of([row((ms, 1), ms) for ms in range(1, 65)])
    open_blocks = OpenBlockCache(0)
    for block in tree.resting(0, 100):
        block.read = False
        block.pack(open_blocks)
    assert tree.remove_through(16) == 16
    assert open_blocks.opened == 0
    tree.check()


@pytest.mark.interpreted
def test_small_blocks_are_gathered_into_full_ones() -> None:
    rows = [row((ms, 1), 2 * ms) for ms in range(1, 21)]
    tree = EntryTree()
    for low in range(0, 20, 3):
        block = block_of(rows[low : low + 3])
        tree.link(block, 0, block.count)
    assert [block.count for block in tree.blocks()[0]] == [3, 3, 3, 3, 3, 3, 2]
    tree.remove_through(2)
    assert tree.gather(0, 6).ids(0, 8) == [(ms, 1) for ms in range(2, 10)]
    assert [block.count for block in tree.blocks()[0]] == [8, 3, 3, 3, 2]
    tree.gather(1, 3)
    assert [block.count for block in tree.blocks()[0]] == [8, 8, 1, 2]
    tree.check()
    assert rows_of(tree.slices(*ALL, -1, reverse=False)) == rows[1:]
