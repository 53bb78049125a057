"""Remembered ranges against reading again, whatever happens to the stream in between."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.merged_ranges import MEMO_BYTES, MergedRanges
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId

KEY = (0, b"s")
ORIGINS = (1, 2, 257)

bounds = st.tuples(st.integers(0, 12), st.integers(0, 3)) | st.sampled_from([ID_MIN, ID_MAX])


class RangesMachine(RuleBasedStateMachine):
    """One stream that several origins write; IDs come late and repeat after a DEL."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = Stream()
        self.ranges = MergedRanges(4 * (MEMO_BYTES + 400))
        self.counters = dict.fromkeys(ORIGINS, 0)
        self.vector = VersionVector()
        self.values = 0
        self.asked: list[tuple[EntryId, EntryId, int, bool]] = [(ID_MIN, ID_MAX, 3, False), ((2, 0), (9, 0), -1, False)]

    @rule(origin=st.sampled_from(ORIGINS), ms=st.integers(0, 3), seq=st.integers(0, 1), count=st.integers(1, 3))
    def add(self, origin: int, ms: int, seq: int, count: int) -> None:
        tree = self.stream.trees.get(origin)
        last = (tree.last_id() if tree is not None else None) or (0, 0)
        block = Block()
        first = self.counters[origin] + 1
        for step in range(1, count + 1):
            self.counters[origin] += 1
            self.values += 1
            entry_id = (last[0] + ms, last[1] + step + seq) if ms == 0 else (last[0] + ms, step + seq)
            entry = encode_entry(entry_id, [b"f", b"%d" % self.values])
            block.append(entry_id, self.counters[origin], entry)
        self.stream.apply_added(origin, first, first, 0, block, 0, block.count)
        self.vector.advance(origin, self.counters[origin])

    @precondition(lambda self: self.vector.total())
    @rule(origin=st.sampled_from(ORIGINS), low=st.integers(1, 20), width=st.integers(0, 2))
    def remove(self, origin: int, low: int, width: int) -> None:
        self.stream.apply_removed(1, self.counters[1], {origin: [(low, low + width)]}, False, None)

    @rule()
    def delete(self) -> None:
        self.stream.apply_deleted(1, self.counters[1], self.vector, {})

    @rule(start=bounds, end=bounds, count=st.integers(-1, 5), reverse=st.booleans())
    def ask(self, start: EntryId, end: EntryId, count: int, reverse: bool) -> None:
        self.asked = [*self.asked[-3:], (start, end, count, reverse)]

    @invariant()
    def reads_are_what_the_stream_gives(self) -> None:
        """Those asked before too, whose memos are from before the last change."""
        for start, end, count, reverse in self.asked:
            expected, chunks = self.stream.range(start, end, count, reverse)
            found, body = self.ranges.range(KEY, self.stream, start, end, count, reverse)
            assert (found, b"".join(body)) == (expected, b"".join(chunks))
        self.ranges.check()


RangesMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=25)
TestRanges = RangesMachine.TestCase


def alternating(count: int) -> Stream:
    stream = Stream()
    for origin in (1, 2):
        block = Block()
        for number in range(1, count + 1):
            block.append((number, origin), number, encode_entry((number, origin), [b"f", b"v"]))
        stream.apply_added(origin, 1, 1, 0, block, 0, count)
    return stream


def test_a_page_is_merged_once() -> None:
    stream, ranges = alternating(10), MergedRanges(1 << 20)
    first = ranges.range(KEY, stream, ID_MIN, ID_MAX, 4, False)[1][0]
    assert ranges.range(KEY, stream, ID_MIN, ID_MAX, 4, False)[1][0] is first


def test_an_add_above_a_full_page_leaves_it() -> None:
    stream, ranges = alternating(10), MergedRanges(1 << 20)
    first = ranges.range(KEY, stream, ID_MIN, ID_MAX, 4, False)[1][0]
    block = Block()
    block.append((11, 1), 11, encode_entry((11, 1), [b"f", b"v"]))
    stream.apply_added(1, 11, 1, 10, block, 0, 1)
    assert ranges.range(KEY, stream, ID_MIN, ID_MAX, 4, False)[1][0] is first
    assert ranges.range(KEY, stream, ID_MIN, ID_MAX, -1, False)[0] == 21


def test_a_smaller_limit_lets_the_oldest_go() -> None:
    stream, ranges = alternating(10), MergedRanges(1 << 20)
    for start in range(5):
        ranges.range(KEY, stream, (start, 0), ID_MAX, 4, False)
    ranges.limit(2 * MEMO_BYTES)
    assert 0 < ranges.byte_count <= 2 * MEMO_BYTES
    ranges.limit(0)
    assert ranges.byte_count == 0
