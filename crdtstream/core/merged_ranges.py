"""Cached results of ranges over streams that several regions write.

Merging costs more than the whole slices of a single tree. So a range that is read repeatedly (many readers of one
stream, a page fetched twice) is served from a *memo* of its last result. A memo records the chains that it was made
from, and is valid only while they must still give the same result: nothing was removed from them, and nothing new lies
inside the range. So no writer has to invalidate anything. The oldest memos are dropped when all of them together exceed
`bytes_max`.

The first read of a range is only noted; the second one makes the memo. One reader that pages through a stream then
fills no memory, which would cost it as much as the merging.

Both ends of a range are included.
"""

from __future__ import annotations

from crdtstream.core.chain import Chain, Chains
from crdtstream.core.effects import Key
from crdtstream.core.entry_id import ID_MAX, EntryId, next_id
from crdtstream.core.entry_tree import EntryTree
from crdtstream.core.merging import merge
from crdtstream.core.strands import read_strands
from crdtstream.core.stream import Stream

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
        # None for a range that was read once.
        self._memos: dict[Asked, _Memo | None] = {}

    def range(
        self, key: Key, stream: Stream, start: EntryId, end: EntryId, count: int, reverse: bool
    ) -> tuple[int, list[bytes]]:
        """Like `Stream.range`, from a memo if there is a valid one."""
        if len(stream.chains.all) < 2:
            return stream.range(start, end, count, reverse)
        asked = (key, start, end, count, reverse)
        read_before = asked in self._memos
        memo = self._memos.get(asked)
        if memo is not None and memo.holds(stream.chains):
            return memo.count, [memo.body]
        found = stream.strands(start, end, count, reverse)
        if len(found) < 2:
            return read_strands(found, count, reverse)
        merged = merge(found, count, reverse)
        if not read_before:
            self._remember(asked, None)
            return merged.count, merged.chunks()
        body = b"".join(merged.chunks())
        bound = merged.last_id() if merged.count == count and not reverse else end
        self._forget(asked)
        self._remember(asked, _Memo(stream.chains, merged.count, body, bound))
        return merged.count, [body]

    def _remember(self, asked: Asked, memo: _Memo | None) -> None:
        if size_of(memo) > self.bytes_max:
            return
        self._memos[asked] = memo
        self.byte_count += size_of(memo)
        self._keep_to_limit()

    def limit(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._keep_to_limit()

    def _keep_to_limit(self) -> None:
        while self.byte_count > self.bytes_max:
            self._forget(next(iter(self._memos)))

    def _forget(self, asked: Asked) -> None:
        self.byte_count -= size_of(self._memos.pop(asked))

    def check(self) -> None:
        held = sum(size_of(memo) for memo in self._memos.values())
        assert held == self.byte_count <= self.bytes_max, "the memos' size is miscounted or exceeds the limit"


def size_of(memo: _Memo | None) -> int:
    return MEMO_BYTES if memo is None else MEMO_BYTES + len(memo.body)
