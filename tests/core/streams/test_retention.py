"""What exceeds the limits of a stream, against a naive model: a list of all entries in merged order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core import effects as fx
from crdtstream.core.effects import Key, Position
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.replica import Replica
from crdtstream.core.streams.properties import ACKED_ONLY, MAX_AGE, MAX_BYTES, MAX_LENGTH, YES, RetentionLimits
from crdtstream.core.streams.retained_keys import RetainedKeys
from crdtstream.core.streams.retention import ENTRY_BYTES_MIN, exceeding, oldest_cut, settled_cut
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MIN, EntryId
from tests.core.histories import ids_of
from tests.effort import examples

KEY: Key = (0, b"k")
# ID in milliseconds, sequence number, origin, and the size of the value.
Drawn = tuple[int, int, int, int]
ENTRIES = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 1), st.integers(1, 3), st.integers(0, 40)), max_size=25)


def stream_of(drawn: list[Drawn], blocks_of: int = 3) -> Stream:
    """A stream whose origins have these entries, in blocks of a few."""
    stream = Stream()
    rows = {(origin, (ms, seq)): size for ms, seq, origin, size in drawn}
    for origin in (1, 2, 3):
        ids = sorted(entry_id for one, entry_id in rows if one == origin)
        for low in range(0, len(ids), blocks_of):
            block = Block()
            for index, entry_id in enumerate(ids[low : low + blocks_of]):
                block.append(entry_id, low + index + 1, encode_entry(entry_id, [b"f", b"v" * rows[(origin, entry_id)]]))
            stream.apply_added(origin, low + 1, 1, low, block, 0, block.count)
    return stream


def merged_rows(stream: Stream) -> list[tuple[EntryId, int, int]]:
    """ID, origin and bytes of all entries in order."""
    rows = []
    for entry_id, origin, _ in ids_of(stream):
        entry = stream.trees[origin].find(entry_id)
        assert entry is not None
        rows.append((entry_id, origin, len(entry)))
    return sorted(rows)


def counted(rows: list[tuple[EntryId, int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for _, origin, _ in rows:
        found[origin] = found.get(origin, 0) + 1
    return found


@settings(max_examples=examples(300), deadline=None)
@given(ENTRIES, st.integers(1, 30))
def test_the_oldest_beyond_a_length(drawn: list[Drawn], entries_max: int) -> None:
    stream = stream_of(drawn)
    rows = merged_rows(stream)
    limits = RetentionLimits({MAX_LENGTH: b"%d" % entries_max})
    expected = counted(rows[: max(0, len(rows) - entries_max)])
    assert exceeding(stream, limits, MAX_LENGTH, 0) == expected
    assert not exceeding(stream, limits, MAX_BYTES, 0) and not exceeding(stream, limits, ACKED_ONLY, 0)


@settings(max_examples=examples(300), deadline=None)
@given(ENTRIES, st.integers(1, 1500))
def test_the_fewest_oldest_that_are_beyond_a_size(drawn: list[Drawn], max_bytes: int) -> None:
    stream = stream_of(drawn)
    left = merged_rows(stream)
    gone = []
    while sum(size for _, _, size in left) > max_bytes:
        gone.append(left.pop(0))
    assert exceeding(stream, RetentionLimits({MAX_BYTES: b"%d" % max_bytes}), MAX_BYTES, 0) == counted(gone)


@settings(max_examples=examples(100), deadline=None)
@given(ENTRIES, st.integers(1, 15), st.integers(0, 30))
def test_the_older_than_an_age(drawn: list[Drawn], max_age_ms: int, now_ms: int) -> None:
    stream = stream_of(drawn)
    rows = [row for row in merged_rows(stream) if now_ms - row[0][0] > max_age_ms]
    assert exceeding(stream, RetentionLimits({MAX_AGE: b"%d" % max_age_ms}), MAX_AGE, now_ms) == counted(rows)


def test_no_entry_is_smaller() -> None:
    assert len(encode_entry((0, 1), [b"", b""])) == ENTRY_BYTES_MIN


def test_acked_alone_is_about_all_entries_and_beside_a_limit_about_none() -> None:
    stream = stream_of([(1, 0, 1, 0), (2, 0, 2, 0)])
    assert exceeding(stream, RetentionLimits({ACKED_ONLY: YES}), ACKED_ONLY, 0) == {1: 1, 2: 1}
    assert exceeding(stream, RetentionLimits({ACKED_ONLY: YES, MAX_LENGTH: b"1"}), ACKED_ONLY, 0) == {}


# What is removed of one origin


def replica_of(count: int) -> tuple[Replica, Stream]:
    replica = Replica(1)
    for number in range(1, count + 1):
        replica.add_entry(KEY, (number, 1), [b"f", b"v"])
    stream = replica.keyspace.find(KEY)
    assert stream is not None
    return replica, stream


def group_on(replica: Replica, start: int) -> None:
    replica.create_group(KEY, b"g", Position((start, 0)), fx.UNKNOWN_ENTRIES_READ)


def test_a_cut_of_the_oldest_is_one_range() -> None:
    _, stream = replica_of(5)
    cut = oldest_cut(stream.trees[1], 3)
    assert (cut.ranges, cut.count, cut.is_oldest) == ([(1, 3)], 3, True)


def test_without_a_group_nothing_is_settled() -> None:
    _, stream = replica_of(5)
    cut = settled_cut(stream, 1, 5, ID_MIN, 100, 100, True)
    assert (cut.ranges, cut.count, cut.is_oldest) == ([], 0, False)


def test_what_a_group_wants_stays() -> None:
    replica, stream = replica_of(5)
    group_on(replica, 4)
    cut = settled_cut(stream, 1, 5, ID_MIN, 100, 100, True)
    assert (cut.ranges, cut.is_oldest) == ([(1, 3)], True)
    group_on_all = settled_cut(stream, 1, 2, ID_MIN, 100, 100, True)
    assert group_on_all.ranges == [(1, 2)], "no more than what exceeds the limit"


def test_a_long_look_goes_on_where_it_ended() -> None:
    replica, stream = replica_of(600)
    group_on(replica, 1000)
    cut = settled_cut(stream, 1, 600, ID_MIN, 300, 100, True)
    assert cut.count < 600 and cut.looked != ID_MIN
    rest = settled_cut(stream, 1, 600, cut.looked, 1000, 100, True)
    assert cut.count + rest.count == 600 and rest.looked == ID_MIN
    assert not rest.is_oldest, "those before it are still there"
    few = settled_cut(stream, 1, 600, ID_MIN, 1000, 1, True)
    assert len(few.ranges) == 1 and few.looked != ID_MIN


# Whose turn it is


@given(st.lists(st.tuples(st.sampled_from(["on", "off", "next"]), st.integers(0, 3)), max_size=40))
def test_keys_are_visited_in_turn(script: list[tuple[str, int]]) -> None:
    retained = RetainedKeys()
    known: set[Key] = set()
    for step, number in script:
        key = (0, b"%d" % number)
        if step == "next":
            taken = retained.pop_next()
            assert taken in known if known else taken is None
        else:
            retained.schedule(key, step == "on")
            (known.add if step == "on" else known.discard)(key)
        assert set(retained.keys) == known
        retained.check()
    assert {retained.pop_next() for _ in known} == known


@pytest.mark.parametrize("reason", [MAX_AGE, MAX_LENGTH, MAX_BYTES, ACKED_ONLY])
def test_removals_are_counted_by_reason(reason: bytes) -> None:
    retained = RetainedKeys()
    retained.record(reason, 2, 60)
    retained.record(reason, 1, 30)
    assert retained.removed.pop(reason) == (3, 90)
    assert set(retained.removed.values()) == {(0, 0)}
