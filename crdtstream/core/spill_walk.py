"""Spilling the blocks that nobody reads (core/entries/spilled.py), a little at a time, while more is in memory than is
asked for.

A walk counts what blocks take in memory. On its way it spills each block that the checkpoint in force has, and that
nobody read since the walk before, until no more than the target is left. So what is spilled is chosen as by a clock
with one hand: a block that is read stays for another round.

A block may be spilled without the sum of its entries, and then a digest or an audit reads it. While a digest is under
way it gets its sum first: the digest does not come back to blocks that it has passed, and what it lacks in the end it
would have to read at once.

Never spilled are the last block of a tree, what no checkpoint has packed, and a first block of which entries were
trimmed, because every look at the first ID would read it.

Nearly all spilled blocks of a tree lie before the others. A short walk passes over them, so that it takes no longer the
more is on the disk. What there is in memory among them it knows from the last whole walk and from the removals since,
which replace a spilled block by one in memory. A whole walk follows once that is much, or after some short ones.

`hot_bytes` is an estimate: what the last walk counted, with what was written since it began.

Reference: the clock algorithm of Corbató (1968).
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.block_walk import BlockWalk
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.groups.group import Group
from crdtstream.core.keyspace import Keyspace

# In visits of a block that needs nothing.
SPILL_COST: Final = 40
SUM_COST: Final = 6_000
BLOCKS_A_VISIT: Final = 32
# A short walk begins behind so many spilled blocks in a row.
RUN_BLOCKS: Final = 32
SHORT_WALKS_MAX: Final = 15
# A whole walk follows where more than this part of the target may be spilled among what short ones pass over.
PASSED_PARTS: Final = 8
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

    def add(self, other: BoundBytes) -> None:
        self.last += other.last
        self.unsaved += other.unsaved
        self.trimmed += other.trimmed
        self.pending += other.pending


class Found:
    """What a walk found: what blocks take in memory, and which part of that is bound."""

    __slots__ = ("bound", "held_bytes")

    def __init__(self) -> None:
        self.held_bytes = 0
        self.bound = BoundBytes()

    def add(self, other: Found) -> None:
        self.held_bytes += other.held_bytes
        self.bound.add(other.bound)


class SpillWalk(BlockWalk):
    """The walks of one region; `bound` is what the last one found that cannot be spilled yet."""

    __slots__ = (
        "_before_bytes",
        "_found",
        "_is_short",
        "_left",
        "_open_blocks",
        "_passed",
        "_passed_to",
        "_rewritten_bytes",
        "_short_walks_left",
        "_spilled",
        "_spilled_bytes",
        "_target_bytes",
        "bound",
        "freed_bytes",
        "grown_bytes",
        "read_on",
        "spilled_blocks",
        "spilled_bytes",
        "spills",
        "walked_bytes",
    )

    def __init__(self, keyspace: Keyspace, open_blocks: OpenBlockCache) -> None:
        super().__init__(keyspace)
        self._open_blocks = open_blocks
        # What the last walk left in memory, and which part of that cannot be spilled.
        self.walked_bytes = 0
        self.bound = BoundBytes()
        # What was written since the last walk began.
        self.grown_bytes = 0
        # What removals had made of spilled blocks when the last walk began: the log shows nothing of that.
        self._rewritten_bytes = 0
        # As the last walk found them, and how many blocks, and bytes, were spilled since the start.
        self.spilled_blocks = 0
        self.spilled_bytes = 0
        self.spills = 0
        self.freed_bytes = 0
        # Whether the last walk left blocks only because they had been read.
        self.read_on = False
        # While one walks: what was written between the walk before and this one, which will have counted it.
        self._before_bytes = 0
        self._target_bytes = 0
        self._spilled = self._spilled_bytes = self._left = 0
        # What this walk found, and what the last whole one did in blocks that a short one passes over.
        self._found, self._passed = Found(), Found()
        # Blocks of this tree below this number are such.
        self._passed_to = 0
        self._is_short = False
        self._short_walks_left = 0

    def hot_bytes(self) -> int:
        """What blocks take in memory, about."""
        return self.walked_bytes + self._written_bytes()

    def changed_bytes(self) -> int:
        """What was written since the last walk began, and what removals made of spilled blocks."""
        return self.grown_bytes + self._new_rewritten_bytes()

    def rewritten_bytes(self) -> int:
        """What removals made of spilled blocks since the start."""
        return self._open_blocks.rewritten_bytes

    def unsaved_bytes(self) -> int:
        """Of these what no checkpoint has yet."""
        return self.bound.unsaved + self._written_bytes()

    def unspillable_bytes(self) -> int:
        """Of these what cannot be spilled now."""
        return self.bound.total() + self._written_bytes()

    def _written_bytes(self) -> int:
        """What was written since the last walk began that has ended."""
        return self._before_bytes + self.changed_bytes()

    def _new_rewritten_bytes(self) -> int:
        return self._open_blocks.rewritten_bytes - self._rewritten_bytes

    def begin(self, target_bytes: int) -> None:
        """Begin a walk that spills until about so much is left."""
        assert not self.walking
        self._target_bytes = target_bytes
        self._left = self.hot_bytes() - target_bytes
        rewritten_bytes, self._rewritten_bytes = self._new_rewritten_bytes(), self._open_blocks.rewritten_bytes
        self._before_bytes, self.grown_bytes = self.grown_bytes + rewritten_bytes, 0
        self._found = Found()
        passed = self._passed
        passed.held_bytes += rewritten_bytes
        passed.bound.unsaved += rewritten_bytes
        is_much = passed.held_bytes - passed.bound.trimmed > target_bytes // PASSED_PARTS
        self._is_short = self._short_walks_left > 0 and not is_much
        if self._is_short:
            self._short_walks_left -= 1
            self._spilled, self._spilled_bytes = self.spilled_blocks, self.spilled_bytes
        else:
            self._short_walks_left = SHORT_WALKS_MAX
            self._spilled = self._spilled_bytes = 0
            self._passed = Found()
        self.read_on = False
        self._restart()

    def _visit_tree(self, tree: EntryTree) -> int:
        if not self._at:
            self._passed_to = tree.spilled_before(RUN_BLOCKS)
            self._at = self._passed_to if self._is_short else 0
        blocks = tree.resting(self._at, BLOCKS_A_VISIT)
        if not blocks:
            tail_bytes = tree.tail.held_bytes()
            self._found.held_bytes += tail_bytes
            self._found.bound.last += tail_bytes
            self._leave_tree()
            return 1
        cost = 1
        for block in blocks:
            may_spill = block.handle is not None and (self._at > 0 or tree.starts_whole())
            cost += self._visit(block, may_spill)
            self._at += 1
            if cost >= SUM_COST:
                break
        return cost

    def _visit(self, block: Block, may_spill: bool) -> int:
        cost = 1
        was_spilled = block.is_spilled()
        if may_spill and self._left > 0 and not was_spilled:
            if block.read:
                block.read = False
                self.read_on = True
            else:
                cost += self._spill(block)
        held_bytes = block.held_bytes()
        found = self._passed if self._at < self._passed_to else self._found
        found.held_bytes += held_bytes
        if block.is_spilled():
            if not (was_spilled and self._is_short):
                self._spilled += 1
                self._spilled_bytes += 0 if block.handle is None else block.handle.length
        elif block.handle is None:
            found.bound.unsaved += held_bytes
        elif not may_spill:
            found.bound.trimmed += held_bytes
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
            self._found.bound.pending += group.pending.count * PENDING_BYTES

    def _end(self) -> None:
        found = self._found
        found.add(self._passed)
        self.walked_bytes, self.bound, self._before_bytes = found.held_bytes, found.bound, 0
        self.spilled_blocks, self.spilled_bytes = self._spilled, self._spilled_bytes
