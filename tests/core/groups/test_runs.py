"""What a group that acknowledges exactly tells: all that was acknowledged, nothing that was not, in few runs."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from crdtstream.core.effects import UNKNOWN_ENTRIES_READ
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import ACKNOWLEDGE, CONTIGUOUS, EXACT
from crdtstream.core.values.origin_intervals import OriginIntervals
from tests.core.groups.test_group import FIRST, ORIGIN, Runs, View, position
from tests.effort import examples


def exact(entries: int) -> View:
    view = View(entries)
    choose(view, EXACT, 1)
    return view


def choose(view: View, value: bytes, number: int) -> None:
    view.group.apply_properties([FIRST], {ACKNOWLEDGE: (number, 1, value)})


def told(view: View) -> list[int]:
    """The numbers inside known runs."""
    acked = view.group.acked.get(ORIGIN)
    return [number for number in range(1, view.entries + 1) if acked is not None and acked.contains((number, 0))]


def runs_of(view: View) -> int:
    return len(view.group.acked[ORIGIN]) if ORIGIN in view.group.acked else 0


def test_what_lies_above_a_pending_entry_is_told_at_once() -> None:
    view = exact(5)
    view.read()
    view.acknowledge(2, 3, 5)
    view.send()
    assert told(view) == [2, 3, 5] and runs_of(view) == 2
    view.acknowledge(4)
    view.send()
    assert told(view) == [2, 3, 4, 5] and runs_of(view) == 1, "neighbours merge"
    view.acknowledge(1)
    view.send()
    assert runs_of(view) == 1


def test_runs_merge_over_entries_that_were_removed() -> None:
    view = exact(5)
    view.read()
    view.acknowledge(2)
    view.send()
    view.remove(3)
    view.acknowledge(4)
    view.send()
    assert runs_of(view) == 1


def test_what_was_read_without_acknowledgement_is_told_too() -> None:
    view = exact(4)
    view.read(count=2)
    view.read(noack=True)
    view.send()
    assert told(view) == [3, 4]


def test_above_the_limit_intervals_wait_until_gaps_close() -> None:
    view = exact(9)
    view.read()
    view.group.apply_dropped(view.group.pending.find([(2, 0)])[0])
    creates, runs = sorted(view.group.creates), view.group.new_runs(view.trees, 1)
    view.group.apply_runs(creates, runs, own=True)
    view.group.apply_dropped(view.group.pending.find([(4, 0), (6, 0)])[0])
    assert view.group.new_runs(view.trees, 1) == {}
    view.acknowledge(1, 3)
    runs = view.group.new_runs(view.trees, 1)
    view.group.apply_runs(creates, runs, own=True)
    assert told(view) == [1, 2, 3, 4]


def send_at_most(view: View, intervals_max: int) -> Runs:
    """What a region tells with this limit."""
    runs = view.group.new_runs(view.trees, intervals_max)
    view.group.apply_runs(sorted(view.group.creates), runs, own=True)
    return runs


def test_what_waited_is_told_once_gaps_close() -> None:
    view = exact(9)
    view.read()
    for number in (2, 4, 6, 8):
        view.acknowledge(number)
        send_at_most(view, 2)
    assert told(view) == [2, 4]
    view.acknowledge(1, 3)
    send_at_most(view, 2)
    assert told(view) == [1, 2, 3, 4, 6, 8]


def test_nothing_is_told_of_what_was_removed() -> None:
    """A replay collects what all turns of the log acknowledged, or dropped with an entry before it was passed."""
    view = exact(4)
    view.remove(3)
    view.group.apply_dropped(OriginIntervals.of({ORIGIN: [((2, 0), (3, 0))]}))
    view.read()
    assert send_at_most(view, 9) == {}
    choose(view, CONTIGUOUS, 2)
    choose(view, EXACT, 3)
    assert send_at_most(view, 9) == {}


def test_a_group_that_becomes_exact_tells_what_it_had_kept() -> None:
    view = View(4)
    view.read()
    view.acknowledge(2, 3)
    view.send()
    assert told(view) == []
    choose(view, EXACT, 1)
    view.send()
    assert told(view) == [2, 3]
    choose(view, CONTIGUOUS, 2)
    view.acknowledge(4)
    view.send()
    assert told(view) == [2, 3]


def test_other_regions_drop_what_they_hold() -> None:
    east, west = exact(3), exact(3)
    east.read()
    west.read()
    east.acknowledge(3)
    west.hear(east.send())
    assert west.pending() == [1, 2]


class Exact(RuleBasedStateMachine):
    """Beside a plain model: the numbers that were acknowledged here, and those that live."""

    def __init__(self) -> None:
        super().__init__()
        self.view = exact(0)
        self.acknowledged: set[int] = set()
        self.removed: set[int] = set()
        self.heard: Runs = {}
        self.other = Group(FIRST, position(0), UNKNOWN_ENTRIES_READ)

    @rule(count=st.integers(1, 4))
    def add(self, count: int) -> None:
        self.view.add(count)

    @rule(count=st.integers(1, 4), noack=st.booleans())
    def read(self, count: int, noack: bool) -> None:
        taken = self.view.read(count=count, noack=noack)
        if noack:
            self.acknowledged.update(taken)

    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        pending = self.view.pending()
        if pending:
            chosen = data.draw(st.lists(st.sampled_from(pending), min_size=1, unique=True))
            self.view.acknowledge(*chosen)
            self.acknowledged.update(chosen)

    @rule(number=st.integers(1, 20))
    def remove(self, number: int) -> None:
        if number <= self.view.entries:
            self.view.remove(number)
            self.removed.add(number)

    @rule()
    def send(self) -> None:
        creates, runs = self.view.send()
        if runs:
            self.other.apply_runs(creates, runs, own=False)

    @invariant()
    def tells_what_was_acknowledged(self) -> None:
        self.send()
        living = set(range(1, self.view.entries + 1)) - self.removed
        assert set(told(self.view)) & living == self.acknowledged & living
        assert self.other.acked == self.view.group.acked


TestExact = Exact.TestCase
TestExact.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
