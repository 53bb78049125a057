"""The read cursor of a group: a read that begins behind the one before finds what a search finds."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from crdtstream.core.effects import Position
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.positions import set_position
from crdtstream.core.groups.read_cursor import ReadCursor
from crdtstream.core.values.by_origin import ByOrigin
from crdtstream.core.values.chain import Chains
from crdtstream.core.values.origin_intervals import OriginIntervals
from tests.effort import examples

ORIGINS = [1, 257, 2]


class PlaceMachine(RuleBasedStateMachine):
    """One group that is read in small pieces, beside a look at every entry."""

    def __init__(self) -> None:
        super().__init__()
        self.trees = ByOrigin(EntryTree)
        self.chains: Chains[EntryTree] = Chains()
        self.group = Group((1, 1), Position(), -1)
        self.ids: dict[int, list[tuple[int, int]]] = {origin: [] for origin in ORIGINS}
        self.top = 0

    def wanted(self) -> list[tuple[int, int]]:
        return sorted(one for origin, ids in self.ids.items() for one in ids if self.is_wanted(origin, one))

    def is_wanted(self, origin: int, entry_id: tuple[int, int]) -> bool:
        passed = self.group.passed.get(origin)
        return entry_id > self.group.floor.get(origin) and (passed is None or not passed.contains(entry_id))

    @rule(origin=st.sampled_from(ORIGINS[:1] * 4 + ORIGINS), count=st.integers(1, 5))
    def add(self, origin: int, count: int) -> None:
        tree = self.trees.get(origin) or EntryTree()
        self.trees[origin] = tree
        for _ in range(count):
            self.top += 1
            entry_id = (self.top, 0)
            tree.append(entry_id, self.top, encode_entry(entry_id, [b"f", b"v"]))
            self.ids[origin].append(entry_id)
        if not tree.tip:
            self.chains.record_grown(origin, tree)

    @rule(count=st.integers(-1, 3), noack=st.booleans())
    def read(self, count: int, noack: bool) -> None:
        delivery = self.group.next_entries(self.chains, count)
        taken = self.wanted() if count < 0 else self.wanted()[:count]
        assert [run.block.id_at(at) for run in delivery.runs for at in range(run.low, run.high)] == taken
        self.group.apply_delivered(self.trees, b"c", 1, delivery.intervals, noack, delivery.offer)
        assert not {*taken} & {*self.wanted()}

    @rule(count=st.integers(0, 3))
    def look(self, count: int) -> None:
        """A read that is not delivered changes nothing."""
        assert self.group.next_entries(self.chains, count).count == min(count, len(self.wanted()))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        origin = data.draw(st.sampled_from(ORIGINS))
        tree, ids = self.trees.get(origin), self.ids[origin]
        last = None if tree is None else tree.last_id()
        if tree is None or last is None:
            return
        entry_id = data.draw(st.sampled_from(ids))
        tree.remove_counters(entry_id[0], entry_id[0])
        self.chains.record_shrunk(tree, last)
        ids.remove(entry_id)
        if not tree.count:
            del self.trees[origin]

    @rule(data=st.data(), length=st.integers(1, 4))
    def hear_runs(self, data: st.DataObject, length: int) -> None:
        """Another region acknowledged entries that are still wanted here."""
        origin = data.draw(st.sampled_from(ORIGINS))
        if self.ids[origin]:
            low, _ = data.draw(st.sampled_from(self.ids[origin]))
            self.group.apply_runs([(1, 1)], {origin: [((low - 1, 0), (low + length - 1, 0))]}, False)

    @rule(back=st.integers(0, 4))
    def set_position(self, back: int) -> None:
        position = (max(self.top - back, 0), 0)
        set_position(self.group, self.trees, Position(position), -1)

    @invariant()
    def agrees(self) -> None:
        self.group.check()
        self.group.check_cursor(self.chains, self.trees)
        assert self.group.wanted_count(self.chains) == len(self.wanted())


PlaceMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
TestPlace = PlaceMachine.TestCase


def group_of(entries: int) -> tuple[Group, Chains[EntryTree], ByOrigin[EntryTree]]:
    trees, chains = ByOrigin(EntryTree), Chains[EntryTree]()
    trees[1] = EntryTree()
    for number in range(1, entries + 1):
        trees[1].append((number, 0), number, encode_entry((number, 0), [b"f", b"v"]))
    chains.record_grown(1, trees[1])
    return Group((1, 1), Position(), -1), chains, trees


def deliver(group: Group, chains: Chains[EntryTree], trees: ByOrigin[EntryTree], count: int) -> None:
    delivery = group.next_entries(chains, count)
    group.apply_delivered(trees, b"c", 1, delivery.intervals, False, delivery.offer)


def test_the_next_read_begins_behind_the_one_before() -> None:
    group, chains, trees = group_of(5)
    cursor: ReadCursor = group._read_cursor
    assert cursor.behind_end(chains, 1) is None
    deliver(group, chains, trees, 2)
    behind = cursor.behind_end(chains, 2)
    assert behind is not None and behind.intervals == OriginIntervals(1, (2, 0), (4, 0))
    assert cursor.behind_end(chains, 4) is None


def test_an_offer_is_void_after_the_next_one() -> None:
    group, chains, trees = group_of(5)
    older = group.next_entries(chains, 2)
    newer = group.next_entries(chains, 3)
    assert 0 < older.offer < newer.offer
    group.apply_delivered(trees, b"c", 1, older.intervals, False, older.offer)
    assert not group.goes_on(newer) and group._read_cursor.behind_end(chains, 1) is None
    assert group.next_entries(chains, 1).intervals == OriginIntervals(1, (2, 0), (3, 0))


def test_a_delivery_that_was_not_offered_drops_the_end() -> None:
    group, chains, trees = group_of(5)
    deliver(group, chains, trees, 2)
    group.apply_delivered(trees, b"c", 1, OriginIntervals(1, (2, 0), (3, 0)), False)
    assert group._read_cursor.behind_end(chains, 1) is None
    assert group.next_entries(chains, 1).intervals == OriginIntervals(1, (3, 0), (4, 0))
