"""Entry trees of small blocks, and what they hold as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from crdtstream.core.entries import block, block_list, entry_tree
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.slices import Slice
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId

Row = tuple[EntryId, int, bytes]

ALL = (ID_MIN, ID_MAX)


@contextmanager
def small_blocks() -> Iterator[None]:
    """Small limits, so that short examples cross many blocks."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (block, block_list, entry_tree):
            patch.setattr(module, "BLOCK_ENTRIES", 8)
            patch.setattr(module, "BLOCK_BYTES", 400)
        patch.setattr(entry_tree, "ADOPT_ENTRIES", 3)
        patch.setattr(entry_tree, "ADOPT_BYTES", 150)
        patch.setattr(block_list, "DENSE_IDS", 2)
        patch.setattr(block_list, "SPARSE_ENTRIES", 4)
        yield


def row(entry_id: EntryId, counter: int, size: int = 1) -> Row:
    return (entry_id, counter, encode_entry(entry_id, [b"f", b"v" * size]))


def block_of(rows: list[Row]) -> Block:
    block = Block()
    for one in rows:
        block.append(*one)
    return block


def tree_of(rows: list[Row]) -> EntryTree:
    tree = EntryTree()
    for one in rows:
        tree.append(*one)
    return tree


def rows_of(slices: list[Slice]) -> list[Row]:
    return [(s.block.id_at(i), s.block.counter_at(i), s.block.entry(i)) for s in slices for i in range(s.low, s.high)]


def ranges_of(counters: list[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for counter in counters:
        if ranges and ranges[-1][1] == counter - 1:
            ranges[-1] = (ranges[-1][0], counter)
        else:
            ranges.append((counter, counter))
    return ranges
