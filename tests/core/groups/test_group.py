"""One group on hand-made trees: which runs it sends, what others then skip, what SETID and claims do to a read.

Regions are groups over trees of their own; nothing travels but entries and runs. The rows C8, C9 and C10b that the
names carry are counterexamples to simpler rules: replicating a mere frontier, or acknowledging what was not delivered.
"""

from __future__ import annotations

from crdtstream.core.effects import UNKNOWN_ENTRIES_READ, Position
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.delivery import Delivery, joined
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.positions import set_position
from crdtstream.core.values.by_origin import ByOrigin
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.chain import Chains
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId
from crdtstream.core.values.intervals import Interval

ORIGIN = 1
FIRST: Dot = (1, 100)
SECOND: Dot = (2, 100)
Runs = dict[int, list[Interval]]


def entry_id(number: int) -> EntryId:
    return (number, 0)


def position(number: int) -> Position:
    return Position(ID_MIN, {ORIGIN: entry_id(number)})


class View:
    """A group as one region sees it; the entries of origin 1 are numbered, ID and counter alike."""

    def __init__(self, entries: int = 0, start: int = 0, dot: Dot = FIRST) -> None:
        self.trees = ByOrigin(EntryTree)
        self.trees[ORIGIN] = EntryTree()
        self.chains: Chains[EntryTree] = Chains()
        self.entries = 0
        self.add(entries)
        self.group = Group(dot, position(start), UNKNOWN_ENTRIES_READ)

    def add(self, count: int) -> None:
        for _ in range(count):
            self.entries += 1
            identity = entry_id(self.entries)
            self.trees[ORIGIN].append(identity, self.entries, encode_entry(identity, [b"f", b"v"]))
            if not self.trees[ORIGIN].tip:
                self.chains.record_grown(ORIGIN, self.trees[ORIGIN])

    def read(self, consumer: bytes = b"c", count: int = -1, noack: bool = False) -> list[int]:
        before = set(self.wanted())
        delivery: Delivery = self.group.next_entries(self.chains, count)
        self.group.apply_delivered(self.trees, consumer, 1, delivery.intervals, noack, delivery.offer)
        taken = sorted(before - set(self.wanted()))
        assert len(taken) == delivery.count
        self.check()
        return taken

    def wanted(self) -> list[int]:
        """What a read would give now."""
        found: list[int] = []
        for number in range(1, self.entries + 1):
            passed = self.group.passed.get(ORIGIN)
            identity = entry_id(number)
            if identity <= self.group.floor.get(ORIGIN) or not self.trees[ORIGIN].counter_of(identity):
                continue
            if passed is None or not passed.contains(identity):
                found.append(number)
        assert len(found) == self.group.wanted_count(self.chains)
        return found

    def acknowledge(self, *numbers: int) -> None:
        self.group.apply_dropped(self.group.pending.find([entry_id(number) for number in sorted(numbers)])[0])

    def remove(self, number: int) -> None:
        last = self.trees[ORIGIN].last_id()
        if last is not None and self.trees[ORIGIN].remove_counters(number, number):
            self.chains.record_shrunk(self.trees[ORIGIN], last)
            self.group.unsettle(ORIGIN)

    def set_position(self, to: int) -> None:
        set_position(self.group, self.trees, position(to), UNKNOWN_ENTRIES_READ)
        self.check()

    def send(self) -> tuple[list[Dot], Runs]:
        """The runs as an effect: applied here too."""
        creates, runs = sorted(self.group.creates), self.group.new_runs(self.trees)
        if runs:
            self.group.apply_runs(creates, runs, own=True)
        self.group.reset_cursor()
        assert self.group.new_runs(self.trees) == {}
        self.check()
        return creates, runs

    def hear(self, sent: tuple[list[Dot], Runs]) -> None:
        if sent[1]:
            self.group.apply_runs(*sent, own=False)
        self.check()

    def check(self) -> None:
        self.group.check()
        self.group.check_cursor(self.chains, self.trees)

    def pending(self) -> list[int]:
        return [identity[0] for identity in self.group.pending.ids(ORIGIN, None)]

    def runs(self) -> list[tuple[int, int]]:
        acked = self.group.acked.get(ORIGIN)
        return [] if acked is None else [(low[0], high[0]) for low, high in acked.pairs()]


# Runs


def test_acknowledging_in_order_grows_one_run() -> None:
    view = View(3)
    view.read()
    view.acknowledge(1)
    view.send()
    assert view.runs() == [(0, 1)]
    view.acknowledge(2, 3)
    assert view.send()[1] == {ORIGIN: [(entry_id(1), entry_id(3))]}
    assert view.runs() == [(0, 3)]
    assert view.group.frontier(ORIGIN) == entry_id(3)


def test_no_run_passes_a_pending_entry() -> None:
    view = View(3)
    view.read()
    view.acknowledge(1, 3)
    view.send()
    assert view.runs() == [(0, 1)]
    assert view.group.frontier(ORIGIN) == entry_id(1)


def test_noack_counts_as_acknowledged() -> None:
    view = View(2)
    view.read(noack=True)
    view.send()
    assert view.runs() == [(0, 2)]


def test_nothing_that_was_not_delivered_is_in_a_run() -> None:
    view = View(3)
    view.read(count=1)
    view.acknowledge(1)
    view.send()
    assert view.runs() == [(0, 1)]


def test_a_deleted_entry_does_not_block_and_stays_pending() -> None:
    view = View(3)
    view.read()
    view.remove(1)
    view.acknowledge(2)
    view.send()
    assert view.runs() == [(0, 2)]
    assert view.pending() == [1, 3]


def test_a_run_from_elsewhere_drops_pending_entries() -> None:
    west, east = View(3), View(3)
    for view in (west, east):
        view.read()
    west.acknowledge(1, 2)
    east.hear(west.send())
    assert east.pending() == [3]
    assert east.wanted() == []


def test_c8a_what_setid_skipped_is_left_to_others() -> None:
    west, east = View(2), View(2)
    west.read(count=1)
    west.set_position(2)
    west.acknowledge(1)
    east.hear(west.send())
    assert east.read() == [2]


def test_c8b_what_a_deleted_consumer_lost_is_left_to_others() -> None:
    west, east = View(2), View(2)
    west.read(b"c", count=1)
    west.read(b"d", count=1)
    west.group.apply_consumer_deleted(west.trees, b"c")
    west.acknowledge(2)
    east.hear(west.send())
    assert east.runs() == [(1, 2)]
    assert east.read() == [1]
    assert west.wanted() == []


def test_c8c_what_lies_below_the_own_start_is_left_to_others() -> None:
    west = View(1, start=1)
    west.add(1)
    east = View(2, start=0, dot=SECOND)
    west.read()
    west.acknowledge(2)
    sent = west.send()
    east.group.add_create(FIRST, position(1))
    east.hear(sent)
    assert east.runs() == [(1, 2)]
    assert east.read() == [1]


def test_a_lower_start_exposes_just_what_was_not_delivered() -> None:
    view = View(3, start=2)
    view.read()
    view.group.add_create(SECOND, position(0))
    assert view.read() == [1, 2]


def test_c9_setid_back_replays_whatever_run_arrives() -> None:
    west, east = View(1), View(1, dot=SECOND)
    west.read()
    west.acknowledge(1)
    sent = west.send()
    east.group.add_create(FIRST, position(0))
    east.set_position(0)
    east.hear(sent)
    assert east.wanted() == [1]
    assert east.read() == [1]
    assert east.pending() == [1]


def test_c10b_an_acknowledgement_from_elsewhere_closes_the_gap() -> None:
    west, east = View(2), View(2)
    west.read()
    west.acknowledge(2)
    assert west.send()[1] == {}
    east.read(count=1)
    east.acknowledge(1)
    west.hear(east.send())
    east.hear(west.send())
    assert west.runs() == east.runs() == [(0, 2)]
    assert west.pending() == []
    assert east.wanted() == []


def test_runs_die_with_the_create_that_they_were_made_under() -> None:
    west, east = View(1), View(1, dot=SECOND)
    west.read()
    west.acknowledge(1)
    east.hear(west.send())
    assert east.read() == [1]


# Reading


def test_setid_back_delivers_again_what_was_acknowledged() -> None:
    view = View(3)
    view.read()
    view.acknowledge(1, 2, 3)
    view.send()
    view.set_position(1)
    assert view.group.last_delivered() == entry_id(1)
    assert view.read() == [2, 3]
    view.acknowledge(2, 3)
    assert view.send()[1] == {}


def test_setid_back_over_deleted_entries_moves_the_position() -> None:
    view = View(3)
    view.read()
    view.acknowledge(1, 2, 3)
    view.send()
    view.remove(3)
    view.set_position(1)
    assert view.group.last_delivered() == entry_id(1)
    view.remove(2)
    view.set_position(0)
    assert view.group.last_delivered() == entry_id(0)


def test_setid_names_an_origin_without_entries() -> None:
    view = View(1)
    set_position(view.group, view.trees, Position(ID_MIN, {2: entry_id(9)}), UNKNOWN_ENTRIES_READ)
    assert view.group.position_of(2) == entry_id(9)
    view.group.check()


def test_what_was_forced_is_still_delivered_when_its_owner_goes() -> None:
    view = View(2)
    view.group.apply_claimed(b"d", [(ORIGIN, entry_id(2), 1, 1)])
    view.group.apply_consumer_deleted(view.trees, b"d")
    view.group.check()
    assert view.read() == [1, 2]


def test_what_setid_exposed_is_still_delivered_when_its_owner_goes() -> None:
    view = View(2)
    view.read()
    view.set_position(0)
    view.group.apply_consumer_deleted(view.trees, b"c")
    view.group.check()
    assert view.read() == [1, 2]


def test_an_entry_delivered_again_moves_to_its_reader() -> None:
    view = View(2)
    view.read(b"c")
    view.set_position(1)
    view.read(b"d")
    rows = view.group.pending.rows(ID_MIN, ID_MAX, -1, None)
    assert [(row.entry_id[0], row.consumer, row.deliveries) for row in rows] == [(1, b"c", 1), (2, b"d", 1)]


def test_only_a_delivery_that_must_be_acknowledged_is_activity() -> None:
    view = View(2)
    view.read(b"c", noack=True)
    assert view.group.consumers[b"c"].active_ms == -1
    view.set_position(0)
    view.read(b"c")
    assert view.group.consumers[b"c"].active_ms == 1


def test_several_origins_are_read_in_the_order_of_ids() -> None:
    view = View(2)
    view.trees[2] = EntryTree()
    view.trees[2].append((1, 5), 7, encode_entry((1, 5), [b"f", b"v"]))
    view.chains.record_grown(2, view.trees[2])
    delivery = view.group.next_entries(view.chains, 2)
    assert delivery.intervals.as_dict() == {1: [(ID_MIN, (1, 0))], 2: [(ID_MIN, (1, 5))]}
    assert b"".join(delivery.chunks) == encode_entry((1, 0), [b"f", b"v"]) + encode_entry((1, 5), [b"f", b"v"])


def test_what_alternating_origins_wrote_becomes_pending_as_one_slice_of_each() -> None:
    view = View(3)
    view.trees[2] = EntryTree()
    for ms in (1, 2, 3):
        view.trees[2].append((ms, 5), ms, encode_entry((ms, 5), [b"f", b"v"]))
    view.chains.record_grown(2, view.trees[2])
    delivery = view.group.next_entries(view.chains, 5)
    slices = {origin: [(one.low, one.high) for one in found] for origin, found in joined(delivery.runs).items()}
    assert len(delivery.runs) == 5 and slices == {1: [(0, 3)], 2: [(0, 2)]}
    view.group.apply_delivered(view.trees, b"c", 1, delivery.intervals, False)
    view.group.check()
    assert view.group.pending.ids(1, None) == [(1, 0), (2, 0), (3, 0)]
    assert view.group.pending.ids(2, None) == [(1, 5), (2, 5)]
