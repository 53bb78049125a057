"""What removals leave of blocks; test_entry_tree.py compares trees with a naive list while entries come and go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.trees import ALL, ranges_of, row, small_blocks, tree_of


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    with small_blocks():
        yield


@given(st.lists(st.integers(1, 60), unique=True, max_size=60))
@settings(max_examples=50, deadline=None)
def test_removing_one_by_one_leaves_no_crumbs(order: list[int]) -> None:
    tree = tree_of([row((ms, 1), ms) for ms in range(1, 61)])
    for counter in order:
        assert tree.remove_counters(counter, counter) == [(counter, 1)]
        assert tree.remove_counters(counter, counter) == []
    tree.check()
    assert tree.counter_ranges() == ranges_of([c for c in range(1, 61) if c not in order])


def test_sparse_blocks_join() -> None:
    tree = tree_of([row((ms, 1), ms) for ms in range(1, 65)])
    for counter in range(1, 65):
        if counter % 8 != 5:
            tree.remove_counters(counter, counter)
    tree.check()
    assert tree.count == 8
    assert len(tree.slices(*ALL, -1, reverse=False)) <= 3


def test_a_sparse_block_joins_the_live_part_of_the_first() -> None:
    tree = tree_of([row((ms, 1), ms) for ms in range(1, 17)])
    tree.remove_counters(2, 5)
    tree.remove_through(1)
    tree.remove_counters(10, 16)
    tree.check()
    assert tree.counter_ranges() == [(6, 9)]
    assert len(tree.slices(*ALL, -1, reverse=False)) == 1


def test_removing_what_is_gone_from_the_head_again() -> None:
    tree = tree_of([row((ms, 1), ms) for ms in range(1, 17)])
    tree.remove_through(5)
    for counter in range(6):
        assert tree.remove_through(counter) == 0
        assert tree.remove_counters(0, counter) == []
    tree.check()
    assert tree.counter_ranges() == [(6, 16)]


def test_trimming_the_head_copies_nothing() -> None:
    tree = tree_of([row((ms, 1), ms) for ms in range(1, 31)])
    before = {id(s.block) for s in tree.slices(*ALL, -1, reverse=False)}
    assert tree.remove_through(7) == 7
    assert tree.remove_counters(8, 9) == [(8, 1), (9, 1)]
    assert {id(s.block) for s in tree.slices(*ALL, -1, reverse=False)} <= before
    assert tree.first_counters(2) == [(10, 11)]
