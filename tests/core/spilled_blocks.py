"""Spilled blocks in tests: all of a region's that can be spilled are, into a file that never has anything at once."""

from __future__ import annotations

import errno
from zlib import crc32

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.entries.spilled import BlockHandle
from crdtstream.core.keyspace import Keyspace

ALL_BLOCKS = 1 << 30


class SlowFile:
    """A block file in memory. Of what it has, nothing is there at once, unless it `is_cached`."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_cached = False
        self.fails = False
        # How many blocks were read, at once or not.
        self.reads = 0

    def at_once(self, offset: int, length: int) -> bytes | None:
        return self.read(offset, length) if self.is_cached else None

    def read(self, offset: int, length: int) -> bytes:
        self.reads += 1
        if self.fails:
            raise OSError(errno.EIO, "the disk failed")
        return bytes(self.data[offset : offset + length])

    def keep(self, block: Block) -> bool:
        """Write the packed form of a block, as a checkpoint does that is then in force; false if it has none."""
        form = block.packed_form
        if form is None or not form.packed:
            return False
        layout, offset = form.in_column_layout, len(self.data)
        self.data += form.packed
        block.lie_at(BlockHandle(self, offset, len(form.packed), crc32(form.packed), layout))
        return True


def spill_tree(tree: EntryTree, file: SlowFile, open_blocks: OpenBlockCache, sums: bool = True) -> int:
    """Spill the blocks of a tree that can be, with their sums known or not; returns how many are spilled."""
    for at, block in enumerate(tree.resting(0, ALL_BLOCKS)):
        if at > 0 or tree.starts_whole():
            spill_block(block, file, open_blocks, sums)
        tree.extend_cold(at)
    age(open_blocks)
    return sum([block.is_spilled() for block in tree.resting(0, ALL_BLOCKS)])


def spill_block(block: Block, file: SlowFile, open_blocks: OpenBlockCache, sums: bool = True) -> None:
    if sums and not block.is_spilled():
        block.checksum()
    if block.packed_form is None:
        block.pack(open_blocks)
    if file.keep(block) or (block.handle is not None and not block.is_spilled()):
        block.spill(open_blocks)
    block.read = False


def spill_all(keyspace: Keyspace, file: SlowFile, open_blocks: OpenBlockCache, sums: bool = True) -> int:
    """Spill all blocks of a region that can be; returns how many are spilled then."""
    open_blocks.reads.on = True
    trees = [tree for _, stream in keyspace.streams() for tree in stream.trees.values()]
    return sum([spill_tree(tree, file, open_blocks, sums) for tree in trees])


def age(open_blocks: OpenBlockCache) -> None:
    """Close all blocks that have a packed form, or their handle."""
    for _ in range(2):
        open_blocks.age()
