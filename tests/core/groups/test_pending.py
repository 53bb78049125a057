"""Pending entries against a naive dictionary."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crdtstream.core.groups import spans
from crdtstream.core.groups.consumer_numbers import IDLE_MIN
from crdtstream.core.groups.pending import PendingEntries, PendingRow
from crdtstream.core.groups.spans import OriginPending, Span
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, U64_MAX, EntryId
from crdtstream.core.values.intervals import Interval, IntervalSet
from tests.effort import examples

Held = tuple[bytes, int, int]

ORIGINS = [1, 2, 257, 513]


@pytest.fixture(autouse=True, scope="module")
def _small_spans() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spans, "SPAN_ENTRIES", 5)
        patch.setattr(spans, "SPARSE_ENTRIES", 2)
        yield


seq_parts = st.integers(0, 4) | st.just(U64_MAX)
# No entry has the ID 0-0, which is the open end of the first interval.
entry_ids = st.tuples(st.integers(0, 12), seq_parts).filter(lambda entry_id: entry_id != ID_MIN)
origins = st.sampled_from(ORIGINS)
consumers = st.sampled_from([b"alice", b"bob", b"\xff"])
times = st.integers(0, 50) | st.just(2**53 + 1)
deliveries = st.integers(1, 3) | st.just(2**40)
bounds = entry_ids | st.sampled_from([ID_MIN, ID_MAX])


def fields_of(row: PendingRow) -> tuple[EntryId, int, bytes, int, int]:
    return (row.entry_id, row.origin, row.consumer, row.delivered_ms, row.deliveries)


class PendingMachine(RuleBasedStateMachine):
    """Pending entries beside a plain dict of (ID, origin)."""

    def __init__(self) -> None:
        super().__init__()
        self.pending = PendingEntries()
        self.model: dict[tuple[EntryId, int], Held] = {}
        self.shared: list[tuple[int, Span]] = []
        self.names: dict[int, bytes] = {}
        self.model_shared: dict[tuple[EntryId, int], Held] = {}

    def removed(self, gone: list[tuple[EntryId, int]]) -> None:
        for key in gone:
            del self.model[key]

    @rule(ids=st.sets(entry_ids, max_size=20))
    def acknowledge_all(self, ids: set[EntryId]) -> None:
        pieces, count = self.pending.find(sorted(ids))
        gone = [key for key in self.model if key[0] in ids]
        assert count == len({entry_id for entry_id, _ in gone})
        assert sorted(pieces.as_dict()) == sorted({origin for _, origin in gone})
        for origin, found in pieces.as_dict().items():
            assert self.pending.pieces_of(origin, sorted(ids)) == found
            assert self.pending.remove_pieces(origin, found) == sum(key[1] == origin for key in gone)
        self.removed(gone)

    @rule(origin=origins, ids=st.sets(entry_ids, max_size=14), consumer=consumers, time=times, count=deliveries)
    def add(self, origin: int, ids: set[EntryId], consumer: bytes, time: int, count: int) -> None:
        fresh = sorted(entry_id for entry_id in ids if (entry_id, origin) not in self.model)
        self.pending.add(origin, fresh, consumer, time, count)
        for entry_id in fresh:
            self.model[(entry_id, origin)] = (consumer, time, count)

    @rule(origin=origins, count=st.integers(1, 14), consumer=consumers, time=times)
    def add_at_the_end(self, origin: int, count: int, consumer: bytes, time: int) -> None:
        top = max([entry_id for entry_id, s in self.model if s == origin], default=(20, 0))
        self.add(origin, {(top[0] + step, 0) for step in range(1, count + 1)}, consumer, time, 1)

    @rule(origin=origins, count=st.integers(1, 4), consumer=consumers, time=times)
    def add_above_all(self, origin: int, count: int, consumer: bytes, time: int) -> None:
        """As a start of the process does."""
        top = max([entry_id for entry_id, _ in self.model], default=(20, 0))
        self.add(origin, {(top[0] + step, 0) for step in range(1, count + 1)}, consumer, time, 1)

    @rule(origin=origins, entry_id=entry_ids, consumer=consumers, time=times, count=deliveries)
    def set_any(self, origin: int, entry_id: EntryId, consumer: bytes, time: int, count: int) -> None:
        self.pending.set(origin, entry_id, consumer, time, count)
        self.model[(entry_id, origin)] = (consumer, time, count)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), consumer=consumers, time=times, count=deliveries)
    def claim(self, data: st.DataObject, consumer: bytes, time: int, count: int) -> None:
        entry_id, origin = data.draw(st.sampled_from(sorted(self.model)))
        self.set_any(origin, entry_id, consumer, time, count)

    @rule(origin=origins, entry_id=entry_ids)
    def remove_any(self, origin: int, entry_id: EntryId) -> None:
        assert self.pending.remove(origin, entry_id) == ((entry_id, origin) in self.model)
        self.model.pop((entry_id, origin), None)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        entry_id, origin = data.draw(st.sampled_from(sorted(self.model)))
        assert self.pending.remove(origin, entry_id)
        assert not self.pending.remove(origin, entry_id)
        del self.model[(entry_id, origin)]

    @rule(origin=origins, count=st.integers(1, 8))
    def acknowledge_in_order(self, origin: int, count: int) -> None:
        for _ in range(count):
            first = self.pending.first(origin)
            if first is not None:
                assert self.pending.remove(origin, first)
                del self.model[(first, origin)]

    @rule(origin=origins, pairs=st.lists(st.tuples(bounds, bounds), max_size=4))
    def remove_intervals(self, origin: int, pairs: list[Interval]) -> None:
        gone = [key for key in self.model if key[1] == origin and any(a < key[0] <= b for a, b in pairs)]
        assert self.pending.remove_intervals(origin, IntervalSet.of(pairs)) == len(gone)
        self.removed(gone)

    @rule(consumer=consumers)
    def remove_consumer(self, consumer: bytes) -> None:
        gone = [key for key, held in self.model.items() if held[0] == consumer]
        assert self.pending.remove_consumer(consumer) == sorted((origin, entry_id) for entry_id, origin in gone)
        self.removed(gone)

    @rule()
    def share(self) -> None:
        self.shared = self.pending.share()
        self.names = dict(self.pending.numbered_consumers())
        self.model_shared = dict(self.model)

    @rule()
    def go_back(self) -> None:
        """What was shared is as it was, whatever has happened since."""
        self.pending = PendingEntries()
        for origin, span in self.shared:
            self.pending.adopt(origin, span)
        self.pending.name_consumers(self.names)
        self.model = dict(self.model_shared)

    @rule(start=bounds, end=bounds, limit=st.integers(-1, 8), consumer=consumers | st.none(), time=st.none() | times)
    def read(self, start: EntryId, end: EntryId, limit: int, consumer: bytes | None, time: int | None) -> None:
        wanted = [
            (entry_id, origin, *held)
            for (entry_id, origin), held in sorted(self.model.items())
            if start <= entry_id <= end
            and (consumer is None or held[0] == consumer)
            and (time is None or held[1] <= time)
        ]
        wanted = wanted if limit < 0 else wanted[:limit]
        if time is None:
            rows = self.pending.rows(start, end, limit, consumer)
        else:
            rows = self.pending.rows(start, end, limit, consumer, time)
        assert [fields_of(row) for row in rows] == wanted

    @rule(limit=st.integers(-1, 8), time=times, future=times)
    def read_by_age(self, limit: int, time: int, future: int) -> None:
        future = max(time, future)
        rows = sorted((held[1], entry_id, origin) for (entry_id, origin), held in self.model.items())
        wanted = [row for row in rows if row[0] <= time or row[0] > future]
        found = self.pending.longest_idle(limit, time, future)
        assert [(row.delivered_ms, row.entry_id, row.origin) for row in found] == (
            wanted if limit < 0 else wanted[:limit]
        )

    @rule(entry_id=entry_ids)
    def ask(self, entry_id: EntryId) -> None:
        for wanted in [entry_id, *(key[0] for key in self.model)]:
            assert self.pending.origins_of(wanted) == [origin for origin in ORIGINS if (wanted, origin) in self.model]
            for origin in ORIGINS:
                got = self.pending.get(origin, wanted)
                held = None if got is None else (got.consumer, got.delivered_ms, got.deliveries)
                assert held == self.model.get((wanted, origin))

    @invariant()
    def agrees(self) -> None:
        self.pending.check()
        assert self.pending.count == len(self.model)
        ids = sorted(key[0] for key in self.model)
        assert self.pending.min_id() == (ids[0] if ids else None)
        assert self.pending.max_id() == (ids[-1] if ids else None)
        for origin in ORIGINS:
            mine = sorted(key[0] for key in self.model if key[1] == origin)
            assert self.pending.ids(origin, None) == mine
            assert self.pending.first(origin) == (mine[0] if mine else None)
            assert self.pending.last(origin) == (mine[-1] if mine else None)
            for name in (b"alice", b"nobody"):
                assert self.pending.ids(origin, name) == [i for i in mine if self.model[(i, origin)][0] == name]
        names = [held[0] for held in self.model.values()]
        assert self.pending.consumers_with_counts() == [(name, names.count(name)) for name in sorted(set(names))]
        assert [self.pending.count_of(name) for name in (b"bob", b"nobody")] == [names.count(b"bob"), 0]


PendingMachine.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestPending = PendingMachine.TestCase


def test_a_number_without_a_name_is_refused() -> None:
    entries = PendingEntries()
    entries.add(1, [(1, 1)], b"alice", 0, 1)
    entries.add(1, [(2, 1)], b"bob", 0, 1)
    twin = PendingEntries()
    for origin, span in entries.share():
        twin.adopt(origin, span)
    with pytest.raises(KeyError):
        twin.name_consumers({0: b"alice"})


def test_an_id_is_not_added_twice() -> None:
    entries = PendingEntries()
    entries.add(1, [(1, 1), (2, 1)], b"alice", 0, 1)
    with pytest.raises(AssertionError):
        entries.add(1, [(1, 1)], b"bob", 0, 1)


def test_spans_stay_few_however_entries_are_read() -> None:
    entries = PendingEntries()
    for ms in range(1, 101):
        entries.add(1, [(ms, 1)], b"alice" if ms % 2 else b"bob", ms, 1)
    assert len(entries._of_origin[1].spans) == 20
    for ms in range(1, 101):
        entries.set(1, (ms, 1), b"%d" % ms, ms, 2)
    assert len(entries._of_origin[1].spans) == 20
    entries.check()


def test_what_is_left_over_joins() -> None:
    entries = PendingEntries()
    entries.add(1, [(ms, 1) for ms in range(1, 101)], b"alice", 0, 1)
    for ms in range(1, 101):
        if ms % 5:
            assert entries.remove(1, (ms, 1))
    assert entries.count == 20
    assert len(entries._of_origin[1].spans) <= 7
    entries.check()


def test_a_shared_span_stays_when_its_neighbour_joins_it() -> None:
    entries = PendingEntries()
    entries.add(1, [(ms, 1) for ms in range(1, 11)], b"alice", 0, 1)
    for ms in (1, 2):
        assert entries.remove(1, (ms, 1))
    shared = entries.share()
    before = [[span.id_at(index) for index in range(span.count())] for _, span in shared]
    for ms in (6, 7, 8):
        assert entries.remove(1, (ms, 1))
    assert len(entries._of_origin[1].spans) == 1
    assert [[span.id_at(index) for index in range(span.count())] for _, span in shared] == before
    assert entries.ids(1, None) == [(3, 1), (4, 1), (5, 1), (9, 1), (10, 1)]
    entries.check()


def test_numbers_of_consumers_that_left_are_used_again() -> None:
    entries = PendingEntries()
    for ms in range(1, 10 * IDLE_MIN):
        entries.add(1, [(ms, 1)], b"%d" % ms, ms, 1)
        assert entries.remove(1, (ms, 1))
    assert entries._consumers._end == IDLE_MIN + 1
    entries.check()


@pytest.mark.parametrize("damage", ["count", "low", "order", "consumer", "origins"])
def test_check_finds_damage(damage: str) -> None:
    entries = PendingEntries()
    entries.add(1, [(ms, 1) for ms in range(1, 13)], b"alice", 0, 1)
    mine = entries._of_origin[1]
    if damage == "count":
        entries.count = 11
    elif damage == "low":
        mine.low_ids[1] = (5, 1)
    elif damage == "order":
        mine.spans[0].ms[0] = 3
    elif damage == "consumer":
        entries._consumers.hold(b"bob", 1)
    else:
        entries._of_origin[2] = OriginPending()
    with pytest.raises(AssertionError):
        entries.check()


def test_what_lies_above_a_removed_last_id_is_delivered_in_order() -> None:
    """The origin's bound stays where the highest ID was; below it the last ID that is left decides."""
    entries = PendingEntries()
    for number in (1, 5):
        entries.deliver_one(1, (number, 0), b"c", number)
    assert entries.remove(1, (5, 0))
    for number in (3, 2, 4, 4):
        entries.deliver_one(1, (number, 0), b"d", 9)
    entries.check()
    assert entries.ids(1, None) == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert [row.delivered_ms for row in entries.rows(ID_MIN, ID_MAX, -1, None)] == [1, 9, 9, 9]
