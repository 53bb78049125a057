"""Removals that are only noted: whatever looks at the tree next finds what a naive list has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.entries import block_list
from crdtstream.core.entries.entry_tree import EntryTree
from tests.core.trees import ALL, Row, ranges_of, row, rows_of, small_blocks, tree_of

ENTRIES = 60


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    with small_blocks():
        yield


def filled(count: int = ENTRIES) -> tuple[EntryTree, list[Row]]:
    rows = [row((number, 1), number) for number in range(1, count + 1)]
    return tree_of(rows), rows


def remove(tree: EntryTree, rows: list[Row], counters: list[int]) -> list[Row]:
    tree.remove_ranges(ranges_of(sorted({*counters})))
    tree.check()
    return [one for one in rows if one[1] not in counters]


def looks_up(tree: EntryTree, rows: list[Row], place: int) -> None:
    assert rows_of(tree.slices((place, 0), ALL[1], 9, reverse=False)) == [one for one in rows if one[1] >= place][:9]


def looks_down(tree: EntryTree, rows: list[Row], place: int) -> None:
    found = tree.slices(ALL[0], (place, 1), 9, reverse=True)
    assert rows_of(found[::-1]) == [one for one in rows if one[1] <= place][-9:]


def counts(tree: EntryTree, rows: list[Row], place: int) -> None:
    assert tree.count_in((place, 0), (place + 20, 0)) == len([one for one in rows if place <= one[1] < place + 20])
    assert tree.count_through(place) == len([one for one in rows if one[1] <= place])


def counts_first(tree: EntryTree, rows: list[Row], place: int) -> None:
    wanted = rows[:place]
    assert tree.first_counters(place) == ([(wanted[0][1], wanted[-1][1])] if wanted else [])


def counts_below(tree: EntryTree, rows: list[Row], place: int) -> None:
    wanted = [one for one in rows if one[1] < place]
    assert tree.counters_below((place, 1)) == ([(wanted[0][1], wanted[-1][1])] if wanted else [])


def finds_above(tree: EntryTree, rows: list[Row], place: int) -> None:
    assert tree.first_above(place) == next((one[0] for one in rows if one[1] > place), None)


def finds_between(tree: EntryTree, rows: list[Row], place: int) -> None:
    wanted = [one for one in rows if place <= one[1] <= place + 20]
    assert rows_of(tree.slices_between(place, place + 20, 9)) == wanted[:9]
    assert list(tree.counters_between(place, place + 20)) == [one[1] for one in wanted]


def removes(tree: EntryTree, rows: list[Row], place: int) -> None:
    gone = [one for one in rows if place <= one[1] <= place + 10]
    assert tree.remove_counters(place, place + 10) == [one[0] for one in gone]
    rows[:] = [one for one in rows if one not in gone]


def trims(tree: EntryTree, rows: list[Row], place: int) -> None:
    kept = [one for one in rows if one[1] > place]
    assert tree.remove_through(place) == len(rows) - len(kept)
    rows[:] = kept


def hands_out_blocks(tree: EntryTree, rows: list[Row], place: int) -> None:
    blocks, head, _ = tree.blocks()
    twin = EntryTree.of_blocks(blocks, head)
    twin.check()
    looks_up(twin, rows, place)


def finds_each(tree: EntryTree, rows: list[Row], place: int) -> None:
    live = {one[1]: one for one in rows}
    for counter in range(1, ENTRIES + 1):
        known = live.get(counter)
        assert tree.find((counter, 1)) == (known[2] if known else None)
        assert tree.id_of(counter) == (known[0] if known else None)
    asked = list(range(place, ENTRIES))
    assert tree.counters_of([(one, 1) for one in asked]) == [one if one in live else 0 for one in asked]


LOOKS = [
    looks_up,
    looks_down,
    counts,
    counts_first,
    counts_below,
    finds_above,
    finds_between,
    removes,
    trims,
    hands_out_blocks,
    finds_each,
]


@pytest.mark.parametrize("look", LOOKS)
@given(
    commands=st.lists(st.lists(st.integers(1, ENTRIES), min_size=1, max_size=5), max_size=20),
    places=st.lists(st.integers(1, ENTRIES), min_size=1, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_a_look_finds_what_is_left(
    look: Callable[[EntryTree, list[Row], int], None], commands: list[list[int]], places: list[int]
) -> None:
    tree, rows = filled()
    for place in places:
        for counters in commands:
            rows = remove(tree, rows, counters)
        look(tree, rows, place)
        tree.check()
        commands = [[counter + 1 for counter in counters] for counters in commands]
    assert rows_of(tree.slices(*ALL, -1, reverse=False)) == rows
    assert tree.count == len(rows)
    assert tree.byte_count == sum(len(one[2]) for one in rows)


@pytest.mark.interpreted
def test_a_few_removals_copy_nothing_until_a_look() -> None:
    tree, rows = filled()
    before = [part.block for part in tree.slices(*ALL, -1, reverse=False)]
    remove(tree, rows, [3, 20, 40])
    assert tree.check_deleted()[0] == 3
    after = [part.block for part in tree.slices(*ALL, -1, reverse=False)]
    assert len([block for block in after if block not in before]) == 3
    assert tree.check_deleted() == (0, 0)


@pytest.mark.interpreted
def test_many_removals_are_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, rows = filled()
    remove(tree, rows, list(range(17, 25, 2)))
    assert tree.check_deleted()[0] == 0
    monkeypatch.setattr(block_list, "BLOCKS_WITH_DELETED_ROWS", 2)
    for counter in (10, 26, 34, 42):
        tree.remove_ranges([(counter, counter)])
    assert tree.check_deleted()[0] == 2


@pytest.mark.interpreted
def test_the_head_passes_deleted_rows() -> None:
    tree, rows = filled()
    rows = remove(tree, rows, [2])
    assert tree.check_deleted()[0] == 1
    rows = remove(tree, rows, [1])
    assert tree.check_deleted()[0] == 0
    assert tree.first_id() == (3, 1)
    assert rows_of(tree.slices(*ALL, -1, reverse=False)) == rows
