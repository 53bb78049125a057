"""Intervals of seqs read in portions, against a naive list of entries; the stream changes in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.bulk import reading
from crdtstream.bulk.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, BulkError
from crdtstream.bulk.reading import StreamInterval, portion_after, require_applied
from tests.bulk.columns import Entry, Fields, entries_of
from tests.commands.stream_region import Region

KEY = (0, b"s")


class Known:
    """Two regions' entries in one stream as this region holds them, and the same as a plain list for each origin."""

    def __init__(self) -> None:
        self.region, self.other = Region(1), Region(2)
        self.entries: dict[int, list[Entry]] = {1: [], 2: []}

    def add(self, origin: int, fields: Fields) -> None:
        region = self.region if origin == 1 else self.other
        reply = region.call("XADD", "s", "*", *fields)
        assert reply is not None
        ms, seq = reply.split(b"\r\n")[1].split(b"-")
        self.entries[origin].append((region.replica.applied.counter(), (int(ms), int(seq)), fields))

    def other_key(self, origin: int) -> None:
        (self.region if origin == 1 else self.other).call("XADD", "elsewhere", "*", "f", "v")

    def delete(self, origin: int, at: int) -> None:
        known = self.entries[origin]
        if known:
            gone = known.pop(at % len(known))
            self.region.hear(self.other)
            tree = self.region.stream().trees[origin]
            assert tree.counter_of(gone[1]) == gone[0]
            self.region.replica.remove_entries(KEY, {origin: [(gone[0], gone[0])]}, False, None)

    def trim(self, origin: int, count: int) -> None:
        """The head of one origin's tree leaves, as by XTRIM."""
        self.region.hear(self.other)
        gone, self.entries[origin] = self.entries[origin][:count], self.entries[origin][count:]
        if gone:
            self.region.replica.remove_entries(KEY, {origin: [(gone[0][0], gone[-1][0])]}, True, None)

    def read(self, origin: int, after: int, through: int, bytes_max: int) -> list[Entry]:
        found: list[Entry] = []
        interval = StreamInterval(KEY, origin, after, through)
        portion = portion_after(self.region.context, interval, after, bytes_max)
        while portion is not None:
            assert portion.count == 1 or len(portion.data) <= bytes_max
            found += entries_of(portion)
            assert portion.last_seq == found[-1][0]
            portion = portion_after(self.region.context, interval, portion.last_seq, bytes_max)
        return found


origins = st.sampled_from([1, 2])
sizes = st.sampled_from([1, 1, 1, 30, 400])
events = st.one_of(
    st.tuples(st.just("add"), origins, sizes),
    st.tuples(st.just("add"), origins, sizes),
    st.tuples(st.just("other"), origins, sizes),
    st.tuples(st.just("delete"), origins, st.integers(0, 40)),
    st.tuples(st.just("trim"), origins, st.integers(1, 4)),
)


def play(known: Known, history: list[tuple[str, int, int]]) -> None:
    for what, origin, number in history:
        if what == "add":
            known.add(origin, [b"f", b"v" * number])
        elif what == "other":
            known.other_key(origin)
        elif what == "delete":
            known.delete(origin, number)
        else:
            known.trim(origin, number)
    known.region.hear(known.other)


@given(st.lists(events, max_size=40), origins, st.integers(0, 50), st.integers(0, 50), st.sampled_from([1, 100, 1_000]))
def test_an_interval_is_what_a_list_of_entries_says(
    history: list[tuple[str, int, int]], origin: int, after: int, width: int, bytes_max: int
) -> None:
    known = Known()
    play(known, history)
    wanted = [entry for entry in known.entries[origin] if after < entry[0] <= after + width]
    assert known.read(origin, after, after + width, bytes_max) == wanted


@given(st.lists(events, min_size=10, max_size=40), st.lists(events, max_size=20), origins)
def test_what_changes_between_two_portions(
    before: list[tuple[str, int, int]], between: list[tuple[str, int, int]], origin: int
) -> None:
    """Entries that stay are read once; those that left may be missing, those that came above may be there."""
    known = Known()
    play(known, before)
    interval = StreamInterval(KEY, origin, 0, 1_000)
    first = portion_after(known.region.context, interval, 0, 200)
    if first is None:
        return
    found = entries_of(first)
    play(known, between)
    rest = known.read(origin, first.last_seq, 1_000, 200)
    assert [entry[0] for entry in found + rest] == sorted({entry[0] for entry in found + rest})
    assert rest == [entry for entry in known.entries[origin] if entry[0] > first.last_seq]


@pytest.mark.interpreted
def test_a_portion_bounds_its_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ENTRIES_MAX", 3)
    known = Known()
    play(known, [("add", 1, 1)] * 7)
    counts = []
    portion = portion_after(known.region.context, StreamInterval(KEY, 1, 0, 7), 0, 1 << 20)
    while portion is not None:
        counts.append(portion.count)
        portion = portion_after(known.region.context, StreamInterval(KEY, 1, 0, 7), portion.last_seq, 1 << 20)
    assert counts == [3, 3, 1]


def test_what_is_not_applied_yet_is_refused_not_taken_for_removed() -> None:
    known = Known()
    play(known, [("add", 2, 1)] * 3)
    require_applied(known.region.context, StreamInterval(KEY, 2, 0, 3))
    with pytest.raises(BulkError, match=r"has applied origin 2.0 up to seq 3, but the interval ends at 4") as refusal:
        require_applied(known.region.context, StreamInterval(KEY, 2, 0, 4))
    assert refusal.value.code == FAILED_PRECONDITION
    with pytest.raises(BulkError, match="begins after 5, but ends before that, at 4") as refusal:
        StreamInterval(KEY, 2, 5, 4)
    assert refusal.value.code == INVALID_ARGUMENT


def test_an_expired_key_has_no_entries() -> None:
    known = Known()
    play(known, [("add", 1, 1)] * 3)
    known.region.call("PEXPIRE", "s", "10")
    assert len(known.read(1, 0, 3, 1_000)) == 3
    known.region.replica.keyspace.now_ms = known.region.context.now_ms + 11
    assert known.read(1, 0, 3, 1_000) == []
