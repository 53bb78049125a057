"""Where streams stand, and where an interval is cut, against a naive list of entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.bulk import heads as heads_module
from crdtstream.bulk.errors import INVALID_ARGUMENT, BulkError
from crdtstream.bulk.heads import IntervalSplitter, Names, heads_of
from tests.bulk.test_reading import KEY, Known, events, origins, play
from tests.commands.stream_region import Region


@given(st.lists(events, max_size=40), st.integers(900, 1_100), st.dictionaries(origins, st.integers(0, 40)))
def test_heads_are_what_lists_of_entries_say(
    history: list[tuple[str, int, int]], before_ms: int, position: dict[int, int]
) -> None:
    known = Known()
    ever: dict[int, int] = {}
    for event in history:
        later_ms = known.region.context.now_ms + 3
        known.region.replica.keyspace.now_ms = known.other.replica.keyspace.now_ms = later_ms
        play(known, [event])
        for origin, entries in known.entries.items():
            if entries:
                ever[origin] = max(ever.get(origin, 0), entries[-1][0])
    found = heads_of(known.region.context, KEY, before_ms, position)
    assert [head.origin for head in found] == sorted(ever)
    for head in found:
        entries = known.entries[head.origin]
        seqs = [entry[0] for entry in entries]
        below = [entry[0] for entry in entries if entry[1] < (before_ms, 0)]
        assert (head.head, head.length, head.first) == (ever[head.origin], len(seqs), seqs[0] if seqs else 0)
        assert head.at == (max(below[-1], head.trimmed) if below else head.trimmed)
        assert head.waiting == len([seq for seq in seqs if seq > position.get(head.origin, 0)])
        assert head.trimmed <= head.head and (not seqs or head.trimmed < seqs[0])


def test_a_trimmed_and_a_deleted_head_are_still_known() -> None:
    known = Known()
    play(known, [("add", 1, 1)] * 3 + [("trim", 1, 3)])
    [head] = heads_of(known.region.context, KEY)
    assert (head.head, head.trimmed, head.first, head.length) == (3, 3, 0, 0)
    play(known, [("add", 1, 1), ("delete", 1, 0)])
    [head] = heads_of(known.region.context, KEY)
    assert (head.head, head.trimmed, head.length) == (5, 3, 0)


def test_a_stream_that_is_not_there_has_no_origins() -> None:
    region = Region()
    assert heads_of(region.context, KEY) == []
    region.call("XADD", "s", "*", "f", "v")
    region.call("PEXPIRE", "s", "10")
    region.replica.keyspace.now_ms = region.context.now_ms + 11
    assert heads_of(region.context, KEY) == []
    region.call("DEL", "s")
    assert heads_of(region.context, KEY) == []


# Names


def names_of(region: Region, names: list[bytes], pattern: bytes = b"", database: int = 0) -> list[bytes]:
    asked = Names(database, names, pattern)
    found: list[bytes] = []
    while not asked.ended:
        found += [key[1] for key in asked.next(region.context)]
    return found


@pytest.mark.interpreted
def test_streams_are_found_by_name_or_pattern_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads_module, "NAMES_READ", 10)
    region = Region()
    everything = {b"key-%d" % at for at in range(45)}
    for name in everything:
        region.call("XADD", name, "*", "f", "v")
    region.call("DEL", "key-7")
    assert sorted(names_of(region, [])) == sorted(everything - {b"key-7"})
    assert sorted(names_of(region, [], b"key-?")) == [b"key-%d" % at for at in (0, 1, 2, 3, 4, 5, 6, 8, 9)]
    asked = [b"no", *sorted(everything), b"\xff"]
    assert names_of(region, asked) == asked
    assert names_of(region, [], database=3) == []


def test_names_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(BulkError, match="use one of them") as refusal:
        Names(0, [b"a"], b"*")
    assert refusal.value.code == INVALID_ARGUMENT
    with pytest.raises(BulkError, match="database 16 is out of range"):
        Names(16, [], b"")


# Split


def cut(known: Known, origin: int, after: int, through: int, entries: int, pieces_max: int) -> list[tuple[int, int]]:
    split = IntervalSplitter(KEY, origin, after, through, entries, pieces_max)
    while split.step(known.region.context):
        pass
    return list(zip(split.ends, split.counts, strict=True))


@given(
    st.lists(events, max_size=40),
    origins,
    st.integers(0, 30),
    st.integers(0, 50),
    st.integers(1, 9),
    st.integers(0, 4),
)
def test_pieces_hold_as_many_entries_as_asked_for(
    history: list[tuple[str, int, int]], origin: int, after: int, width: int, entries: int, pieces_max: int
) -> None:
    known = Known()
    play(known, history)
    through = after + width
    pieces = cut(known, origin, after, through, entries, pieces_max)
    seqs = [entry[0] for entry in known.entries[origin] if after < entry[0] <= through]
    low = after
    for end, count in pieces:
        assert count == len([seq for seq in seqs if low < seq <= end])
        low = end
    assert low == through
    counts = [count for _, count in pieces]
    assert all(count == entries for count in counts[:-1])
    assert not pieces_max or len(pieces) <= pieces_max
    assert counts[-1] <= entries or len(pieces) == pieces_max
    assert counts[-1] > 0 or not seqs


@pytest.mark.interpreted
def test_large_pieces_are_counted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads_module, "SPLIT_ENTRIES", 2)
    known = Known()
    play(known, [("add", 1, 1)] * 11)
    assert cut(known, 1, 0, 20, 5, 0) == [(5, 5), (10, 5), (20, 1)]


def test_an_empty_piece_is_refused() -> None:
    with pytest.raises(BulkError, match="entries is 0"):
        IntervalSplitter(KEY, 1, 0, 5, 0, 0)
