"""Portions: equal for equal state however it lies in blocks, different for any entry, and narrowed down to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core import merkle
from crdtstream.core.effects import Position
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.members import Members
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector

KEY = (0, b"x")


def tree_of(counters: list[int], chunk: int) -> EntryTree:
    """Entries in blocks of so many at most; the value is the counter."""
    tree = EntryTree()
    blocks: list[Block] = []
    for at, counter in enumerate(counters):
        if at % chunk == 0:
            blocks.append(Block())
        blocks[-1].append((counter, 1), counter, encode_entry((counter, 1), [b"f", b"%d" % counter]))
    return tree.of_blocks(blocks, 0)


def narrowed(one: EntryTree, other: EntryTree, low: int, high: int) -> tuple[list[bytes], int]:
    """The labels of the entries that differ, by following every interval that does, and how many were looked at."""
    left, right = merkle.entry_hashes(one, low, high), merkle.entry_hashes(other, low, high)
    found: list[bytes] = []
    looked = 1
    for label in sorted({*left, *right}):
        if left.get(label) != right.get(label):
            interval = merkle.interval_of(label)
            if interval is None:
                found.append(label)
            else:
                inner, more = narrowed(one, other, *interval)
                found += inner
                looked += more
    return found, looked


counters = st.lists(st.integers(1, 2_000), min_size=1, max_size=60, unique=True).map(sorted)


@given(counters, st.integers(1, 9), st.integers(1, 9), st.integers(1, 2_000))
def test_blocks_do_not_count(held: list[int], chunk: int, other_chunk: int, trimmed: int) -> None:
    one, other = tree_of(held, chunk), tree_of(held, other_chunk)
    for tree in (one, other):
        tree.remove_through(trimmed)
    assert narrowed(one, other, 1, 2_000) == ([], 1)


@given(counters, st.data())
def test_narrows_down_to_what_differs(held: list[int], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(held))
    one, other = tree_of(held, 4), tree_of(held, 4)
    other.remove_counters(gone, gone)
    found, looked = narrowed(one, other, 1, 2_000)
    assert found == [b"%d %d-1" % (gone, gone)]
    assert looked <= 5


def test_counters_lie_beyond_32_bits() -> None:
    high = 1 << 53
    one, other = tree_of([1, high - 1, high], 2), tree_of([1, high], 2)
    assert narrowed(one, other, 1, high)[0] == [b"%d %d-1" % (high - 1, high - 1)]


def test_intervals() -> None:
    assert merkle.interval_of(b"1..8") == (1, 8)
    assert merkle.interval_of(b"8..8") == (8, 8)
    for label in (b"", b"1", b"8..1", b"..", b"a..b", b"1..%d" % (10**21), b"1 1-1"):
        assert merkle.interval_of(label) is None


def test_a_key_has_a_checksum_for_each_thing_that_may_differ() -> None:
    replica = Replica(1)
    replica.add_entry(KEY, (5, 1), [b"f", b"v"])
    replica.create_group(KEY, b"jobs", Position(), 0)
    stream = replica.keyspace.find(KEY)
    assert stream is not None
    measures = merkle.measures_of(stream)
    before, whole = merkle.stream_hashes(stream, measures), merkle.stream_sum(1, stream, measures)
    assert sorted(before) == [
        b"entries of origin 1.0",
        b"entries-added",
        b"expiry",
        b"group jobs",
        b"last-generated-id",
        b"max-deleted-entry-id",
    ]
    replica.set_expiry(KEY, 99)
    after = merkle.stream_hashes(stream, merkle.measures_of(stream))
    assert [label for label in before if before[label] != after[label]] == [b"expiry"]
    assert merkle.rows_sum(before) != merkle.rows_sum(after)
    assert whole != merkle.stream_sum(1, stream, measures) != merkle.stream_sum(2, stream, measures)
    assert sorted(merkle.group_hashes(stream.groups[b"jobs"])) == [b"start of its create 1.0:2"]


def test_long_names_are_cut_and_stay_apart() -> None:
    one, other = b"n" * 500 + b"1", b"n" * 500 + b"2"
    assert len(merkle.group_label(one)) < 200
    assert merkle.group_label(one) != merkle.group_label(other)


def test_members_have_a_row_each() -> None:
    members = Members()
    members.apply_joined((1, 5), 2)
    members.apply_joined((1, 6), 3)
    members.apply_evicted((1, 7), 2, 9, 0, VersionVector({1: 6}))
    rows = merkle.member_hashes(members)
    assert sorted(rows) == [b"1 of origin 3, 1:6", b"8 of origin 2, 0:0"]
    members.apply_evicted((1, 8), 2, 8, 0, VersionVector({1: 7}))
    assert [label for label, total in merkle.member_hashes(members).items() if rows[label] != total] == [
        b"8 of origin 2, 0:0"
    ]
