"""Cached results of ranges over streams that several regions write.

Merging visits every entry, where a single tree would give whole slices. So a range that is read repeatedly (many
readers of one stream, a page fetched twice) is served from a *memo* of its last result. A memo records the chains that
it was made from, and is valid only while they must still give the same result: nothing was removed from them, and
nothing new lies inside the range. So no writer has to invalidate anything. The oldest memos are dropped when all of
them together exceed `bytes_max`.

Both ends of a range are included.
"""

from __future__ import annotations

from collections import OrderedDict

from crdtstream.core.effects import Key
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.range_reading import read_chain_ranges, read_merged
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.chain import Chain, Chains
from crdtstream.core.values.entry_id import ID_MAX, EntryId, next_id

MEMO_BYTES = 512

Asked = tuple[Key, EntryId, EntryId, int, bool]


class _Memo:
    """The result of a range; a new entry at or below `bound` would change it."""

    __slots__ = ("_chains", "_cut", "_ends", "_placed", "body", "bound", "count")

    def __init__(self, chains: Chains[EntryTree], count: int, body: bytes, bound: EntryId) -> None:
        self.count = count
        self.body = body
        self.bound = bound
        self._chains = chains
        self._placed = chains.placed
        self._cut = chains.cut
        self._ends = [chain.extents[-1].last_id() for chain in chains.all]

    def holds(self, chains: Chains[EntryTree]) -> bool:
        """True if the trees still give this result: chains have grown only at their ends, and only above `bound`."""
        if chains is not self._chains or chains.placed != self._placed or chains.cut != self._cut:
            return False
        return all(self._gave(chain, end) for chain, end in zip(chains.all, self._ends, strict=True))

    def _gave(self, chain: Chain[EntryTree], end: EntryId | None) -> bool:
        tip = chain.extents[-1]
        if end is None or end >= self.bound or tip.last_id() == end:
            return True
        return not tip.slices(next_id(end) or ID_MAX, self.bound, 1, False)


class MergedRanges:
    """Memos by range, oldest first."""

    __slots__ = ("_memos", "byte_count", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.byte_count = 0
        # A dictionary would search for its first key behind all that were removed before.
        self._memos: OrderedDict[Asked, _Memo] = OrderedDict()

    def range(
        self, key: Key, stream: Stream, start: EntryId, end: EntryId, count: int, reverse: bool
    ) -> tuple[int, list[bytes]]:
        """Like `Stream.range`, from a memo if there is a valid one."""
        if len(stream.chains.all) < 2:
            return stream.range(start, end, count, reverse)
        asked = (key, start, end, count, reverse)
        memo = self._memos.get(asked)
        if memo is not None:
            if memo.holds(stream.chains):
                return memo.count, [memo.body]
            self._forget(asked)
        found = stream.chain_ranges(start, end, count, reverse)
        if len(found) < 2:
            return read_chain_ranges(found, count, reverse)
        taken, chunks, last = read_merged(found, count, reverse)
        bound = last if taken == count and not reverse else end
        body = b"".join(chunks)
        self._remember(asked, _Memo(stream.chains, taken, body, bound))
        return taken, [body]

    def _remember(self, asked: Asked, memo: _Memo) -> None:
        if len(memo.body) + MEMO_BYTES > self.bytes_max:
            return
        self._memos[asked] = memo
        self.byte_count += len(memo.body) + MEMO_BYTES
        self._keep_to_limit()

    def limit(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._keep_to_limit()

    def _keep_to_limit(self) -> None:
        while self.byte_count > self.bytes_max:
            self._discount(self._memos.popitem(last=False)[1])

    def _forget(self, asked: Asked) -> None:
        self._discount(self._memos.pop(asked))

    def _discount(self, memo: _Memo) -> None:
        self.byte_count -= len(memo.body) + MEMO_BYTES

    def check(self) -> None:
        held = sum(len(memo.body) + MEMO_BYTES for memo in self._memos.values())
        assert held == self.byte_count <= self.bytes_max, "the memos' size is miscounted or exceeds the limit"
