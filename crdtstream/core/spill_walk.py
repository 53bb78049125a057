"""Spilling the blocks that nobody reads (core/entries/spilled.py), a little at a time, while more is in memory than is
asked for.

A walk counts what blocks take in memory. Unless it only counts, it spills on its way each block that the checkpoint in
force has, and that nobody read since the walk before, until no more than the target is left. So what is spilled is
chosen as by a clock with one hand: a block that is read stays for another round.

A block may be spilled without the sum of its entries, and then a digest or an audit reads it. While a digest is under
way it gets its sum first: the digest does not come back to blocks that it has passed, and what it lacks in the end it
would have to read at once.

Never spilled are the last block of a tree, what no checkpoint has packed, and a first block of which entries were
trimmed, because every look at the first ID would read it.

Most spilled blocks of a tree follow each other from its beginning on. A tree knows where they end (`cold_end`), and
most walks go on there, so that they take no longer the more is on the disk. What such a walk passes over is in memory
only while a reader has it open. Now and then, and after many removals from spilled blocks, a walk visits all blocks,
and counts those that are spilled.

`hot_bytes` is an estimate: what the last walk counted, with what was written to the log since it began, and what
removals made of spilled blocks. It exceeds what there is where much was trimmed since, or delivered to groups.

Reference: the clock algorithm of Corbató (1968).
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.block_walk import BlockWalk
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.block_list import is_cold
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.groups.group import Group
from crdtstream.core.keyspace import Keyspace

# In visits of a block that needs nothing.
SPILL_COST: Final = 40
SUM_COST: Final = 6_000
BLOCKS_A_VISIT: Final = 32
# So many walks follow each other that pass over spilled blocks.
PASSING_WALKS: Final = 15
# Where removals changed more than this part of what a walk leaves, it visits all blocks.
REWRITTEN_PARTS: Final = 4
# Of a pending entry: its row in columns of plain numbers.
PENDING_BYTES: Final = 36


class BoundBytes:
    """What blocks take that cannot be spilled: the `last` ones of trees, `unsaved` ones, and first ones of which
    entries were `trimmed`. What `pending` entries take besides is in no block.
    """

    __slots__ = ("last", "pending", "trimmed", "unsaved")

    def __init__(self) -> None:
        self.last = 0
        self.unsaved = 0
        self.trimmed = 0
        self.pending = 0

    def total(self) -> int:
        """What all blocks among these take."""
        return self.last + self.unsaved + self.trimmed


class SpillWalk(BlockWalk):
    """The walks of one region; `bound` is what the last one found that cannot be spilled yet."""

    __slots__ = (
        "_before_bytes",
        "_bound",
        "_counted",
        "_left",
        "_open_blocks",
        "_passes",
        "_passing_walks_left",
        "_rewritten_bytes",
        "_spilled",
        "_spilled_bytes",
        "bound",
        "freed_bytes",
        "grown_bytes",
        "only_counts",
        "read_on",
        "spilled_blocks",
        "spilled_bytes",
        "spills",
        "target_bytes",
        "walked_bytes",
    )

    def __init__(self, keyspace: Keyspace, open_blocks: OpenBlockCache) -> None:
        super().__init__(keyspace)
        self._open_blocks = open_blocks
        # What the last walk left in memory; by how much that has grown, about, since the last one began; what cannot be
        # spilled.
        self.walked_bytes = 0
        self.grown_bytes = 0
        self.bound = BoundBytes()
        # As the last walk that visited all blocks found them, with what was spilled since; and how many blocks, and
        # bytes, were spilled since the start.
        self.spilled_blocks = 0
        self.spilled_bytes = 0
        self.spills = 0
        self.freed_bytes = 0
        # Whether the last walk left blocks only because they had been read.
        self.read_on = False
        # While one walks: what was written between the walk before and this one, which will have counted it.
        self._before_bytes = 0
        # What the last walk was to leave, and whether it spilled nothing.
        self.target_bytes = 0
        self.only_counts = False
        self._bound = BoundBytes()
        self._counted = self._spilled = self._spilled_bytes = self._left = 0
        # What removals had changed when a walk visited all blocks last.
        self._rewritten_bytes = 0
        # Whether this walk passes over spilled blocks, and how many more will.
        self._passes = False
        self._passing_walks_left = 0

    def hot_bytes(self) -> int:
        """What blocks take in memory, about."""
        return max(self.walked_bytes + self._written_bytes(), 0)

    def unsaved_bytes(self) -> int:
        """Of these what no checkpoint has yet."""
        return max(self.bound.unsaved + self._written_bytes(), 0)

    def unspillable_bytes(self) -> int:
        """Of these what cannot be spilled now."""
        return max(self.bound.total() + self._written_bytes(), 0)

    def _written_bytes(self) -> int:
        """What was written since the last walk began that has ended."""
        return self._before_bytes + self.grown_bytes

    def begin(self, target_bytes: int, only_counts: bool = False) -> None:
        """Begin a walk that spills until about so much is left, or only counts."""
        assert not self.walking
        self.target_bytes, self.only_counts = target_bytes, only_counts
        self._left = 0 if only_counts else self.hot_bytes() - target_bytes
        self._before_bytes, self.grown_bytes = self.grown_bytes, 0
        self._bound = BoundBytes()
        self._counted = 0
        rewritten_bytes = self._open_blocks.rewritten_bytes - self._rewritten_bytes
        self._passes = self._passing_walks_left > 0 and abs(rewritten_bytes) <= target_bytes // REWRITTEN_PARTS
        if self._passes:
            self._passing_walks_left -= 1
            self._spilled, self._spilled_bytes = self.spilled_blocks, self.spilled_bytes
        else:
            self._passing_walks_left = PASSING_WALKS
            self._rewritten_bytes = self._open_blocks.rewritten_bytes
            self._spilled = self._spilled_bytes = 0
        self.read_on = False
        self._restart()

    def _visit_tree(self, tree: EntryTree) -> int:
        if self._at == 1 and self._passes:
            self._at = max(tree.cold_end, 1)
        # The first block alone: it may be in memory before all those that are passed over.
        blocks = tree.resting(self._at, BLOCKS_A_VISIT if self._at else 1)
        if not blocks:
            tail_bytes = tree.tail.held_bytes()
            self._counted += tail_bytes
            self._bound.last += tail_bytes
            self._leave_tree()
            return 1
        cost = 1
        for block in blocks:
            may_spill = block.handle is not None and (self._at > 0 or tree.starts_whole())
            cost += self._visit(block, may_spill)
            tree.extend_cold(self._at)
            self._at += 1
            if cost >= SUM_COST:
                break
        return cost

    def _visit(self, block: Block, may_spill: bool) -> int:
        cost = 1
        was_cold = is_cold(block)
        if may_spill and self._left > 0 and not block.is_spilled():
            if block.read:
                block.read = False
                self.read_on = True
            else:
                cost += self._spill(block)
        held_bytes = block.held_bytes()
        self._counted += held_bytes
        if is_cold(block):
            if not (was_cold and self._passes):
                self._spilled += 1
                self._spilled_bytes += 0 if block.handle is None else block.handle.length
        elif block.handle is None:
            self._bound.unsaved += held_bytes
        elif not may_spill:
            self._bound.trimmed += held_bytes
        return cost

    def _spill(self, block: Block) -> int:
        cost = SPILL_COST
        if block.unsummed() and self._keyspace.digests:
            cost += SUM_COST
            block.checksum()
        saved_bytes = block.spill(self._open_blocks)
        self._left -= saved_bytes
        self.freed_bytes += saved_bytes
        self._open_blocks.reads.on = True
        self.spills += 1
        return cost

    def _visit_groups(self, groups: list[Group]) -> None:
        for group in groups:
            self._bound.pending += group.pending.count * PENDING_BYTES

    def _end(self) -> None:
        self.walked_bytes, self.bound, self._before_bytes = self._counted, self._bound, 0
        # What was removed meanwhile this walk may have found no more.
        self.grown_bytes = max(self.grown_bytes, 0)
        self.spilled_blocks, self.spilled_bytes = self._spilled, self._spilled_bytes
