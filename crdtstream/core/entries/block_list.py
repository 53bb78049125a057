"""The blocks of an entry tree in ID order, and how entries are removed from them.

Only the last block, the *tail*, grows. A block that stops being the tail is sealed, and stays sealed even if it becomes
the last block again.

The first block may start with `_head` entries that are already removed: a trim only raises `_head` and drops whole
blocks, and copies nothing. Any other removal replaces the block by a new one (core/entries/block.py), together with the
block before if little is left of it. Indexes `[low, high)` are low inclusive, high exclusive; ranges of counters
include both ends.

Replacing a block copies it, so a few removed entries are only noted, as its *deleted rows*, and cut out together: once
they are many, or something other than a search or a removal looks at the block, which is then *settled*. A settled
block keeps its index, so a caller's indexes of blocks stay valid. The last block has no deleted rows, and `_head` is
not a deleted row of the first one.

Spilled blocks (core/entries/spilled.py) have no deleted rows, the last block is not spilled, and neither is a first one
with a `_head`: every look at the last or the first ID would read it. A block that would become one of these is copied,
while it is open for the removal.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from crdtstream.core.entries.block import BLOCK_BYTES, BLOCK_ENTRIES, Block
from crdtstream.core.entries.deleted_rows import DeletedRows
from crdtstream.core.entries.slices import Slice, packed
from crdtstream.core.values.chain import Extent
from crdtstream.core.values.entry_id import U64_MAX, EntryId

# A block left smaller than this by removals is merged with the one before it.
SPARSE_ENTRIES: Final = 64
# From so many IDs or pieces of one block on, the block is visited as a whole.
DENSE_IDS: Final = 8
# So many blocks of a tree have deleted rows at most, which limits what a visit of the whole tree has to settle.
BLOCKS_WITH_DELETED_ROWS: Final = 2048

# The tail of no blocks: sealed, never written, and below all entries, so nobody needs a test for None.
NO_TAIL: Final = Block()
NO_TAIL.seal()
# The deleted rows of most trees: all of them share this, which stays empty.
_NONE_DELETED: Final[dict[int, DeletedRows]] = {}


def is_cold(block: Block) -> bool:
    """True if the block is spilled, even if it is open now."""
    return block.packed_form is not None and block.packed_form.spilled


def surely_ends_by(block: Block, counter: int) -> bool:
    """True if no entry has a higher counter, and that shows without opening the block."""
    return not block.lists_counters() and block.counter_at(block.count - 1) <= counter


def count_change(near: list[Block], count: int, fresh: list[Block]) -> None:
    """Count how much more memory `fresh` takes than the first `count` of these blocks, or how much less, if one of all
    these is spilled. The block behind is one, because a first block is dropped before the next one takes its place.
    """
    for block in near:
        if is_cold(block) and block.packed_form is not None:
            before_bytes = sum([one.closed_bytes() for one in near[:count] if not is_cold(one)])
            more_bytes = sum([one.held_bytes() for one in fresh]) - before_bytes
            block.packed_form.open_blocks.rewritten_bytes += more_bytes
            break


def hot_copy(block: Block, low: int) -> Block:
    """The entries of a spilled block from `low` on, in memory."""
    return block.joined([(low, block.count)])


def counted_copy(block: Block, low: int) -> Block:
    """The same, where nothing else counts that it takes memory."""
    copy = hot_copy(block, low)
    if block.packed_form is not None:
        block.packed_form.open_blocks.rewritten_bytes += copy.held_bytes()
    return copy


class BlockList(Extent):
    """Blocks in ID order, of which any entries can be removed."""

    __slots__ = ("_blocks", "_deleted", "_head", "_low_counters", "_low_ids", "byte_count", "cold_end", "count", "tail")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.byte_count = 0
        self._blocks: list[Block] = []
        # ID and counter of each block's first entry, even if that entry is removed.
        self._low_ids: list[EntryId] = []
        self._low_counters: list[int] = []
        self._head = 0
        # All blocks from index 1 on below this one are spilled, as walks over blocks found them.
        self.cold_end = 0
        # The first counter of a block -> its deleted rows.
        self._deleted = _NONE_DELETED
        self.tail = NO_TAIL

    def _low_of(self, at: int) -> int:
        """The index of the first live entry in the block at index `at`."""
        return self._head if at == 0 else 0

    def remove_counters(self, low: int, high: int) -> list[EntryId]:
        """Remove the entries with counters from low to high, both inclusive; returns their IDs, ascending."""
        removed: list[EntryId] = []
        self._remove_between(low, high, removed)
        return removed

    def _remove_between(self, low: int, high: int, removed: list[EntryId] | None) -> None:
        """Remove the entries with these counters, and tell their IDs, for which all their blocks are opened, if that is
        asked for.
        """
        first = max(bisect_right(self._low_counters, low) - 1, 0)
        last = self._settled_through(first, high)
        if last < first:
            return
        start = max(self._blocks[first].lower_bound_counter(low), self._low_of(first))
        stop = self._blocks[last].lower_bound_counter(high + 1)
        if start == self._blocks[first].count:
            first, start = first + 1, 0
        if first > last or (first == last and start >= stop):
            return
        pieces = self._pieces(first, start, last, stop)
        if removed is not None:
            for piece in pieces:
                removed += piece.block.ids(piece.low, piece.high)
        self._cut(pieces, first, last)

    def remove_ranges(self, ranges: list[tuple[int, int]]) -> None:
        """Remove the entries with counters in these ascending ranges; ranges within one block replace it once."""
        end = len(ranges)
        while end > 0:
            # Backwards, because a removal changes the numbers of the blocks after it.
            at = bisect_right(self._low_counters, ranges[end - 1][1]) - 1
            start = end - 1
            while start > 0 and at >= 0 and ranges[start][0] >= self._low_counters[at]:
                start -= 1
            if start < end - 1 and ranges[start][0] < self._low_counters[at]:
                start += 1
            if not self._dig(at, ranges[start:end]):
                if start == end - 1:
                    self._remove_between(*ranges[start], None)
                else:
                    self._punch(at, ranges[start:end])
            end = start

    def _dig(self, at: int, ranges: list[tuple[int, int]]) -> bool:
        """Record ranges that end in this block as deleted rows; false if nothing would be left of it, or they begin
        before.
        """
        if at < 0 or at + 1 == len(self._blocks) or ranges[0][0] < self._low_counters[at]:
            return False
        block, low = self._blocks[at], self._low_of(at)
        if is_cold(block):
            # Deleted rows are cut out later, when nothing may wait for the block: so it is replaced now.
            return False
        deleted = self._deleted.get(self._low_counters[at]) or DeletedRows()
        removed = deleted.fresh(block, low, ranges)
        size = sum([block.byte_size(index, index + 1) for index in removed])
        if not removed:
            return True
        if len(removed) >= block.count - low - deleted.count():
            return False
        deleted.add(removed, size)
        self.count -= len(removed)
        self.byte_count -= size
        self._record_deleted(at, deleted)
        return True

    def _record_deleted(self, at: int, deleted: DeletedRows) -> None:
        if at == 0:
            self._head = deleted.absorb_from(self._head, self._blocks[0])
        if not deleted.count():
            self._deleted.pop(self._low_counters[at], None)
            return
        if not self._deleted:
            self._deleted = {}
        self._deleted[self._low_counters[at]] = deleted
        if deleted.are_many(self._blocks[at]):
            block = self._settled(at)
            if block.count < SPARSE_ENTRIES:
                self._replace(at, at, [Slice(block, 0, block.count)])
        elif len(self._deleted) > BLOCKS_WITH_DELETED_ROWS:
            self._cut_deleted(bisect_right(self._low_counters, next(iter(self._deleted))) - 1)

    def _settled(self, at: int) -> Block:
        """The block at index `at`, without deleted rows."""
        if self._deleted:
            self._cut_deleted(at)
        return self._blocks[at]

    def _cut_deleted(self, at: int) -> None:
        """Cut the deleted rows out of the block at index `at`."""
        deleted = self._deleted.pop(self._low_counters[at], None)
        if deleted is None:
            return
        block = self._blocks[at].joined(deleted.between(self._low_of(at), self._blocks[at].count))
        if at == 0:
            self._head = 0
        self._put(at, at + 1, [block])

    def _cut_all_deleted(self, first: int = 0, last: int = -1) -> None:
        """Settle the blocks from index `first` to `last`, both inclusive; all of them without bounds."""
        if not self._deleted:
            return
        low, high = self._low_counters[first], self._low_counters[last]
        for key in [key for key in self._deleted if low <= key <= high]:
            self._cut_deleted(bisect_right(self._low_counters, key) - 1)

    def _settled_through(self, first: int, counter: int) -> int:
        """Settle the blocks from index `first` on that begin up to this counter; returns the last that then does."""
        last = bisect_right(self._low_counters, counter) - 1
        if not self._deleted or last < first:
            return last
        self._cut_all_deleted(first, last)
        return bisect_right(self._low_counters, counter) - 1

    def _punch(self, at: int, ranges: list[tuple[int, int]]) -> None:
        """Remove several ranges that begin in this block and end in it, or behind its last entry."""
        self._settled(at)
        block, low = self._blocks[at], self._low_of(at)
        pieces = block.outside(low, ranges)
        if pieces == [(low, block.count)]:
            return
        kept = [Slice(block, start, stop) for start, stop in pieces]
        if len(pieces) >= DENSE_IDS:
            joined = block.joined(pieces)
            kept = [Slice(joined, 0, joined.count)]
        left = sum([part.count() for part in kept])
        self.count += left - block.count + low
        self.byte_count += sum([part.block.byte_size(part.low, part.high) for part in kept])
        self.byte_count -= block.byte_size(low, block.count)
        if len(kept) == 1 and left >= SPARSE_ENTRIES and len(pieces) > 1:
            self._head = self._head if at else 0
            self._put(at, at + 1, [kept[0].block])
        else:
            self._replace(at, at, kept)

    def remove_through(self, counter: int) -> int:
        """Remove the entries with counters up to this one, inclusive; returns how many were removed."""
        last = self._settled_through(0, counter)
        if last < 0:
            return 0
        stop = self._blocks[last].lower_bound_counter(counter + 1)
        if stop <= self._low_of(last):
            return 0
        return self._cut(self._pieces(0, self._head, last, stop), 0, last)

    def _pieces(self, first: int, start: int, last: int, stop: int) -> list[Slice]:
        """The slices from index `start` of block `first` to index `stop` (exclusive) of block `last`."""
        blocks = self._blocks
        if first == last:
            return [Slice(blocks[first], start, stop)]
        pieces = [Slice(blocks[first], start, blocks[first].count)]
        pieces += [Slice(block, 0, block.count) for block in blocks[first + 1 : last]]
        pieces.append(Slice(blocks[last], 0, stop))
        return pieces

    def _cut(self, pieces: list[Slice], first: int, last: int) -> int:
        """Remove these pieces of the blocks `first` to `last`; returns how many entries were removed."""
        count = 0
        for piece in pieces:
            count += piece.high - piece.low
            self.byte_count -= piece.block.byte_size(piece.low, piece.high)
        self.count -= count
        start, stop = pieces[0].low, pieces[-1].high
        if first == 0 and start == self._head:
            self._cut_head(last, stop)
        else:
            self._cut_inside(first, start, last, stop)
        return count

    def _cut_head(self, last: int, stop: int) -> None:
        if stop == self._blocks[last].count:
            last, stop = last + 1, 0
        self._head = stop
        if stop and is_cold(self._blocks[last]):
            self._head = 0
            self._put(0, last + 1, [hot_copy(self._blocks[last], stop)])
        elif last:
            self._put(0, last, [])

    def _cut_inside(self, first: int, start: int, last: int, stop: int) -> None:
        blocks = self._blocks
        rest = [Slice(blocks[first], self._low_of(first), start), Slice(blocks[last], stop, blocks[last].count)]
        self._replace(first, last, rest)

    def _replace(self, first: int, last: int, rest: list[Slice]) -> None:
        """Replace these blocks by what is left of them, together with the block before if that is little."""
        if first > 0 and 0 < sum([part.count() for part in rest]) < SPARSE_ENTRIES:
            block = self._settled(first - 1)
            before = Slice(block, self._low_of(first - 1), block.count)
            has_room = before.count() <= BLOCK_ENTRIES - SPARSE_ENTRIES and before.block.byte_count < BLOCK_BYTES
            if has_room and not is_cold(block):
                first -= 1
                rest.insert(0, before)
        if first == 0:
            self._head = 0
        self._put(first, last + 1, packed(rest))

    def _put(self, first: int, end: int, fresh: list[Block]) -> None:
        """Replace the blocks [first, end) by `fresh`."""
        count_change(self._blocks[first : end + 1], end - first, fresh)
        self._blocks[first:end] = fresh
        self._low_ids[first:end] = [block.id_at(0) for block in fresh]
        self._low_counters[first:end] = [block.counter_at(0) for block in fresh]
        self._limit_cold(first, end, len(fresh))
        if self._blocks and is_cold(self._blocks[-1]):
            self._blocks[-1] = counted_copy(self._blocks[-1], 0)
        self.tail = self._blocks[-1] if self._blocks else NO_TAIL
        for block in fresh:
            if block is not self.tail:
                block.seal()
        if self._deleted:
            self._cut_deleted(0)
            self._cut_deleted(len(self._blocks) - 1)

    def spilled_at_ends(self, ranges: list[tuple[int, int]]) -> list[Block]:
        """The spilled blocks that the removal of these ascending ranges of counters opens: those in which a range
        begins or ends, and those that become the last one. Opens none.
        """
        places: dict[int, None] = {}
        for low, high in ranges if self._blocks else []:
            first, last = self._place_of(low), self._place_of(high)
            if low > self._low_counters[first] and not surely_ends_by(self._blocks[first], low - 1):
                places[first] = None
            if high >= self._low_counters[last] and not surely_ends_by(self._blocks[last], high):
                places[last] = None
        for at in self._last_for_a_moment(ranges):
            places[at] = None
        return [self._blocks[at] for at in sorted(places) if self._blocks[at].is_spilled()]

    def listed_between(self, low: int, high: int) -> list[Block]:
        """The spilled blocks that are opened for the counters from low to high, both inclusive; opens none."""
        if not self._blocks:
            return []
        near = self._blocks[self._place_of(low) : self._place_of(high) + 1]
        return [block for block in near if block.is_spilled() and block.lists_counters()]

    def last_counter_of(self, counter: int, blocks: int) -> int:
        """The highest counter that may be in so many blocks, from that one on in which this counter would be."""
        at = self._place_of(counter) + blocks
        return self._low_counters[at] - 1 if at < len(self._low_counters) else U64_MAX

    def surely_lacks(self, low: int, high: int) -> bool:
        """True if all entries are below or above these counters, both inclusive; opens no block."""
        if not self._blocks or low > high or high < self._low_counters[0]:
            return True
        return self.tail.counter_at(self.tail.count - 1) < low

    def _place_of(self, counter: int) -> int:
        return max(bisect_right(self._low_counters, counter) - 1, 0)

    def _last_for_a_moment(self, ranges: list[tuple[int, int]]) -> list[int]:
        """The indexes of the blocks that are the last one, now or once what lies behind them was removed: what one
        range has is removed at once. It ends with a block of which these ascending ranges leave something. All ranges
        behind that are looked at, hence few of them, unless much is removed at the end.
        """
        found: list[int] = []
        at, end = len(self._blocks) - 1, len(ranges)
        high = ranges[-1][1] if ranges else 0
        while at >= 0:
            low, covered, at_once = self._low_counters[at], 0, False
            while end > 0 and ranges[end - 1][1] >= low:
                first, last = ranges[end - 1]
                covered += min(last, high) - max(first, low) + 1
                at_once = first <= low and at + 1 < len(self._blocks) and last >= self._low_counters[at + 1]
                if first < low:
                    break
                end -= 1
            if not at_once:
                found.append(at)
            if covered < self._blocks[at].count - self._low_of(at):
                break
            high = low - 1
            at -= 1
        return found

    def extend_cold(self, at: int) -> None:
        """Count the block at index `at` among the first ones if it is spilled, and the next behind them."""
        if at == max(self.cold_end, 1) and is_cold(self._blocks[at]):
            self.cold_end = at + 1

    def _limit_cold(self, first: int, end: int, count: int) -> None:
        """The blocks [first, end) were replaced by `count` others, in memory."""
        if first < self.cold_end:
            # What replaces the first block may be in memory, and those behind only moved.
            moved = first == 0 and count <= 1
            self.cold_end = self.cold_end - end + count if moved else first
        self.cold_end = max(min(self.cold_end, len(self._blocks) - 1), 0)

    def check_spilled(self) -> None:
        assert not is_cold(self.tail), "the last block is spilled"
        assert not self._head or not is_cold(self._blocks[0]), "a first block with removed entries is spilled"
        assert all(is_cold(block) for block in self._blocks[1 : self.cold_end]), "a walk would pass over what is hot"
        assert self.cold_end <= max(len(self._blocks) - 1, 0), "a walk would pass over the last block"

    def check_deleted(self) -> tuple[int, int]:
        """How many entries are deleted rows, and their bytes."""
        places = {low: at for at, low in enumerate(self._low_counters)}
        assert not _NONE_DELETED, "a tree wrote to what all share"
        assert len(self._deleted) <= BLOCKS_WITH_DELETED_ROWS, "too many blocks have deleted rows"
        for key, deleted in self._deleted.items():
            at = places[key]
            assert at + 1 < len(self._blocks), "the last block has deleted rows"
            deleted.check(self._blocks[at], self._low_of(at) + 1 if at == 0 else 0)
        noted = self._deleted.values()
        return sum(deleted.count() for deleted in noted), sum(deleted.byte_count for deleted in noted)
