"""Slices of blocks, and how they are copied into blocks of their own: see core/entries/entry_tree.py."""

from __future__ import annotations

from crdtstream.core.entries.block import Block
from crdtstream.core.values.entry_id import EntryId


class Slice:
    """The entries [low, high) of a block."""

    __slots__ = ("block", "high", "low")

    def __init__(self, block: Block, low: int, high: int) -> None:
        self.block = block
        self.low = low
        self.high = high

    def entries(self) -> bytes:
        """The bytes of all entries, concatenated: the body of a reply."""
        return self.block.entry_slice(self.low, self.high)

    def ids(self) -> list[EntryId]:
        return self.block.ids(self.low, self.high)

    def count(self) -> int:
        return self.high - self.low

    def __repr__(self) -> str:
        return f"Slice({self.low}, {self.high})"


def packed(slices: list[Slice]) -> list[Block]:
    """Copy these slices into new blocks, as few as the size limits allow without splitting a slice."""
    packed: list[Block] = []
    for piece in slices:
        if piece.count() == 0:
            continue
        if not packed or not packed[-1].extend(piece.block, piece.low, piece.high):
            packed.append(Block())
            packed[-1].extend(piece.block, piece.low, piece.high)
    return packed
