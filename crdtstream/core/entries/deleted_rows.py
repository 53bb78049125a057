"""Deleted rows: the entries of one block that are removed and not yet cut out; see core/entries/block_list.py."""

from __future__ import annotations

from typing import Final

from crdtstream.core.entries.block import Block

# So large a part of a block's entries and bytes may be deleted rows: 1 of this many.
PART: Final = 4


class DeletedRows:
    """The indexes of the removed entries in their block, and how many bytes these entries have."""

    __slots__ = ("_indexes", "byte_count")

    def __init__(self) -> None:
        self._indexes: set[int] = set()
        self.byte_count = 0

    def count(self) -> int:
        return len(self._indexes)

    def have(self, index: int) -> bool:
        return index in self._indexes

    def fresh(self, block: Block, low: int, ranges: list[tuple[int, int]]) -> list[int]:
        """The indexes from `low` on of the entries with counters in these ascending ranges, both ends inclusive, that
        are not yet deleted rows.
        """
        found: list[int] = []
        for first, last in ranges:
            start = max(block.lower_bound_counter(first), low)
            if first == last:
                low = start
                if start < block.count and block.counter_at(start) == first:
                    low = start + 1
                    if start not in self._indexes:
                        found.append(start)
                continue
            low = max(block.lower_bound_counter(last + 1), low)
            found += [index for index in range(start, low) if index not in self._indexes]
        return found

    def are_many(self, block: Block) -> bool:
        """True if they should be cut out."""
        return len(self._indexes) * PART > block.count or self.byte_count * PART > block.byte_count

    def add(self, indexes: list[int], size: int) -> None:
        self._indexes.update(indexes)
        self.byte_count += size

    def absorb_from(self, head: int, block: Block) -> int:
        """The first index from `head` on that is not a deleted row; those before it no longer are."""
        while head in self._indexes:
            self._indexes.discard(head)
            self.byte_count -= block.byte_size(head, head + 1)
            head += 1
        return head

    def between(self, low: int, high: int) -> list[tuple[int, int]]:
        """What of [low, high) is left beside the deleted rows, as slices."""
        pieces: list[tuple[int, int]] = []
        for index in sorted(self._indexes):
            if low < index:
                pieces.append((low, index))
            low = index + 1
        if low < high:
            pieces.append((low, high))
        return pieces

    def check(self, block: Block, low: int) -> None:
        assert self._indexes, "no row is recorded"
        assert low <= min(self._indexes) and max(self._indexes) < block.count, "a deleted row outside the block"
        size = sum(block.byte_size(index, index + 1) for index in self._indexes)
        assert size == self.byte_count, "the size of the deleted rows is wrong"
        assert not self.are_many(block), "too many deleted rows"
