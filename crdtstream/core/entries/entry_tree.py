"""Entry trees: the entries of one origin in one stream.

A tree is a list of blocks in ID order. IDs and counters both ascend within a tree, because an origin appends above its
own last entry and its effects are applied in its order. Two levels and a bisection are enough where Redis uses a radix
tree, because entries arrive at the end and leave from the head.

Only the last block, the *tail*, grows. How entries are removed is said in core/entries/block_list.py. Indexes `[low,
high)` are low inclusive, high exclusive; ranges of IDs and of counters include both ends.

Reference: `sortedcontainers.SortedList` for two levels of lists; Redis `t_stream.c` for what a range must answer.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Final

from mypy_extensions import i64

from crdtstream.core.entries.block import BLOCK_BYTES, BLOCK_ENTRIES, CHECKSUM_MODULUS, Block, add_counter_ranges
from crdtstream.core.entries.block_list import NO_TAIL, BlockList, counted_copy, is_cold
from crdtstream.core.entries.bursts import Burst
from crdtstream.core.entries.raw_columns import shifted
from crdtstream.core.entries.slices import Slice
from crdtstream.core.values.entry_id import ID_MAX, EntryId, at_most, next_id

# A linked slice at least this large becomes a block of its own; a smaller one is copied to the end of the tail.
ADOPT_ENTRIES: Final = 64
ADOPT_BYTES: Final = 8 * 1024


class EntryTree(BlockList):
    """The entries of one origin in one stream, as blocks in ID order."""

    __slots__ = ()

    # Growing

    def append(self, entry_id: EntryId, counter: int, entry: bytes) -> Block:
        """Append an entry above all others; returns the block that now holds it."""
        tail = self.tail
        if tail.sealed or tail.count >= BLOCK_ENTRIES or tail.byte_count >= BLOCK_BYTES:
            tail = self._begin_tail(entry_id, counter)
        tail.append(entry_id, counter, entry)
        self.count += 1
        self.byte_count += len(entry)
        return tail

    def append_burst(self, burst: Burst, low: int, counter: int) -> tuple[Block, int]:
        """Append the burst's entries from `low` on above all others, as many as one block takes. Returns that block and
        where the rest of the burst begins. The first of them has this counter.
        """
        tail = self.tail
        if tail.sealed or tail.count >= BLOCK_ENTRIES or tail.byte_count >= BLOCK_BYTES:
            tail = self._begin_tail(burst.id_at(low), counter)
        high = burst.fitting(low, BLOCK_ENTRIES - tail.count, BLOCK_BYTES - tail.byte_count)
        ms, seq = burst.id_columns(low, high)
        data = burst.bytes_of(low, high)
        counters = range(counter, counter + high - low)
        tail.append_columns(ms, seq, counters, burst.ends[low:high], burst.start_of(low), data)
        self.count += high - low
        self.byte_count += len(data)
        return tail, high

    def link(self, block: Block, low: int, high: int) -> None:
        """Add the slice [low, high) of a block above all other entries; a large slice is added without visiting its
        entries.

        A block that is added as a whole is sealed, so that its previous owner cannot append to it.
        """
        if low >= high:
            return
        if not block.lies_above(low, self.tail):
            raise ValueError(f"entry {block.id_at(low)} or its counter is not above the tree's last, {self.last_id()}")
        self._link(block, low, high)

    def link_all(self, parts: list[Slice]) -> None:
        """The same for slices of one tree. They ascend, so only the first is compared with what is here: for the others
        two blocks would be opened.
        """
        for part in parts[:1]:
            self.link(part.block, part.low, part.high)
        for part in parts[1:]:
            self._link(part.block, part.low, part.high)

    def _link(self, block: Block, low: int, high: int) -> None:
        size = block.byte_size(low, high)
        if high - low >= ADOPT_ENTRIES or size >= ADOPT_BYTES:
            self._adopt(block, low, high)
        elif not self.tail.extend(block, low, high):
            self._begin_tail(block.id_at(low), block.counter_at(low)).extend(block, low, high)
        self.count += high - low
        self.byte_count += size

    def _adopt(self, block: Block, low: int, high: int) -> None:
        if low == 0 and high == block.count:
            block.seal()
            self._push(block, block.id_at(0), block.counter_at(0))
        else:
            self._begin_tail(block.id_at(low), block.counter_at(low)).extend(block, low, high)

    def _begin_tail(self, entry_id: EntryId, counter: int) -> Block:
        tail = Block()
        self._push(tail, entry_id, counter)
        return tail

    def _push(self, block: Block, entry_id: EntryId, counter: int) -> None:
        self.tail.seal()
        if self._blocks:
            self._blocks.append(block)
            self._low_ids.append(entry_id)
            self._low_counters.append(counter)
        else:
            # Most trees have one block, and a list that is made with one element has no room for more.
            self._blocks, self._low_ids, self._low_counters = [block], [entry_id], [counter]
        self.tail = block

    # Finding

    def first_id(self) -> EntryId | None:
        if not self._head:
            return self._low_ids[0] if self._blocks else None
        return self._blocks[0].id_at(self._head)

    def last_id(self) -> EntryId | None:
        return self.tail.id_at(self.tail.count - 1) if self._blocks else None

    def last_counter(self) -> int:
        return self.tail.counter_at(self.tail.count - 1) if self._blocks else 0

    def find(self, entry_id: EntryId) -> bytes | None:
        found = self._find(entry_id)
        return None if found is None else found[0].entry(found[1])

    def counter_of(self, entry_id: EntryId) -> int:
        """The counter of this entry; 0 if the tree does not hold it."""
        found = self._find(entry_id)
        return 0 if found is None else found[0].counter_at(found[1])

    def counters_of(self, ids: list[EntryId]) -> list[int]:
        """The counter of each of these ascending IDs; 0 for one that the tree does not hold."""
        first, last = self.first_id(), self.last_id()
        if first is None or last is None:
            return [0] * len(ids)
        at, end = bisect_left(ids, first), bisect_right(ids, last)
        found = [0] * at
        while at < end:
            place = bisect_right(self._low_ids, ids[at]) - 1
            stop = end if place + 1 == len(self._low_ids) else bisect_left(ids, self._low_ids[place + 1], at, end)
            self._append_counters(ids, at, stop, place, found)
            at = stop
        return found + [0] * (len(ids) - end)

    def _append_counters(self, ids: list[EntryId], at: int, stop: int, place: int, found: list[int]) -> None:
        """Append the counters of the IDs [at, stop), all of which only this block may hold."""
        block = self._blocks[place]
        held, count = block.raw_ids(), block.count
        index: i64 = -1
        for wanted_ms, wanted_seq in ids[at:stop]:
            ms, seq = shifted(wanted_ms), shifted(wanted_seq)
            # IDs are often given in the order of the entries.
            index += 1
            if index == 0 or index >= count or held.seq_at(index) != seq or held.ms_at(index) != ms:
                index = held.lower_bound(ms, seq, 0, count)
                if index == count or held.seq_at(index) != seq or held.ms_at(index) != ms:
                    found.append(0)
                    continue
            found.append(block.counter_at(index) if self._is_live(place, index) else 0)

    def id_of(self, counter: int) -> EntryId | None:
        at = bisect_right(self._low_counters, counter) - 1
        if at < 0:
            return None
        block = self._blocks[at]
        index = block.lower_bound_counter(counter)
        if index == block.count or block.counter_at(index) != counter or not self._is_live(at, index):
            return None
        return block.id_at(index)

    def _find(self, entry_id: EntryId) -> tuple[Block, int] | None:
        at = bisect_right(self._low_ids, entry_id) - 1
        if at < 0:
            return None
        block = self._blocks[at]
        index = block.lower_bound(entry_id)
        if index == block.count or block.id_at(index) != entry_id or not self._is_live(at, index):
            return None
        return (block, index)

    def _is_live(self, at: int, index: int) -> bool:
        """False for an entry of the block at index `at` that is removed and not cut out."""
        if at == 0 and index < self._head:
            return False
        deleted = self._deleted.get(self._low_counters[at]) if self._deleted else None
        return deleted is None or not deleted.have(index)

    def first_above(self, counter: int) -> EntryId | None:
        """The ID of the first entry whose counter is higher than this one."""
        if not self._blocks:
            return None
        at = max(bisect_right(self._low_counters, counter) - 1, 0)
        block = self._settled(at)
        index = max(block.lower_bound_counter(counter + 1), self._low_of(at))
        if index < block.count:
            return block.id_at(index)
        return self._settled(at + 1).id_at(0) if at + 1 < len(self._blocks) else None

    def block_count(self) -> int:
        return len(self._blocks)

    # Ranges

    def slices(self, start: EntryId, end: EntryId, limit: int, reverse: bool) -> list[Slice]:
        """The entries from start to end, both inclusive: the first `limit` of them, or with `reverse` the last.

        A negative limit means all. Slices come in reading order; the entries inside each slice ascend.
        """
        if limit < 0:
            limit = self.count
        if start > end or not self._blocks:
            return []
        return self._slices_down(start, end, limit) if reverse else self._slices_up(start, end, limit)

    def _slices_up(self, start: EntryId, end: EntryId, limit: int) -> list[Slice]:
        found: list[Slice] = []
        blocks, low_ids = self._blocks, self._low_ids
        # Readers that are up to date begin in the last block.
        at = len(blocks) - 1 if at_most(low_ids[-1], start) else bisect_right(low_ids, start) - 1
        low = 0
        if at >= 0:
            low = self._settled(at).lower_bound(start)
        else:
            at = 0
            self._settled(at)
        if at == 0 and low < self._head:
            low = self._head
        while limit > 0 and at < len(blocks) and at_most(low_ids[at], end):
            block = self._settled(at)
            high = block.count
            if high - low > limit:
                high = low + limit
            # A next block within the range spares the look at the last ID, for which a packed block would be opened.
            ends_here = at + 1 == len(blocks) or not at_most(low_ids[at + 1], end)
            if ends_here and high > low and not at_most(block.id_at(high - 1), end):
                high = block.upper_bound(end)
            if high > low:
                found.append(Slice(block, low, high))
                limit -= high - low
            low = 0
            at += 1
        return found

    def _slices_down(self, start: EntryId, end: EntryId, limit: int) -> list[Slice]:
        found: list[Slice] = []
        low_ids = self._low_ids
        at = bisect_right(low_ids, end) - 1
        high = self._high_of(at, end)
        while limit > 0 and at >= 0:
            block = self._settled(at)
            low = max(self._low_of(at), high - limit)
            if low < high and low_ids[at] < start and block.id_at(low) < start:
                low = block.lower_bound(start)
            if low < high:
                found.append(Slice(block, low, high))
                limit -= high - low
            if low_ids[at] <= start:
                break
            at -= 1
            high = self._settled(at).count
        return found

    def _high_of(self, at: int, end: EntryId) -> int:
        """The index just after the last entry <= end in the block at index `at`."""
        if at < 0:
            return 0
        block = self._settled(at)
        within = at + 1 < len(self._blocks) and self._low_ids[at + 1] <= end
        return block.count if within or block.id_at(block.count - 1) <= end else block.upper_bound(end)

    def count_in(self, start: EntryId, end: EntryId) -> int:
        """The number of entries from start to end, both inclusive."""
        if start > end or not self._blocks:
            return 0
        self._cut_all_deleted()
        at = max(bisect_right(self._low_ids, start) - 1, 0)
        below = self._rank(at, self._blocks[at].lower_bound(start))
        at = max(bisect_right(self._low_ids, end) - 1, 0)
        return max(self._rank(at, self._high_of(at, end)) - below, 0)

    def _rank(self, at: int, index: int) -> int:
        """How many live entries precede `index` in the block at index `at`, counted from the nearer end of the tree."""
        blocks = self._blocks
        if at == 0:
            return max(index - self._head, 0)
        if at < len(blocks) // 2:
            return sum([block.count for block in blocks[:at]]) - self._head + index
        return self.count - sum([block.count for block in blocks[at:]]) + index

    # Counters: how an effect names the entries it removes

    def first_counters(self, count: int) -> list[tuple[int, int]]:
        """Ranges that hold the first `count` live entries and no other live entry.

        One range is enough: between two live entries of a tree lie only counters of other keys or of removed entries.
        """
        if count <= 0 or not self._blocks:
            return []
        at = 0
        block = self._settled(at)
        rest = min(count, self.count) + self._head
        while rest > block.count:
            rest -= block.count
            at += 1
            block = self._settled(at)
        return [(self._first_counter(), block.counter_at(rest - 1))]

    def counters_below(self, entry_id: EntryId) -> list[tuple[int, int]]:
        """Ranges that hold the live entries with a smaller ID and no other live entry; one range is enough."""
        at = bisect_left(self._low_ids, entry_id) - 1
        if at < 0:
            return []
        block = self._settled(at)
        index = block.lower_bound(entry_id)
        if index == 0 and at > 0:
            # What lay below this ID here was removed.
            block = self._settled(at - 1)
            at, index = at - 1, block.count
        if index <= self._low_of(at):
            return []
        return [(self._first_counter(), block.counter_at(index - 1))]

    def _first_counter(self) -> int:
        return self._blocks[0].counter_at(self._head) if self._head else self._low_counters[0]

    def counter_ranges(self) -> list[tuple[int, int]]:
        """The counters of all live entries as maximal ranges, both ends inclusive."""
        ranges: list[tuple[int, int]] = []
        self._cut_all_deleted()
        for at in range(len(self._blocks)):
            add_counter_ranges(ranges, self._blocks[at], self._low_of(at))
        return ranges

    def counters_between(self, low: int, high: int) -> array[int]:
        """The counters of live entries from low to high, both inclusive."""
        found: array[int] = array("Q")
        for part in self.slices_between(low, high, self.count):
            found.extend(part.block.counters(part.low, part.high))
        return found

    def slices_between(self, low: int, high: int, limit: int) -> list[Slice]:
        """The live entries with counters from low to high, both inclusive; at most the first `limit`."""
        found: list[Slice] = []
        at = max(bisect_right(self._low_counters, low) - 1, 0)
        while limit > 0 and at < len(self._blocks) and self._low_counters[at] <= high:
            block = self._settled(at)
            start = max(block.lower_bound_counter(low), self._low_of(at))
            # A next block within the range spares the look at the last counter.
            ends_here = at + 1 == len(self._blocks) or self._low_counters[at + 1] > high
            end = min(block.lower_bound_counter(high + 1) if ends_here else block.count, start + limit)
            if start < end:
                found.append(Slice(block, start, end))
                limit -= end - start
            at += 1
        return found

    def count_through(self, counter: int) -> int:
        """The number of live entries with counters up to this one, inclusive."""
        self._cut_all_deleted()
        at = bisect_right(self._low_counters, counter) - 1
        return 0 if at < 0 else self._rank(at, self._blocks[at].lower_bound_counter(counter + 1))

    def last_counter_through(self, counter: int) -> int:
        """The highest counter of a live entry up to this one, inclusive; 0 if there is none."""
        last = self.last_counter()
        if last <= counter:
            return last
        for at in range(bisect_right(self._low_counters, counter) - 1, -1, -1):
            block = self._settled(at)
            stop = block.lower_bound_counter(counter + 1)
            if stop > self._low_of(at):
                return block.counter_at(stop - 1)
        return 0

    # Spilled blocks

    def starts_whole(self) -> bool:
        """True if nothing was removed from the beginning of the first block."""
        return not self._head

    def spilled_with(self, ids: list[EntryId]) -> list[Block]:
        """The spilled blocks that may hold these ascending IDs; opens none."""
        found: list[Block] = []
        before = -1
        for entry_id in ids:
            at = bisect_right(self._low_ids, entry_id) - 1
            if at > before and self._blocks[at].is_spilled():
                found.append(self._blocks[at])
            before = max(at, before)
        return found

    def overlapping(self, start: EntryId, end: EntryId) -> list[Block]:
        """The blocks that may hold entries from start to end, both inclusive; opens none."""
        if start > end:
            return []
        first = max(bisect_right(self._low_ids, start) - 1, 0)
        return self._blocks[first : bisect_right(self._low_ids, end)]

    # Checkpoints

    def blocks(self) -> tuple[list[Block], int, int]:
        """The blocks, the number of removed entries at the head, and the tail's count. Only the tail may grow after
        this, and the entries it holds now do not change.
        """
        self._cut_all_deleted()
        return self._blocks[:], self._head, self.tail.count

    def resting(self, at: int, count: int) -> list[Block]:
        """At most `count` blocks before the tail, from the number `at` on, without deleted rows."""
        end = min(at + count, len(self._blocks) - 1)
        if at < end:
            self._cut_all_deleted(at, end - 1)
        return self._blocks[at:end] if at < end else []

    def gather(self, at: int, count: int) -> Block:
        """Merge blocks from index `at` on, at most `count` of those that `resting` returned, into one full block. If
        the last of them does not fit whole, its other entries follow as a block of their own. Returns the full block.
        """
        full, rest = Block(), Block()
        end = at
        while end < at + count and not rest.count:
            block, low = self._blocks[end], self._low_of(end)
            if not full.extend(block, low, block.count):
                rows_left, bytes_left = BLOCK_ENTRIES - full.count, BLOCK_BYTES - full.byte_count
                high = block.fitting(low, min(low + rows_left, block.count), bytes_left)
                if not full.extend(block, low, high):
                    break
                rest.extend(block, high, block.count)
            end += 1
        if at == 0:
            self._head = 0
        self._put(at, end, [full, rest] if rest.count else [full])
        # Nobody has read them yet.
        full.read = rest.read = False
        return full

    @staticmethod
    def of_blocks(blocks: list[Block], head: int) -> EntryTree:
        tree = EntryTree()
        if head and is_cold(blocks[0]):
            blocks, head = [counted_copy(blocks[0], head), *blocks[1:]], 0
        tree._put(0, 0, blocks)
        tree._head = head
        if blocks:
            tree.count = sum([block.count for block in blocks]) - head
            tree.byte_count = sum([block.byte_count for block in blocks]) - blocks[0].start_of(head)
        return tree

    # Checking

    def checksum(self) -> int:
        """The sum of the live entries' checksums mod 2**64: equal for equal entries, however blocks divide them."""
        total = 0
        self._cut_all_deleted()
        for at in range(len(self._blocks)):
            block, low = self._blocks[at], self._low_of(at)
            total += block.checksum_of(low, block.count) if low else block.checksum()
        return total % CHECKSUM_MODULUS

    def last_id_between(self, low: EntryId, high: EntryId) -> EntryId | None:
        """The highest live ID in (low, high]."""
        for part in self.slices(next_id(low) or ID_MAX, high, 1, True):
            return part.block.id_at(part.high - 1)
        return None

    def check(self) -> None:
        blocks = self._blocks
        for block in blocks:
            assert block.count > 0, "an empty block"
            block.check()
        seen = [block.viewed() for block in blocks]
        assert self._low_ids == [block.id_at(0) for block in seen], "low IDs are stale"
        assert self._low_counters == [block.counter_at(0) for block in seen], "low counters are stale"
        for one, two in pairwise(seen):
            assert one.id_at(one.count - 1) < two.id_at(0), "IDs do not ascend over blocks"
            assert one.counter_at(one.count - 1) < two.counter_at(0), "counters do not ascend over blocks"
        assert self.tail is (blocks[-1] if blocks else NO_TAIL), "the tail is not the last block"
        assert all(block.sealed for block in blocks[:-1]), "a block before the tail is not sealed"
        assert 0 <= self._head <= (blocks[0].count - 1 if blocks else 0), "the first block has no live entry"
        self.check_spilled()
        deleted, deleted_bytes = self.check_deleted()
        assert self.count == sum(block.count for block in blocks) - self._head - deleted, "count is wrong"
        dead = (seen[0].start_of(self._head) if blocks else 0) + deleted_bytes
        assert self.byte_count == sum(block.byte_count for block in blocks) - dead, "byte_count is wrong"
