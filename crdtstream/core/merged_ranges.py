"""Ranges of streams that several regions write, as they were merged when they were read last.

Merging visits entry by entry what one tree would give as slices, so what is read again (many readers of one stream, a
page that is fetched twice) comes from here. A memo names the trees that it was made from, and counts only while they
can still give nothing else: nothing was removed from them, and nothing new lies inside the range. So nobody has to
announce a change. The oldest memos leave when all of them together exceed `bytes_max`.

Both ends of a range are included.
"""

from __future__ import annotations

from crdtstream.core.effects import Key
from crdtstream.core.entry_id import ID_MAX, EntryId, next_id
from crdtstream.core.entry_tree import EntryTree
from crdtstream.core.merging import merge
from crdtstream.core.stream import Stream, joined, read_runs

MEMO_BYTES = 512

Asked = tuple[Key, EntryId, EntryId, int, bool]


class _Mark:
    """A tree as it was."""

    __slots__ = ("last_id", "removals", "tree")

    def __init__(self, tree: EntryTree) -> None:
        self.tree = tree
        self.removals = tree.removals
        self.last_id = tree.last_id()

    def holds(self, tree: EntryTree | None, bound: EntryId) -> bool:
        """This tree gives what it gave, up to `bound`."""
        if tree is not self.tree or tree.removals != self.removals:
            return False
        if self.last_id is None or self.last_id >= bound or tree.last_id() == self.last_id:
            return True
        return not tree.slices(next_id(self.last_id) or ID_MAX, bound, 1, False)


class _Memo:
    """What a range gave; another entry at or below `bound` would change it."""

    __slots__ = ("body", "bound", "count", "marks")

    def __init__(self, stream: Stream, count: int, body: bytes, bound: EntryId) -> None:
        self.count = count
        self.body = body
        self.bound = bound
        self.marks = {slot: _Mark(tree) for slot, tree in stream.trees.items() if tree.count}

    def holds(self, stream: Stream) -> bool:
        live = sum([1 for tree in stream.trees.values() if tree.count])
        if live != len(self.marks):
            return False
        return all(mark.holds(stream.trees.get(slot), self.bound) for slot, mark in self.marks.items())


class MergedRanges:
    """Memos by what was asked, the oldest first."""

    __slots__ = ("_memos", "byte_count", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.byte_count = 0
        self._memos: dict[Asked, _Memo] = {}

    def range(
        self, key: Key, stream: Stream, start: EntryId, end: EntryId, count: int, reverse: bool
    ) -> tuple[int, list[bytes]]:
        """As `Stream.range`."""
        if len(stream.trees) < 2:
            return stream.range(start, end, count, reverse)
        asked = (key, start, end, count, reverse)
        memo = self._memos.get(asked)
        if memo is not None:
            if memo.holds(stream):
                return memo.count, [memo.body]
            self._forget(asked)
        found = stream.slices(start, end, count, reverse)
        if len(found) < 2:
            return joined(found, count, reverse)
        runs = merge(found, count, reverse)
        taken, chunks = read_runs(runs, reverse)
        bound = runs[-1].block.id_at(runs[-1].high - 1) if taken == count and not reverse else end
        body = b"".join(chunks)
        self._remember(asked, _Memo(stream, taken, body, bound))
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
            self._forget(next(iter(self._memos)))

    def _forget(self, asked: Asked) -> None:
        self.byte_count -= len(self._memos.pop(asked).body) + MEMO_BYTES

    def check(self) -> None:
        held = sum(len(memo.body) + MEMO_BYTES for memo in self._memos.values())
        assert held == self.byte_count <= self.bytes_max, "memos exceed what is counted or permitted"
