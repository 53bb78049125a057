"""What a stream of many origins answers, against all entries sorted by (ID, origin): ranges, trims, what is new.

Origins of one region mostly follow each other, as starts of one process do; some live at once, and IDs repeat. A group
reads and acknowledges meanwhile, is set back, and loses consumers.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crdtstream.core.effects import Position
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.range_reading import count_through
from crdtstream.core.entries.seen import SeenEntries
from crdtstream.core.groups.positions import set_position
from crdtstream.core.streams.stream import Stream
from crdtstream.core.streams.trimming import trimmable
from crdtstream.core.values.causality import VersionVector, region_of
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId
from tests.effort import examples

ORIGINS = (1, 513, 257, 769, 2, 258)
NAME = b"g"

origins = st.sampled_from(ORIGINS)
bounds = st.tuples(st.integers(0, 30), st.integers(0, 3)) | st.sampled_from([ID_MIN, ID_MAX])


@dataclass(frozen=True, order=True)
class Row:
    entry_id: EntryId
    origin: int
    counter: int
    entry: bytes


class StreamMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stream = Stream()
        self.rows: list[Row] = []
        self.counters = dict.fromkeys(ORIGINS, 0)
        self.lasts = dict.fromkeys(ORIGINS, ID_MIN)
        self.vector = VersionVector()
        self.seen: list[tuple[SeenEntries, dict[int, int]]] = []
        self.delivered: set[tuple[int, EntryId]] = set()
        self.acknowledged: set[tuple[int, EntryId]] = set()
        self.create_group()

    # Changes

    def next_counter(self, origin: int) -> int:
        self.counters[origin] += 1
        self.vector.advance(origin, self.counters[origin])
        return self.counters[origin]

    def create_group(self) -> None:
        dot = (2, self.next_counter(2))
        self.stream.apply_group_created(dot, self.vector, NAME, Position(), -1)
        self.delivered.clear()
        self.acknowledged.clear()

    @rule(origin=origins, above=st.booleans(), steps=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def add(self, origin: int, above: bool, steps: list[int]) -> None:
        """Above the origin's own last entry, or above all that its region had."""
        peers = [one for one in ORIGINS if region_of(one) == region_of(origin)] if above else [origin]
        ms = max(self.lasts[one] for one in peers)[0]
        block = Block()
        first = self.counters[origin] + 1
        for step in steps:
            ms += step
            row = Row((ms, 1), origin, self.next_counter(origin), encode_entry((ms, 1), [b"f", b"%d" % origin]))
            block.append(row.entry_id, row.counter, row.entry)
            self.rows.append(row)
        self.lasts[origin] = (ms, 1)
        self.stream.apply_added(origin, first, first, 0, block, 0, block.count)
        self.rows.sort()

    @rule(origin=origins, low=st.integers(1, 20), width=st.integers(0, 6))
    def remove(self, origin: int, low: int, width: int) -> None:
        ranges = {origin: [(low, low + width)]}
        self.stream.apply_removed(2, self.next_counter(2), ranges, False, None)
        self.rows = [row for row in self.rows if row.origin != origin or not low <= row.counter <= low + width]

    @rule(keep=st.integers(0, 12))
    def trim(self, keep: int) -> None:
        ranges = trimmable(self.stream, keep)
        left = self.rows[max(len(self.rows) - keep, 0) :]
        gone = {(row.origin, row.counter) for row in self.rows} - {(row.origin, row.counter) for row in left}
        assert gone == {
            (row.origin, row.counter)
            for row in self.rows
            for low, high in ranges.get(row.origin, [])
            if low <= row.counter <= high
        }
        assert list(ranges) == sorted(ranges)
        self.stream.apply_removed(2, self.next_counter(2), ranges, True, None)
        self.rows = left

    @rule()
    def delete(self) -> None:
        self.stream.apply_deleted(2, self.next_counter(2), self.vector, {})
        self.rows = []
        self.lasts = dict.fromkeys(ORIGINS, ID_MIN)
        self.create_group()

    @rule()
    def derive(self) -> None:
        self.stream.derive()

    # Answers

    @rule(start=bounds, end=bounds, count=st.integers(-1, 7), reverse=st.booleans())
    def read(self, start: EntryId, end: EntryId, count: int, reverse: bool) -> None:
        wanted = [row.entry for row in self.rows if start <= row.entry_id <= end]
        wanted = wanted[::-1] if reverse else wanted
        wanted = wanted if count < 0 else wanted[:count]
        found, chunks = self.stream.range(start, end, count, reverse)
        assert (found, b"".join(chunks)) == (len(wanted), b"".join(wanted))

    @rule(entry_id=bounds)
    def ask(self, entry_id: EntryId) -> None:
        assert self.stream.origins_holding(entry_id) == [row.origin for row in self.rows if row.entry_id == entry_id]
        assert count_through(self.stream.chains, entry_id) == sum(row.entry_id <= entry_id for row in self.rows)

    @rule()
    def look(self) -> None:
        self.seen = [*self.seen[-2:], (self.stream.seen(), dict(self.counters))]

    @rule(count=st.integers(-1, 4))
    def see(self, count: int) -> None:
        for seen, counters in self.seen:
            new = [row.entry for row in self.rows if row.counter > counters[row.origin]]
            new = new if count < 0 else new[:count]
            found, chunks = self.stream.added_since(seen, count)
            assert (found, b"".join(chunks)) == (len(new), b"".join(new))

    @invariant()
    def agrees(self) -> None:
        stream = self.stream
        stream.check()
        ends = [(row.entry_id, row.entry) for row in self.rows]
        assert stream.first_entry() == (ends[0] if ends else None)
        assert stream.last_entry() == (ends[-1] if ends else None)
        assert stream.first_id() == (ends[0][0] if ends else None)
        assert stream.groups[NAME].wanted_count(stream.chains) == len(self.wanted())
        assert stream.groups[NAME].has_wanted(stream.chains) == bool(self.wanted())

    # The group

    def wanted(self) -> list[Row]:
        return [row for row in self.rows if (row.origin, row.entry_id) not in self.delivered]

    @rule(count=st.integers(-1, 6), noack=st.booleans())
    def deliver(self, count: int, noack: bool) -> None:
        wanted = self.wanted() if count < 0 else self.wanted()[:count]
        group = self.stream.groups[NAME]
        delivery = group.next_entries(self.stream.chains, count)
        assert b"".join(delivery.chunks) == b"".join([row.entry for row in wanted])
        assert delivery.count == len(wanted) and list(delivery.intervals.as_dict()) == sorted(
            delivery.intervals.as_dict()
        )
        group.apply_delivered(self.stream.trees, b"c", 1, delivery.intervals, noack, delivery.offer)
        self.delivered |= {(row.origin, row.entry_id) for row in wanted}

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        ids = data.draw(st.sets(st.sampled_from(sorted({entry_id for _, entry_id in self.delivered}))))
        group = self.stream.groups[NAME]
        group.apply_dropped(group.pending.find(sorted(ids))[0])

    @rule(own=st.booleans())
    def send_runs(self, own: bool) -> None:
        """What the place tells is what looking at every origin tells."""
        group = self.stream.groups[NAME]
        runs = group.new_runs(self.stream.trees)
        group.reset_cursor()
        assert group.new_runs(self.stream.trees) == runs
        group.apply_runs(sorted(group.creates), runs, own)

    @rule(entry_id=bounds)
    def set_position(self, entry_id: EntryId) -> None:
        """Then the group is made again: what is wanted of later entries is beyond a plain model."""
        group = self.stream.groups[NAME]
        set_position(group, self.stream.trees, Position(entry_id), -1)
        above = [row for row in self.rows if row.entry_id > entry_id]
        group.check_cursor(self.stream.chains, self.stream.trees)
        assert group.wanted_count(self.stream.chains) == len(above)
        assert b"".join(group.next_entries(self.stream.chains, -1).chunks) == b"".join([row.entry for row in above])
        self.stream.apply_group_destroyed(2, self.next_counter(2), self.vector, NAME)
        self.create_group()


StreamMachine.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestStream = StreamMachine.TestCase
