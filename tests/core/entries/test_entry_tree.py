"""An entry tree against a naive list of entries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crdtstream.core.entries.block import Block, entry_checksum
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.slices import Slice
from crdtstream.core.values.entry_id import ID_MAX, EntryId
from tests.core.trees import ALL, Row, block_of, ranges_of, row, rows_of, small_blocks, tree_of
from tests.effort import examples


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    with small_blocks():
        yield


ms_parts = st.integers(0, 90)
some_ids = st.tuples(ms_parts, st.integers(0, 4)) | st.sampled_from(ALL)
counters = st.integers(0, 200)
sizes = st.sampled_from([1, 1, 1, 60, 500])
steps = st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(1, 3), sizes)


class TreeMachine(RuleBasedStateMachine):
    """An entry tree beside a plain list of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = EntryTree()
        self.rows: list[Row] = []
        self.top: EntryId = (0, 0)
        self.counter = 0
        self.gone: list[Row] = []
        self.held: list[tuple[Slice, bytes]] = []

    def next_row(self, step: tuple[int, int, int, int]) -> Row:
        ms_step, seq_step, counter_step, size = step
        ms, seq = self.top
        self.top = (ms + ms_step, seq_step if ms_step else seq + seq_step)
        self.counter += counter_step
        return row(self.top, self.counter, size)

    @rule(made=st.lists(steps, min_size=1, max_size=8))
    def append(self, made: list[tuple[int, int, int, int]]) -> None:
        for step in made:
            one = self.next_row(step)
            block = self.tree.append(*one)
            assert block.entry(block.count - 1) == one[2]
            self.rows.append(one)

    @rule(before=st.integers(0, 2), made=st.lists(steps, max_size=9), after=st.integers(0, 2))
    def link(self, before: int, made: list[tuple[int, int, int, int]], after: int) -> None:
        rows = [self.next_row(step) for step in made]
        low, high = min(before, len(rows)), max(len(rows) - after, 0)
        block = block_of(rows)
        self.tree.link(block, low, high)
        self.rows.extend(rows[low:high])
        if low < high:
            self.held.append((Slice(block, low, high), block.entry_slice(low, high)))

    @rule(count=st.integers(1, 12))
    def append_plain(self, count: int) -> None:
        self.append([(1, 1, 1, 1)] * count)

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), width=st.integers(0, 20))
    def remove_rows(self, data: st.DataObject, width: int) -> None:
        first = data.draw(st.integers(0, len(self.rows) - 1))
        last = min(first + width, len(self.rows) - 1)
        self.remove_counters(self.rows[first][1], self.rows[last][1])

    @rule(low=counters, high=counters)
    def remove_counters(self, low: int, high: int) -> None:
        gone = [one for one in self.rows if low <= one[1] <= high]
        assert self.tree.remove_counters(low, high) == [one[0] for one in gone]
        self.rows = [one for one in self.rows if not low <= one[1] <= high]
        self.gone.extend(gone)

    @rule(pieces=st.sets(counters, max_size=20), missing=st.integers(1, 4))
    def remove_ranges(self, pieces: set[int], missing: int) -> None:
        """Ranges that rows lie in, and some that hold nothing."""
        edges = sorted({*pieces, *[one[1] for one in self.rows[:: missing + 1]]})
        ranges = [
            (low, low if at % 3 else min(low + missing, high - 1)) for at, (low, high) in enumerate(pairwise(edges))
        ]
        gone = [one for one in self.rows if any(low <= one[1] <= high for low, high in ranges)]
        assert self.tree.counters_of(sorted(one[0] for one in gone)) == [one[1] for one in gone]
        self.tree.remove_ranges([(low, high) for low, high in ranges if low <= high])
        self.rows = [one for one in self.rows if one not in gone]
        self.gone.extend(gone)

    @rule(ids=st.lists(some_ids, max_size=30))
    def ask_for_counters(self, ids: list[EntryId]) -> None:
        known = {one[0]: one[1] for one in self.rows}
        asked = sorted({*ids, *[one[0] for one in self.gone], *known})
        assert self.tree.counters_of(asked) == [known.get(one, 0) for one in asked]

    @rule(counter=counters)
    def remove_through(self, counter: int) -> None:
        kept = [one for one in self.rows if one[1] > counter]
        assert self.tree.remove_through(counter) == len(self.rows) - len(kept)
        self.rows = kept

    @rule(count=st.integers(0, 9))
    def trim_to_length(self, count: int) -> None:
        for low, high in self.tree.first_counters(count):
            assert self.tree.remove_counters(low, high) == [one[0] for one in self.rows[:count]]
        self.gone.extend(self.rows[:count])
        self.rows = self.rows[count:]

    @rule(entry_id=some_ids)
    def trim_below(self, entry_id: EntryId) -> None:
        for low, high in self.tree.counters_below(entry_id):
            gone = self.tree.remove_counters(low, high)
            assert gone == [one[0] for one in self.rows if one[0] < entry_id]
        self.gone.extend(one for one in self.rows if one[0] < entry_id)
        self.rows = [one for one in self.rows if one[0] >= entry_id]

    @precondition(lambda self: self.rows or self.gone)
    @rule(data=st.data(), limit=st.integers(-1, 20))
    def read_between_known(self, data: st.DataObject, limit: int) -> None:
        known = st.sampled_from(sorted(one[0] for one in self.rows + self.gone))
        start, end = data.draw(known), data.draw(known)
        self.read(start, end, limit)
        for low, high in self.tree.counters_below(start):
            below = [one[1] for one in self.rows if one[0] < start]
            assert (low, high) == (below[0], below[-1])

    @rule(start=some_ids, end=some_ids, limit=st.integers(-1, 9))
    def read(self, start: EntryId, end: EntryId, limit: int) -> None:
        wanted = [one for one in self.rows if start <= one[0] <= end]
        assert self.tree.count_in(start, end) == len(wanted)
        first = wanted if limit < 0 else wanted[:limit]
        up = self.tree.slices(start, end, limit, reverse=False)
        assert rows_of(up) == first
        assert b"".join(s.entries() for s in up) == b"".join(one[2] for one in first)
        last = wanted if limit < 0 else wanted[max(len(wanted) - limit, 0) :]
        down = self.tree.slices(start, end, limit, reverse=True)
        assert rows_of(down[::-1]) == last
        assert all(s.count() > 0 for s in up + down)

    @rule(low=counters, high=counters, limit=st.integers(0, 20))
    def read_counters(self, low: int, high: int, limit: int) -> None:
        wanted = [one for one in self.rows if low <= one[1] <= high]
        assert rows_of(self.tree.slices_between(low, high, limit)) == wanted[:limit]
        assert list(self.tree.counters_between(low, high)) == [one[1] for one in wanted]
        assert self.tree.count_through(high) == len([one for one in self.rows if one[1] <= high])

    @rule(entry_id=some_ids, counter=counters)
    def find(self, entry_id: EntryId, counter: int) -> None:
        by_id = {one[0]: one for one in self.rows}
        by_counter = {one[1]: one for one in self.rows}
        for wanted in [entry_id, *by_id, *(one[0] for one in self.gone)]:
            assert self.tree.find(wanted) == (by_id[wanted][2] if wanted in by_id else None)
            assert self.tree.counter_of(wanted) == (by_id[wanted][1] if wanted in by_id else 0)
        for number in [counter, *by_counter, *(one[1] for one in self.gone)]:
            assert self.tree.id_of(number) == (by_counter[number][0] if number in by_counter else None)

    @invariant()
    def agrees(self) -> None:
        self.tree.check()
        assert self.tree.count == len(self.rows)
        assert self.tree.byte_count == sum(len(one[2]) for one in self.rows)
        assert rows_of(self.tree.slices(*ALL, -1, reverse=False)) == self.rows
        assert self.tree.first_id() == (self.rows[0][0] if self.rows else None)
        assert self.tree.last_id() == (self.rows[-1][0] if self.rows else None)
        assert self.tree.counter_ranges() == ranges_of([one[1] for one in self.rows])
        assert self.tree.checksum() == sum(entry_checksum(one[1], one[2]) for one in self.rows) % 2**64

    @invariant()
    def slices_that_others_hold_stay(self) -> None:
        for held, entries in self.held:
            assert held.entries() == entries


TreeMachine.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestTree = TreeMachine.TestCase


def test_counts_in_the_first_half_step_over_a_removed_head() -> None:
    tree = tree_of([row((ms, 1), ms) for ms in range(1, 65)])
    tree.remove_through(3)
    for end in range(1, 65):
        assert tree.count_in((2, 0), (end, 9)) == max(end - 3, 0)
        assert len(rows_of(tree.slices((2, 0), (end, 9), -1, reverse=True))) == max(end - 3, 0)


def test_what_an_append_returned_keeps_its_entries_after_a_removal() -> None:
    tree = tree_of([row((ms, 1), ms) for ms in range(1, 5)])
    block = tree.append(*row((5, 1), 5))
    before = block.entry_slice(2, 5)
    tree.remove_counters(4, 4)
    tree.append(*row((6, 1), 6))
    assert block.entry_slice(2, 5) == before
    assert block.count == 5


@pytest.mark.interpreted
def test_a_large_block_is_adopted_as_it_is() -> None:
    tree = tree_of([row((1, 1), 1)])
    block = block_of([row((ms, 1), ms) for ms in range(2, 6)])
    tree.link(block, 0, 4)
    assert tree.slices((2, 1), ID_MAX, -1, reverse=False)[0].block is block
    assert tree.append(*row((6, 1), 6)) is not block
    assert block.count == 4


def test_trees_that_share_a_block_do_not_disturb_each_other() -> None:
    one, two = EntryTree(), EntryTree()
    for ms in range(1, 5):
        shared = one.append(*row((ms, 1), ms))
    two.link(shared, 0, 4)
    one.append(*row((5, 1), 5))
    two.append(*row((7, 1), 7))
    two.remove_counters(2, 2)
    assert one.counter_ranges() == [(1, 5)]
    assert two.counter_ranges() == [(1, 1), (3, 4), (7, 7)]
    one.check()
    two.check()


@pytest.mark.parametrize("rows", [[row((3, 1), 9)], [row((9, 1), 3)], [row((2, 0), 2), row((9, 1), 9)]])
def test_a_link_must_lie_above(rows: list[Row]) -> None:
    tree = tree_of([row((3, 1), 3)])
    with pytest.raises(ValueError, match="is not above the tree"):
        tree.link(block_of(rows), 0, len(rows))
    tree.check()


def test_an_id_may_come_again_lower_once_all_is_removed() -> None:
    tree = tree_of([row((500, 1), 1)])
    assert tree.remove_through(1) == 1
    tree.append(*row((100, 1), 3))
    tree.check()
    assert tree.last_id() == (100, 1)


@pytest.mark.interpreted
@pytest.mark.parametrize("damage", ["count", "byte_count", "_head", "_low_ids", "_low_counters", "tail"])
def test_check_finds_damage(damage: str) -> None:
    tree = tree_of([row((ms, 1), ms) for ms in range(1, 10)])
    wrong: dict[str, object] = {"_low_ids": [(1, 1)], "_low_counters": [], "tail": Block()}
    setattr(tree, damage, wrong.get(damage, 1))
    with pytest.raises(AssertionError):
        tree.check()
