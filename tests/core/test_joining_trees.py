"""Joins of entry trees that cross many blocks, against a naive model of sets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core import joining
from crdtstream.core.entries import block_list, entry_tree
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.joining import join_tree, lacking
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId
from tests.effort import examples

Row = tuple[EntryId, int, bytes]


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    """Small limits, so that short examples cross many blocks."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (entry_tree, block_list):
            patch.setattr(module, "BLOCK_ENTRIES", 8)
        patch.setattr(entry_tree, "ADOPT_ENTRIES", 3)
        patch.setattr(block_list, "SPARSE_ENTRIES", 4)
        yield


def row(counter: int) -> Row:
    entry_id = (counter, 1)
    return (entry_id, counter, encode_entry(entry_id, [b"f", b"%d" % counter]))


def tree_of(counters: list[int], cuts: list[int]) -> EntryTree:
    """A tree that took these entries in slices, each of which ends below a cut."""
    tree, block = EntryTree(), Block()
    for counter in counters:
        if block.count and any(block.counter_at(block.count - 1) < cut <= counter for cut in cuts):
            tree.link(block, 0, block.count)
            block = Block()
        block.append(*row(counter))
    tree.link(block, 0, block.count)
    return tree


def rows_of(tree: EntryTree) -> list[Row]:
    slices = tree.slices(ID_MIN, ID_MAX, -1, False)
    return [(s.block.id_at(i), s.block.counter_at(i), s.block.entry(i)) for s in slices for i in range(s.low, s.high)]


def remove(tree: EntryTree, counters: set[int]) -> EntryTree:
    for counter in sorted(counters):
        tree.remove_counters(counter, counter)
    return tree


COUNTERS = 60
counters = st.integers(1, COUNTERS)
subsets = st.sets(counters)
ranges = st.tuples(counters, counters).map(lambda pair: set(range(min(pair), max(pair) + 1)))
removals = st.lists(subsets | ranges, max_size=3).map(lambda parts: {counter for part in parts for counter in part})
cuts = st.lists(counters, max_size=12)


@settings(max_examples=examples(400), deadline=None)
@given(subsets, counters, counters, removals, removals, cuts, cuts)
def test_a_join_is_what_both_sides_leave(
    foreign: set[int],
    known: int,
    their_known: int,
    mine: set[int],
    theirs: set[int],
    my_cuts: list[int],
    their_cuts: list[int],
) -> None:
    """Counters in `foreign` belong to other keys; each side removed some of those that it knows."""
    added = [counter for counter in range(1, COUNTERS + 1) if counter not in foreign]
    one = remove(tree_of([c for c in added if c <= known], my_cuts), mine)
    two = remove(tree_of([c for c in added if c <= their_known], their_cuts), theirs)
    before = rows_of(two)
    join_tree(one, known, two, their_known)
    one.check()
    gone = {c for c in mine if c <= known} | {c for c in theirs if c <= their_known}
    assert rows_of(one) == [row(c) for c in added if c <= max(known, their_known) and c not in gone]
    assert rows_of(two) == before


@settings(max_examples=examples(400), deadline=None)
@given(subsets, counters, removals, removals, cuts, cuts)
def test_what_the_other_side_lacks_is_named_in_few_ranges(
    foreign: set[int], through: int, mine: set[int], theirs: set[int], my_cuts: list[int], their_cuts: list[int]
) -> None:
    added = [counter for counter in range(1, COUNTERS + 1) if counter not in foreign]
    one, two = remove(tree_of(added, my_cuts), mine), remove(tree_of(added, their_cuts), theirs)
    held = [(counter, counter in theirs and counter <= through) for counter in added if counter not in mine]
    named = lacking(one, two, through)
    assert [c for c, _ in held if any(low <= c <= high for low, high in named)] == [c for c, gone in held if gone]
    runs = sum(1 for at, (_, gone) in enumerate(held) if gone and not (at and held[at - 1][1]))
    assert len(named) == runs


def test_trees_that_agree_are_not_visited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the blocks; and what is linked is the other side's block itself."""
    one = tree_of(list(range(1, 400)), [90, 200])
    two = tree_of(list(range(1, 600)), [50, 300, 400, 500])
    mine, theirs = one.blocks()[0], two.blocks()[0]
    monkeypatch.setattr(joining, "add_absent", None)
    join_tree(one, 399, two, 599)
    blocks = one.blocks()[0]
    assert all(block is kept for block, kept in zip(mine, blocks, strict=False))
    assert [block for block in blocks if any(block is other for other in theirs)] == theirs[-2:]


def test_a_block_that_was_linked_does_not_grow_under_its_new_tree() -> None:
    one, two = EntryTree(), tree_of([1, 2, 3, 4], [])
    join_tree(one, 0, two, 4)
    two.append(*row(5))
    one.check()
    assert rows_of(one) == [row(c) for c in (1, 2, 3, 4)]


def test_a_state_that_contradicts_its_vector_is_refused() -> None:
    one = tree_of([5], [])
    one_more = EntryTree()
    one_more.append((1, 1), 6, encode_entry((1, 1), [b"f", b"v"]))
    with pytest.raises(ValueError, match="is not above the tree"):
        join_tree(one, 5, one_more, 4)
