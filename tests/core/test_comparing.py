"""A state is compared in pieces while the region goes on, and is then joined as if it had been compared at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core import comparing
from crdtstream.core.comparing import StateComparison
from crdtstream.core.entries import block_list, entry_tree
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.entries.spilled import NotAtOnce
from crdtstream.core.joining import LackingEntries, join_tree
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.whole_state import WholeState
from tests.core.spilled_blocks import SlowFile, spill_tree
from tests.core.test_joining_trees import COUNTERS, counters, cuts, removals, remove, row, rows_of, subsets, tree_of
from tests.effort import examples

pytestmark = pytest.mark.interpreted

ORIGIN, KEY = 7, (0, b"x")
# What happens between two pieces: entries leave, and those up to a higher counter come.
changes = st.lists(st.tuples(removals, counters), max_size=8)


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (entry_tree, block_list):
            patch.setattr(module, "BLOCK_ENTRIES", 8)
        patch.setattr(entry_tree, "ADOPT_ENTRIES", 3)
        patch.setattr(block_list, "SPARSE_ENTRIES", 4)
        patch.setattr(comparing, "BLOCKS_A_PIECE", 1)
        patch.setattr(comparing, "STEP_VISITS", 1)
        yield


def stream_of(tree: EntryTree) -> Stream:
    stream = Stream()
    stream.trees[ORIGIN] = tree
    return stream


class Side:
    """A region with one tree, and the state of another that is compared with it."""

    def __init__(self, mine: EntryTree, known: int, theirs: EntryTree, their_known: int) -> None:
        self.mine, self.theirs, self.their_known = mine, theirs, their_known
        self.replica = Replica(1)
        self.replica.keyspace.place(KEY, stream_of(mine))
        self.vector = self.replica.applied.vector
        self.vector.advance(ORIGIN, known)
        self.state = WholeState({KEY: stream_of(theirs)}, VersionVector({ORIGIN: their_known}))
        self.comparison = StateComparison(self.state, self.replica.applied)

    def join(self, is_told: bool) -> None:
        found = self.state.lacking[KEY][ORIGIN] if self.state.lacking else LackingEntries()
        join_tree(self.mine, self.vector.get(ORIGIN), self.theirs, self.their_known, found, is_told)


@settings(max_examples=examples(400), deadline=None)
@given(subsets, counters, counters, removals, removals, cuts, cuts, changes, st.booleans())
def test_what_happens_meanwhile_changes_nothing_that_was_found(
    foreign: set[int],
    known: int,
    their_known: int,
    gone: set[int],
    theirs: set[int],
    my_cuts: list[int],
    their_cuts: list[int],
    changed: list[tuple[set[int], int]],
    is_told: bool,
) -> None:
    added = [counter for counter in range(1, COUNTERS + 1) if counter not in foreign]
    mine = {counter for counter in gone if counter <= known}
    one = remove(tree_of([c for c in added if c <= known], my_cuts), mine)
    two = remove(tree_of([c for c in added if c <= their_known], their_cuts), theirs)
    side = Side(one, known, two, their_known)
    while not side.comparison.done:
        side.comparison.step()
        if changed:
            leaving, reached = changed.pop()
            for counter in [c for c in added if known < c <= reached]:
                one.append(*row(counter))
            known = max(known, reached)
            side.vector.advance(ORIGIN, known)
            leaving = {c for c in leaving if c <= known}
            remove(one, leaving)
            mine |= leaving
    side.join(is_told)
    one.check()
    lost = mine | {c for c in theirs if c <= their_known}
    assert rows_of(one) == [row(c) for c in added if c <= max(known, their_known) and c not in lost]


def spilled(added: list[int], open_blocks: OpenBlockCache, file: SlowFile) -> EntryTree:
    tree = tree_of(added, list(range(1, COUNTERS, 8)))
    assert spill_tree(tree, file, open_blocks) > 3
    return tree


def test_a_join_of_what_was_compared_reads_no_block_of_listed_counters() -> None:
    open_blocks, file = OpenBlockCache(0), SlowFile()
    added = [counter for counter in range(1, COUNTERS + 1) if counter % 3]
    one, two = (spilled(added, open_blocks, file) for _ in range(2))
    side = Side(one, COUNTERS, two, COUNTERS)
    reads = open_blocks.reads
    reads.on = True
    steps = waits = 0
    while not side.comparison.done:
        held: dict[object, bytes] = {}
        for _ in range(3):
            reads.begin(held)  # type: ignore[arg-type]
            try:
                side.comparison.step()
                break
            except NotAtOnce as missing:
                waits += 1
                assert len(missing.handles) <= 4, "a piece is one block, and what the other side has of it"
                held.update((handle, handle.read()) for handle in missing.handles)
            finally:
                reads.end()
        steps += 1
    assert steps > 5 and waits > 3 and reads.waited == 0
    side.join(is_told=False)
    assert reads.waited <= 1, "the last block that both hold"
    assert rows_of(one) == [row(counter) for counter in added]


def test_keys_that_go_away_or_come_meanwhile_are_compared_by_the_join() -> None:
    added = list(range(1, COUNTERS + 1))
    side = Side(tree_of(added, []), COUNTERS, tree_of(added, []), COUNTERS)
    for _ in range(3):
        side.comparison.step()
    del side.replica.keyspace.databases[0][b"x"].trees[ORIGIN]
    side.replica.keyspace.place((0, b"y"), stream_of(tree_of(added, [])))
    while not side.comparison.done:
        side.comparison.step()
    assert set(side.state.lacking) <= {KEY, (0, b"y")}
