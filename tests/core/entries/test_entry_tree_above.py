"""`first_above` against a plain list, over trees of several blocks with removals."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.entries.block import BLOCK_ENTRIES
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.entry_tree import EntryTree

COUNT = 3 * BLOCK_ENTRIES


def counter_of(ms: int) -> int:
    """Every third counter is another key's."""
    return ms + ms // 2


RANGES = st.tuples(st.integers(0, 2 * COUNT), st.integers(0, COUNT))


@settings(max_examples=60, deadline=None)
@given(st.lists(RANGES, max_size=4), st.lists(st.integers(0, 2 * COUNT), min_size=1, max_size=8))
def test_first_above(removals: list[tuple[int, int]], counters: list[int]) -> None:
    tree = EntryTree()
    for ms in range(1, COUNT + 1):
        tree.append((ms, 0), counter_of(ms), encode_entry((ms, 0), [b"f", b"v"]))
    assert tree.block_count() == COUNT // BLOCK_ENTRIES
    live = list(range(1, COUNT + 1))
    for low, size in removals:
        tree.remove_counters(low, low + size)
        live = [ms for ms in live if not low <= counter_of(ms) <= low + size]
    for counter in [0, *counters]:
        above = [(ms, 0) for ms in live if counter_of(ms) > counter]
        assert tree.first_above(counter) == (above[0] if above else None)


def test_nothing_lies_above_in_an_empty_tree() -> None:
    assert EntryTree().first_above(0) is None
    assert EntryTree().block_count() == 0
