"""Packing the blocks that nobody reads (core/entries/packed_block.py), a little at a time, while a region has nothing
else to do.

A walk (core/block_walk.py) visits every sealed block but the last of each tree. A block that was read since the walk
before is left as it is; one that was not is packed. So a block is packed once nobody has read it for between one and
two times `after_ms`, the least time from the beginning of one walk to the beginning of the next. A walk also packs what
was opened and has not been read since, and tries column layout for what a checkpoint has packed.

What other regions wrote arrives in batches, each of which is a block of its own if it is not very small. Small blocks
that follow each other, and that nobody read since the walk before, are gathered into full ones before they are packed:
a page then opens fewer. Those that are packed already stay as they are.

Spilled blocks are left alone.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.block_walk import BlockWalk
from crdtstream.core.entries.block import BLOCK_BYTES, BLOCK_ENTRIES, Block
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.packed_block import BlockDamaged, Content, OpenBlockCache, PackedForm
from crdtstream.core.keyspace import Keyspace

# In visits of a block that needs nothing.
PACK_COST: Final = 1_000
BLOCKS_A_VISIT: Final = 32
OPEN_BYTES_MAX: Final = 64 << 20
# A block that holds less than this part of what it could is filled up before it is packed.
FULL: Final = 3 / 4


class Census:
    """What a walk found: sealed blocks, those of them that need no packing any more, and the bytes of packed forms."""

    __slots__ = ("blocks", "packed_blocks", "packed_bytes")

    def __init__(self) -> None:
        self.blocks = 0
        self.packed_blocks = 0
        self.packed_bytes = 0


class PackingWalk(BlockWalk):
    """The walks of one region; `census` is of the last one that ended, `saved_bytes` is what packing saved so far."""

    __slots__ = ("_began_ms", "_counted", "census", "damaged", "open_blocks", "packed", "saved_bytes")

    def __init__(self, keyspace: Keyspace) -> None:
        super().__init__(keyspace)
        self.open_blocks = OpenBlockCache(OPEN_BYTES_MAX)
        self.census = Census()
        self.packed = 0
        # Blocks that did not unpack to what was packed.
        self.damaged = 0
        self.saved_bytes = 0
        self._counted = Census()
        self._began_ms = 0

    def step(self, cost_max: int, after_ms: int) -> bool:
        """Walk on for about this cost; true if there is more to do now. An `after_ms` of 0 means no walks."""
        if after_ms == 0:
            self.walking = False
            return False
        if not self.walking and not self._begin(after_ms):
            return False
        return self.go_on(cost_max)

    def _begin(self, after_ms: int) -> bool:
        """Begin a walk if it is time; a clock that was set back counts as time that passed."""
        now_ms = self._keyspace.now_ms
        if 0 <= now_ms - self._began_ms < after_ms:
            return False
        self._began_ms = now_ms
        self._counted = Census()
        self._restart()
        self.open_blocks.age()
        return True

    def _visit_tree(self, tree: EntryTree) -> int:
        blocks = tree.resting(self._at, BLOCKS_A_VISIT)
        if not blocks:
            self._leave_tree()
        cost = 1
        for index, block in enumerate(blocks):
            count = loose_from(blocks, index)
            cost += self._visit(self._gather(tree, count) if count > 1 else block)
            self._at += 1
            # What was gathered is packed too, and not in `blocks`.
            if cost >= PACK_COST:
                break
        return cost

    def _gather(self, tree: EntryTree, count: int) -> Block:
        # A group's read cursor would keep a block in memory that has left the tree.
        for group in self._groups:
            group.invalidate_cursor()
        return tree.gather(self._at, count)

    def _try_column_layout(self, block: Content, packed_form: PackedForm) -> None:
        """Try column layout for a packed block. A damaged one is counted and skipped, so that the region goes on
        serving all others; a client that reads it gets the error.
        """
        try:
            self.saved_bytes += block.try_column_layout()
        except BlockDamaged:
            packed_form.is_layout_tried = True
            self.damaged += 1

    def _visit(self, block: Content) -> int:
        counted = self._counted
        counted.blocks += 1
        cost = 1
        packed_form = block.packed_form
        if packed_form is None:
            if block.read:
                block.read = False
                return cost
            self.saved_bytes += block.pack(self.open_blocks)
            self.packed += 1
            cost = PACK_COST
            packed_form = block.packed_form
        elif packed_form.packed and block.is_packed and not packed_form.is_layout_tried:
            self._try_column_layout(block, packed_form)
            cost = PACK_COST
        assert packed_form is not None
        counted.packed_blocks += 1
        counted.packed_bytes += len(packed_form.packed)
        return cost

    def _end(self) -> None:
        self.census = self._counted

    def check(self) -> None:
        self.open_blocks.check()
        assert self.census.packed_blocks <= self.census.blocks, "more blocks are packed than there are"


def loose_from(blocks: list[Block], index: int) -> int:
    """How many blocks in a row are to be packed from this index on, and small."""
    end = index
    while end < len(blocks) and is_loose(blocks[end]):
        end += 1
    return end - index


def is_loose(block: Block) -> bool:
    is_small = block.count < FULL * BLOCK_ENTRIES and block.byte_count < FULL * BLOCK_BYTES
    return is_small and block.packed_form is None and not block.read
