"""Blocks: entries stored as the bytes that are sent to clients.

A *block* holds consecutive entries of one origin. IDs and counters both ascend, and entries are only ever appended, so
a slice `[low, high)` of a block (indexes; low inclusive, high exclusive) always means the same entries. Removing an
entry makes a new block; an effect that refers to a slice of the old block keeps the old block alive.

An *entry* is its RESP reply (core/entries/encoding.py).

`_ends[i]` is the offset in `data()` just after entry i. The bytes are kept in chunks until they are first read;
entries from index `_joined` on have one chunk each, so the newest few are read without concatenating the rest.

The package (core/entries/__init__.py) draws the columns. The counter of entry i is `_counter_base + i`, or with a list
`_counter_base + _listed[i]`; a sealed block is one byte string or few large chunks.

A block is *open*, with its columns and bytes in memory, or *packed* (core/entries/packed_block.py). A method asks
`opened()` for what it reads, and need not know which the block was. Counts, bases and sums are there in both cases, and
so is the answer to whether counters are listed. A block that is not sealed is open.

Reference: the RESP specification; blocks play the part of the listpacks in Redis' radix tree (`stream.h`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Final

from crdtstream.core.entries.encoding import encode_entry, entry_fields
from crdtstream.core.entries.packed_block import Content, PackedForm
from crdtstream.core.entries.raw_columns import Ids, Texts, shifted
from crdtstream.core.entries.swar import counting, cut, gaps_between, joined_ends
from crdtstream.core.entries.uint_encoding import HALF_BITS, base_of, narrowed, widened
from crdtstream.core.values.entry_id import EntryId

CHECKSUM_MODULUS: Final = 2**64
# How far a block is filled; only a single entry may be larger.
BLOCK_ENTRIES: Final = 256
BLOCK_BYTES: Final = 48 * 1024
# What is in chunks of this size on average is not copied to be one.
CHUNK_BYTES_MIN: Final = 8 * 1024

_LOOSE_READ: Final = 16


def entry_checksum(counter: int, entry: bytes) -> int:
    """The checksum of one entry: a hash of its bytes, salted with the counter of its dot."""
    return int.from_bytes(blake2b(entry, digest_size=8, salt=counter.to_bytes(8, "little")).digest(), "little")


class Block(Content):
    """Consecutive entries of one origin, append-only; a sealed block accepts no more entries."""

    __slots__ = (
        "_counter_base",
        "_sum",
        "_summed",
        "byte_count",
        "place",
        "stored_bytes",
        "stored_count",
    )

    def __init__(self) -> None:
        super().__init__()
        self._counter_base = 0
        self.byte_count = 0
        # Where the first `stored_count` entries lie in the checkpoint's block file, and how many bytes they take there.
        self.place = 0
        self.stored_count = 0
        self.stored_bytes = 0
        self._sum = 0
        self._summed = 0

    @staticmethod
    def of_columns(ms: array[int], seq: array[int], counters: Sequence[int], ends: array[int], data: bytes) -> Block:
        """A block that takes ownership of these wide columns without checking them; a caller that received them from
        outside calls `check()`.
        """
        block = Block()
        block.ms, block.seq, block._ends = ms, seq, ends
        block.chunks = [data]
        block._append_counters(counters)
        block.count = block._joined = len(ms)
        block.byte_count = len(data)
        return block

    @staticmethod
    def of_kept(ms_base: int, counter_base: int, columns: list[array[int]], data: bytes) -> Block:
        """The inverse of `kept`; the block is sealed if any column is narrow."""
        block = Block()
        block.ms_base, block._counter_base = ms_base, counter_base
        block.ms, block.seq, listed, block._ends = columns
        if listed:
            block._listed = listed
        block.chunks = [data]
        block.count = block._joined = len(block.ms)
        block.byte_count = len(data)
        block.sealed = "I" in [column.typecode for column in columns]
        return block

    @staticmethod
    def of_packed(
        ms_base: int, counter_base: int, is_listed: bool, count: int, byte_count: int, packed_form: PackedForm
    ) -> Block:
        """A block that is packed in this form."""
        block = Block()
        block.ms_base, block._counter_base = ms_base, counter_base
        if is_listed:
            block._listed = block.ms
        block.count = block._joined = count
        block.byte_count = byte_count
        block.packed_form = packed_form
        block.sealed = True
        block.drop_content()
        return block

    def viewed(self) -> Block:
        """The block, or if it is packed, an open copy of it: for those who visit many blocks once."""
        if not self.is_packed:
            return self
        columns, data = self.unpacked()
        return Block.of_kept(self.ms_base, self._counter_base, columns, data)

    # Growing

    def append(self, entry_id: EntryId, counter: int, entry: bytes) -> None:
        assert not self.sealed
        if self.count == 0:
            self._begin(entry_id, counter, entry)
            return
        ms, seq = entry_id
        self.ms.append(ms)
        self.seq.append(seq)
        if self._listed is not None:
            self._listed.append(counter)
        elif counter != self._counter_base + self.count:
            self._list_counters().append(counter)
        self.byte_count += len(entry)
        self._ends.append(self.byte_count)
        self.chunks.append(entry)
        self.count += 1

    def _begin(self, entry_id: EntryId, counter: int, entry: bytes) -> None:
        """Append the first entry, which in many streams is the only one: without room for more."""
        ms, seq = entry_id
        self.byte_count = len(entry)
        self.ms, self.seq, self._ends = array("Q", (ms,)), array("Q", (seq,)), array("Q", (self.byte_count,))
        self._counter_base = counter
        self.chunks = [entry]
        self.count = 1

    def extend(self, other: Block, low: int, high: int) -> bool:
        """Append the slice [low, high) of another block; false if there is no room. An empty block takes any slice."""
        data = other.entry_slice(low, high)
        size = self.byte_count + len(data)
        if self.sealed or (self.count and (self.count + high - low > BLOCK_ENTRIES or size > BLOCK_BYTES)):
            return False
        if high - low <= 1:
            if low < high:
                self.append(other.id_at(low), other.counter_at(low), data)
            return True
        ms, seq = other.id_columns(low, high)
        counters, ends = other.counters(low, high), other.ends(low, high).tolist()
        self.append_columns(ms, seq, counters, ends, other.start_of(low), data)
        return True

    def append_columns(
        self, ms: array[int], seq: array[int], counters: Sequence[int], ends: list[int], start: int, data: bytes
    ) -> None:
        """Append entries with these columns, at least one; `data` begins at the offset `start` of `ends`."""
        assert not self.sealed
        if self.count == 0:
            self.ms, self.seq, self._ends, self.chunks = array("Q"), array("Q"), array("Q"), []
        self.ms.extend(ms)
        self.seq.extend(seq)
        self._append_counters(counters)
        shift = self.byte_count - start
        self._ends.fromlist([end + shift for end in ends] if shift else ends)
        self.chunks.append(data)
        self.byte_count += len(data)
        self.count += len(ends)
        self._joined = self.count

    def outside(self, low: int, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """What lies from `low` on outside these ascending ranges of counters, as slices [low, high)."""
        pieces: list[tuple[int, int]] = []
        for first, last in ranges:
            start, stop = self.lower_bound_counter(first), self.lower_bound_counter(last + 1)
            if low < start:
                pieces.append((low, start))
            low = max(low, stop)
        return [*pieces, (low, self.count)] if low < self.count else pieces

    def joined(self, pieces: list[tuple[int, int]]) -> Block:
        """A new block of these slices [low, high), at least one, with columns as wide as they are here."""
        data = self.data()
        content = self.opened()
        ends = content._ends
        chunks = [data[ends[low - 1] if low else 0 : ends[high - 1]] for low, high in pieces]
        gaps = gaps_between(pieces, self.count)
        kept_ends = joined_ends(ends, pieces)
        ms, seq = cut(content.ms[:], gaps), cut(content.seq[:], gaps)
        if not self.sealed:
            counters = cut(array("Q", self.counters(0, self.count)), gaps)
            return Block.of_columns(ms, seq, counters, kept_ends, b"".join(chunks))
        base, listed = self._all_listed()
        return Block.of_kept(self.ms_base, base, [ms, seq, cut(listed, gaps), kept_ends], b"".join(chunks))

    def _all_listed(self) -> tuple[int, array[int]]:
        """A base and a list for all counters, narrow if possible."""
        listed = self._opened_list()
        if listed is not None:
            return self._counter_base, listed[:]
        first = self._counter_base
        base = first >> HALF_BITS << HALF_BITS
        if first - base + self.count > 1 << HALF_BITS:
            return 0, counting("Q", first, self.count)
        return base, counting("I", first - base, self.count)

    def _append_counters(self, counters: Sequence[int]) -> None:
        """Append these ascending counters."""
        if self.count == 0:
            self._counter_base = counters[0]
        if self._listed is None:
            first, last = counters[0], counters[-1]
            if first == self._counter_base + self.count and last - first == len(counters) - 1:
                return
        self._list_counters().extend(counters)

    def _list_counters(self) -> array[int]:
        """The explicit list of counters, created if necessary; from then on `_counter_base + index` no longer
        applies.
        """
        if self._listed is None:
            self._listed = array("Q", self.counters(0, self.count))
            self._counter_base = 0
        return self._listed

    def seal(self) -> None:
        """Stop accepting entries, and compact what is there."""
        if self.sealed:
            return
        self.sealed = True
        # Its readers may be a moment behind the writer.
        self.read = True
        # Small chunks take more memory than their bytes; large ones are joined when somebody reads them.
        if len(self.chunks) * CHUNK_BYTES_MIN > self.byte_count:
            self.data()
        base = base_of(self.ms)
        if base >= 0:
            self.ms, self.ms_base = narrowed(self.ms), base
        if base_of(self.seq) == 0:
            self.seq = narrowed(self.seq)
        # Ends ascend, so the last one tells of all.
        if self.byte_count >> HALF_BITS == 0:
            self._ends = narrowed(self._ends)
        if self._listed is not None:
            base = base_of(self._listed)
            if base >= 0:
                self._listed, self._counter_base = narrowed(self._listed), base

    # Reading

    def data(self) -> bytes:
        """The bytes of all entries, concatenated."""
        content = self.opened()
        if len(content.chunks) != 1:
            content.chunks = [b"".join(content.chunks)]
        content._joined = self.count
        return content.chunks[0]

    def opened(self) -> Block:
        """The content, unpacked first if the block is packed. Opening another block may pack this one again."""
        if self.is_packed:
            self.open()
        return self

    def start_of(self, index: int) -> int:
        if index == 0:
            return 0
        if index == self.count:
            return self.byte_count
        return self.opened()._ends[index - 1]

    def entry(self, index: int) -> bytes:
        return self.entry_slice(index, index + 1)

    def entry_slice(self, low: int, high: int) -> bytes:
        """The bytes of the entries [low, high), concatenated: the body of a reply."""
        if low >= high:
            return b""
        if low >= self._joined and high - low <= _LOOSE_READ:
            first = len(self.chunks) - self.count + low
            if high - low == 1:
                return self.chunks[first]
            return b"".join(self.chunks[first : first + high - low])
        self.read = True
        content = self.opened()
        data = content.chunks[0] if len(content.chunks) == 1 else self.data()
        return data[content._ends[low - 1] if low else 0 : content._ends[high - 1]]

    def byte_size(self, low: int, high: int) -> int:
        return self.start_of(high) - self.start_of(low)

    def fitting(self, low: int, high: int, bytes_max: int) -> int:
        """The end of the longest slice [low, end) with end <= `high` that has at most `bytes_max` bytes; the slice has
        at least one entry, even a larger one.
        """
        return max(bisect_right(self.opened()._ends, self.start_of(low) + bytes_max, low, high), low + 1)

    def id_at(self, index: int) -> EntryId:
        if index == 0 and self.is_packed:
            return self.packed_alone().first_id()
        content = self.opened()
        return (content.ms_base + content.ms[index], content.seq[index])

    def ids(self, low: int, high: int) -> list[EntryId]:
        ms, seq = self.id_columns(low, high)
        return list(zip(ms, seq, strict=True))

    def counter_at(self, index: int) -> int:
        if self._listed is None:
            return self._counter_base + index
        if index == 0 and self.is_packed:
            return self._counter_base + self.packed_alone().first_listed
        listed = self.opened()._listed
        return self._counter_base + (index if listed is None else listed[index])

    def _opened_list(self) -> array[int] | None:
        """The list of counters, if there is one; without a list a block need not be open for its counters."""
        return None if self._listed is None else self.opened()._listed

    def lies_above(self, index: int, other: Block) -> bool:
        """True if both the ID and the counter of this entry exceed those of the last entry of `other`, if any."""
        last = other.count - 1
        if last < 0:
            return True
        # One after the other, because opening a block may pack another one again.
        theirs = other.opened()
        other_ms, other_seq = theirs.ms_base + theirs.ms[last], theirs.seq[last]
        ours = self.opened()
        ms, seq = ours.ms_base + ours.ms[index], ours.seq[index]
        if ms < other_ms or (ms == other_ms and seq <= other_seq):
            return False
        return self.counter_at(index) > other.counter_at(last)

    def raw_ids(self) -> Ids:
        """The IDs as they are now, to be searched."""
        content = self.opened()
        return Ids(content.ms, content.seq, content.ms_base)

    def texts(self, low: int, high: int) -> Texts:
        """The bytes of the entries [low, high), to be read piece by piece; indexes stay those of the block."""
        if low >= self._joined and high - low <= _LOOSE_READ:
            return Texts(self.entry_slice(low, high), self._ends, self.start_of(low))
        self.read = True
        return Texts(self.data(), self.opened()._ends, 0)

    def lower_bound(self, entry_id: EntryId) -> int:
        """The first index whose ID is >= entry_id."""
        if self.is_packed and entry_id <= self.packed_alone().first_id():
            return 0
        ms, seq = entry_id
        return self.raw_ids().lower_bound(shifted(ms), shifted(seq), 0, self.count)

    def upper_bound(self, entry_id: EntryId) -> int:
        """The first index whose ID is > entry_id."""
        ms, seq = entry_id
        return self.raw_ids().upper_bound(shifted(ms), shifted(seq), 0, self.count)

    def lower_bound_counter(self, counter: int) -> int:
        """The first index whose counter is >= counter."""
        distance = counter - self._counter_base
        if self._listed is None:
            return min(max(distance, 0), self.count)
        listed = None if self.is_packed and counter <= self.counter_at(0) else self._opened_list()
        return 0 if listed is None else bisect_left(listed, distance)

    # Columns of the slice [low, high), wide

    def id_columns(self, low: int, high: int) -> tuple[array[int], array[int]]:
        """Milliseconds and sequence numbers."""
        content = self.opened()
        return widened(content.ms[low:high], content.ms_base), widened(content.seq[low:high], 0)

    def counters(self, low: int, high: int) -> Sequence[int]:
        listed = self._opened_list()
        if listed is None:
            return range(self._counter_base + low, self._counter_base + high)
        return widened(listed[low:high], self._counter_base)

    def counter_sum(self, low: int, high: int) -> int:
        if self.is_packed and self._listed is not None and high - low == self.count:
            return self._counter_base * self.count + self.packed_alone().counter_sum
        return sum(self.counters(low, high))

    def ends(self, low: int, high: int) -> array[int]:
        return widened(self.opened()._ends[low:high], 0)

    def ends_from(self, low: int, high: int) -> tuple[array[int], int]:
        """The ends of the entries [low, high), and where the first one starts."""
        ends = self.opened()._ends
        return widened(ends[low:high], 0), ends[low - 1] if low else 0

    def columns(self, count: int) -> list[array[int]]:
        """Milliseconds, sequence numbers, counters and ends of the first `count` entries."""
        ms, seq = self.id_columns(0, count)
        return [ms, seq, array("Q", self.counters(0, count)), self.ends(0, count)]

    def bases(self) -> tuple[int, int]:
        """The bases of milliseconds and of counters."""
        return self.ms_base, self._counter_base

    def lists_counters(self) -> bool:
        return self._listed is not None

    def kept(self, count: int) -> tuple[int, int, list[array[int]]]:
        """Both bases, and the first `count` rows of each column as stored; the counters are empty if contiguous."""
        columns = self.opened().as_stored()
        # Nothing is written to the columns of a sealed block, so they need no copy.
        is_whole = self.sealed and count == self.count
        return self.ms_base, self._counter_base, columns if is_whole else [column[:count] for column in columns]

    # Checking

    def checksum(self) -> int:
        """The sum of all entry checksums mod 2**64; entries appended since the last call are added to the kept sum."""
        if self._summed < self.count:
            self._sum = (self._sum + self.viewed().checksum_of(self._summed, self.count)) % CHECKSUM_MODULUS
            self._summed = self.count
        return self._sum

    def unsummed(self) -> int:
        """How many entries the next call of `checksum` has to hash."""
        return self.count - self._summed

    def take_sum(self, total: int) -> None:
        """Note the checksum of the whole block, which others have computed."""
        self._sum, self._summed = total, self.count

    def checksum_of(self, low: int, high: int) -> int:
        total = 0
        for index in range(low, high):
            total += entry_checksum(self.counter_at(index), self.entry(index))
        return total % CHECKSUM_MODULUS

    def check(self) -> None:
        assert self.sealed or self.packed_form is None, "a block that may grow is packed"
        if self.is_packed:
            assert self._joined == self.count, "a packed block has loose chunks"
            seen = self.viewed()
            assert (seen.count, seen.byte_count) == (self.count, self.byte_count), "a packed block is miscounted"
            seen.check()
            return
        count = self.count
        columns = [self.ms, self.seq, self._ends, *([] if self._listed is None else [self._listed])]
        assert all(len(column) == count for column in columns), "columns differ in length"
        assert self.sealed or all(column.typecode == "Q" for column in columns), "a block that may grow is narrow"
        assert self._listed is None or self._counter_base % (1 << HALF_BITS) == 0, "a base has a low half"
        ids = self.ids(0, count)
        assert all(a < b for a, b in pairwise(ids)), "IDs do not ascend"
        for column in (self.counters(0, count), self._ends):
            assert all(a < b for a, b in pairwise(column)), "counters or ends do not ascend"
        assert self.byte_count == sum(len(chunk) for chunk in self.chunks) == self.start_of(count), "ends miss the data"
        assert 0 <= self._joined <= count and 0 <= self._summed <= count, "joined or summed beyond the end"
        loose = count - self._joined
        sizes = [self.byte_size(index, index + 1) for index in range(self._joined, count)]
        loose_chunks = self.chunks[len(self.chunks) - loose :]
        assert sizes == [len(chunk) for chunk in loose_chunks], "loose chunks are not entries"
        for index, entry_id in enumerate(ids):
            entry = self.entry(index)
            assert entry == encode_entry(entry_id, entry_fields(entry)), f"entry {index} is not the reply of its ID"


def demand_blocks(blocks: list[Block]) -> None:
    """Have those of these blocks that are spilled read together, if the request under way may wait for them."""
    spilled = [block for block in blocks if block.is_spilled()]
    if spilled:
        handles = [block.handle for block in spilled if block.handle is not None]
        spilled[0].packed_alone().open_blocks.reads.demand(handles)


def add_counter_ranges(ranges: list[tuple[int, int]], block: Block, low: int) -> None:
    """Extend ascending ranges by a block's counters from index `low` on; contiguous counters take a single step."""
    first, last = block.counter_at(low), block.counter_at(block.count - 1)
    if last - first == block.count - 1 - low:
        _add_range(ranges, first, last)
        return
    for counter in block.counters(low, block.count):
        _add_range(ranges, counter, counter)


def _add_range(ranges: list[tuple[int, int]], first: int, last: int) -> None:
    if ranges and ranges[-1][1] + 1 == first:
        ranges[-1] = (ranges[-1][0], last)
    else:
        ranges.append((first, last))
