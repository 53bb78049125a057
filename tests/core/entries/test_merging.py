"""Merged slices against sorting every entry."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.merging import ChainRange, TreeRange, merge
from crdtstream.core.entries.slices import Slice
from crdtstream.core.values.entry_id import EntryId

Row = tuple[EntryId, int]

entry_ids = st.tuples(st.integers(0, 6), st.integers(0, 3))
trees = st.dictionaries(st.sampled_from([1, 2, 257]), st.tuples(st.sets(entry_ids, max_size=16), st.integers(1, 5)))

chained_origins = st.permutations([1, 2, 3, 4])
trees_of_a_chain = st.lists(st.sets(entry_ids, max_size=8), max_size=4)


def slices_of(ids: set[EntryId], size: int) -> list[Slice]:
    """Blocks of so many entries, of which the first one's first entry and the last one's last are left out."""
    ordered = sorted(ids)
    slices: list[Slice] = []
    for begin in range(0, len(ordered), size):
        block = Block()
        for counter, entry_id in enumerate(ordered[begin : begin + size], begin + 1):
            block.append(entry_id, counter, encode_entry(entry_id, [b"f", b"v"]))
        low = 1 if begin == 0 else 0
        high = block.count - (begin + size >= len(ordered))
        if low < high:
            slices.append(Slice(block, low, high))
    return slices


def rows_of(origin: int, slices: list[Slice]) -> list[Row]:
    return [(entry_id, origin) for part in slices for entry_id in part.ids()]


def chain_range_of(found: list[tuple[int, list[Slice]]], reverse: bool = False) -> ChainRange:
    """A chain of these trees, each below the next."""
    parts = [TreeRange(origin, slices[::-1] if reverse else slices) for origin, slices in found if slices]
    return parts[::-1] if reverse else parts


def check_merge(chain_ranges: list[list[tuple[int, list[Slice]]]], count: int, reverse: bool) -> None:
    trees = [tree for found in chain_ranges for tree in found]
    expected = sorted((row for origin, slices in trees for row in rows_of(origin, slices)), reverse=reverse)
    if count >= 0:
        del expected[count:]
    made = [chain_range_of(found, reverse) for found in chain_ranges]
    merged: list[Row] = []
    for run in merge([chain_range for chain_range in made if chain_range], count, reverse):
        assert run.low < run.high
        rows = [(entry_id, run.origin) for entry_id in run.block.ids(run.low, run.high)]
        merged += reversed(rows) if reverse else rows
    assert merged == expected


@given(trees, st.integers(-1, 20), st.booleans())
def test_merge_is_what_sorting_gives(chosen: dict[int, tuple[set[EntryId], int]], count: int, reverse: bool) -> None:
    check_merge([[(origin, slices_of(ids, size))] for origin, (ids, size) in chosen.items()], count, reverse)


@given(st.lists(st.tuples(chained_origins, trees_of_a_chain), max_size=3), st.integers(-1, 30), st.booleans())
def test_merge_of_chains_orders_equal_ids_by_their_own_origins(
    chains: list[tuple[list[int], list[set[EntryId]]]], count: int, reverse: bool
) -> None:
    """The trees of one chain lie above each other; the origins are in no order."""
    chain_ranges = []
    for number, (origins, trees) in enumerate(chains):
        raised = [{(ms + 7 * at, seq) for ms, seq in ids} for at, ids in enumerate(trees)]
        chain_ranges.append(
            [(origin * 4 + number, slices_of(ids, 3)) for origin, ids in zip(origins, raised, strict=False)]
        )
    check_merge(chain_ranges, count, reverse)


def test_a_run_of_one_tree_is_not_cut() -> None:
    early = slices_of({(1, seq) for seq in range(12)}, 12)
    late = slices_of({(2, seq) for seq in range(12)}, 12)
    assert [(run.origin, run.low, run.high) for run in merge([[TreeRange(2, late)], [TreeRange(1, early)]], -1)] == [
        (1, 1, 11),
        (2, 1, 11),
    ]


def test_source_names_the_slice() -> None:
    found = slices_of({(1, seq) for seq in range(10)}, 3)
    runs = merge([[TreeRange(1, found)]], 5)
    assert [run.source for run in runs] == [0, 1]
    assert [found[run.source].block for run in runs] == [run.block for run in runs]
