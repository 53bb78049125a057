"""Chains against a plain list of IDs for each origin, and how few of them starts that follow each other need."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crdtstream.core.values.causality import region_of
from crdtstream.core.values.chain import Chains, Extent
from crdtstream.core.values.entry_id import EntryId
from tests.effort import examples

# A class of this file cannot inherit from a compiled one; tests/core/entries/test_range_reading.py drives compiled
# chains.
pytestmark = pytest.mark.interpreted

ORIGINS = (1, 257, 513, 769, 2, 258)

origins = st.sampled_from(ORIGINS)
entry_ids = st.tuples(st.integers(0, 12), st.integers(1, 2))


class Ids(Extent):
    """An extent that is nothing but its IDs."""

    def __init__(self, ids: set[EntryId]) -> None:
        super().__init__()
        self.ids = ids

    def first_id(self) -> EntryId | None:
        return min(self.ids, default=None)

    def last_id(self) -> EntryId | None:
        return max(self.ids, default=None)


class ChainsMachine(RuleBasedStateMachine):
    """Extents grow upwards, lose some of their IDs, and begin again wherever they like once they are empty."""

    def __init__(self) -> None:
        super().__init__()
        self.chains: Chains[Ids] = Chains()
        self.extents: dict[int, Ids] = {}
        self.before = self.tips()

    def tips(self) -> tuple[int, int, dict[int, EntryId | None]]:
        return (
            self.chains.placed,
            self.chains.cut,
            {extent.origin: extent.last_id() for extent in self.extents.values()},
        )

    @rule(origin=origins, ids=st.sets(entry_ids, min_size=1, max_size=4), above=st.booleans())
    def grow(self, origin: int, ids: set[EntryId], above: bool) -> None:
        """Above its own end, or above all that its region has."""
        extent = self.extents.setdefault(origin, Ids(set()))
        others = [one for one in self.extents if one == origin or (above and region_of(one) == region_of(origin))]
        top = max([entry_id for one in others for entry_id in self.extents[one].ids], default=None)
        extent.ids |= ids if top is None else {(top[0] + ms, top[1] + seq) for ms, seq in ids}
        if not extent.tip:
            self.chains.record_grown(origin, extent)

    @precondition(lambda self: self.extents)
    @rule(data=st.data())
    def shrink(self, data: st.DataObject) -> None:
        origin = data.draw(st.sampled_from(sorted(self.extents)))
        extent = self.extents[origin]
        last = max(extent.ids)
        extent.ids -= data.draw(st.sets(st.sampled_from(sorted(extent.ids)), min_size=1))
        self.chains.record_shrunk(extent, last)
        if not extent.ids:
            del self.extents[origin]

    @rule()
    def rebuild(self) -> None:
        self.chains.rebuild(self.extents)

    @rule(entry_id=st.tuples(st.integers(0, 40), st.integers(0, 6)))
    def ask(self, entry_id: EntryId) -> None:
        held = [origin for origin, extent in self.extents.items() if entry_id in extent.ids]
        found = [extent.origin for extent in self.chains.holding(entry_id)]
        assert set(held) <= set(found) and found == sorted(found)
        for chain in self.chains.all:
            place = chain.reaching(entry_id)
            assert all(max(extent.ids) < entry_id for extent in chain.extents[:place])
            assert all(max(extent.ids) >= entry_id for extent in chain.extents[place:])

    @invariant()
    def agrees(self) -> None:
        self.chains.check(self.extents)

    @invariant()
    def nobody_but_a_tip_grows_unnoticed(self) -> None:
        placed, cut, ends = self.before
        self.before = self.tips()
        if (placed, cut) == self.before[:2]:
            grown = [origin for origin, end in ends.items() if self.before[2][origin] != end]
            assert all(self.extents[origin].tip for origin in grown) and ends.keys() == self.before[2].keys()


ChainsMachine.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)
TestChains = ChainsMachine.TestCase


def started(count: int) -> tuple[Chains[Ids], dict[int, Ids]]:
    """So many starts of one region, whose numbers are in no order."""
    chains: Chains[Ids] = Chains()
    extents = {1 + 256 * (number * 7_919 % 10_007): Ids({(number, 1), (number, 2)}) for number in range(1, count + 1)}
    for origin, extent in extents.items():
        chains.record_grown(origin, extent)
    return chains, extents


def test_starts_that_follow_each_other_are_one_chain() -> None:
    chains, extents = started(100)
    assert len(chains.all) == 1
    assert [extent.origin for extent in chains.holding((50, 2))] == [list(extents)[49]]
    chains.rebuild(extents)
    assert len(chains.all) == 1
    chains.check(extents)


def test_two_processes_of_one_region_are_two_chains_however_often_they_start() -> None:
    chains: Chains[Ids] = Chains()
    extents: dict[int, Ids] = {}
    live = [0, 0]
    for step in range(200):
        side = step % 2
        if step % 10 < 2:
            live[side] = 1 + 256 * (step + 1)
            extents[live[side]] = Ids(set())
        extent = extents[live[side]]
        extent.ids.add((step, side))
        if not extent.tip:
            chains.record_grown(live[side], extent)
        chains.check(extents)
    assert len(extents) == 40 and len(chains.all) <= 4


def test_what_begins_below_something_that_left_gets_another_chain() -> None:
    """Who passed what had been in a chain need not look below its end again."""
    chains, extents = started(1)
    extents[1 + 256 * 7_919].ids = {(1, 1)}
    chains.record_shrunk(extents[1 + 256 * 7_919], (9, 9))
    late = extents[513] = Ids({(5, 5)})
    chains.record_grown(513, late)
    assert [len(chain.extents) for chain in chains.all] == [1, 1]
    chains.check(extents)


@pytest.mark.parametrize("damage", ["twice", "lost", "order", "low", "tip", "region", "empty", "number"])
def test_check_finds_damage(damage: str) -> None:
    chains, extents = started(3)
    chain = chains.all[0]
    chains.check(extents)
    if damage == "twice":
        chain.extents += (chain.extents[0],)
        chain.lows += ((9, 9),)
    elif damage == "lost":
        chain.pop(0)
    elif damage == "order":
        chain.extents[1].ids.add((3, 1))
    elif damage == "low":
        chain.lows = ((2, 2), chain.lows[1])
    elif damage == "tip":
        chain.extents[0].tip = True
    elif damage == "region":
        chain.region = 2
    elif damage == "empty":
        chains.all += (type(chain)(9, 1),)
    else:
        chain.number = 9
    with pytest.raises(AssertionError):
        chains.check(extents)
