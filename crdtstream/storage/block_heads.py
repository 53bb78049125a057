"""Heads of packed blocks, as they lie in the block files of a checkpoint: all that a start has to know of a block.

    head    form 1 | index 8 | offset 8 | bytes of the packed form 8 | its CRC-32 4 | entries 8 | bytes of data 8 |
            base of milliseconds 8 | base of counters 8 | first ID 16 | first counter 8 | sum of counters 16 |
            sum of the entries 8

The form is 1, and 2 more if the entries are in column layout (core/entries/column_layout.py), 4 more if counters are
listed, 8 more if column layout was tried, and 16 more if the sum of the entries is known. The first counter and the sum
of counters are of that list, without the base; the sum of the entries is `Block.checksum`.

The index is the number of the block in its file, so its **place** is `number << 40 | index`; the offset is that of the
packed form in the same file.
"""

from __future__ import annotations

import struct
from array import array
from typing import Final

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import OpenBlockCache, PackedForm
from crdtstream.core.entries.spilled import PLACE_BITS, BlockFile, BlockHandle
from crdtstream.protocols.columns import CodecError

_PACKED: Final = 1
_COLUMN_LAYOUT: Final = 2
_LISTED: Final = 4
_LAYOUT_TRIED: Final = 8
_SUMMED: Final = 16
_FORMS: Final = _PACKED | _COLUMN_LAYOUT | _LISTED | _LAYOUT_TRIED | _SUMMED
_HEAD: Final = struct.Struct("<B3QI7Q16sQ")
_COUNTER_SUM_BYTES: Final = 16
HEAD_BYTES: Final = _HEAD.size


class BlockHead:
    """What a file has of a packed block beside its packed form."""

    __slots__ = (
        "byte_count",
        "checksum",
        "count",
        "counter_base",
        "counter_sum",
        "first_listed",
        "first_ms",
        "first_seq",
        "in_column_layout",
        "index",
        "is_layout_tried",
        "is_listed",
        "is_summed",
        "length",
        "ms_base",
        "offset",
        "total",
    )

    def __init__(self, count: int, byte_count: int, ms_base: int, counter_base: int) -> None:
        self.count = count
        self.byte_count = byte_count
        self.ms_base = ms_base
        self.counter_base = counter_base
        self.first_ms = 0
        self.first_seq = 0
        # Of the list of counters, if there is one.
        self.is_listed = False
        self.first_listed = 0
        self.counter_sum = 0
        self.in_column_layout = False
        self.is_layout_tried = False
        # The sum of the entries, if it is known.
        self.is_summed = False
        self.total = 0
        # The number in the file, and where the packed form lies, once that is known.
        self.index = 0
        self.offset = 0
        self.length = 0
        self.checksum = 0

    @staticmethod
    def of_block(block: Block) -> BlockHead:
        """That of a block that has a packed form, without opening it."""
        packed_form = block.packed_form
        assert packed_form is not None
        head = BlockHead(block.count, block.byte_count, *block.bases())
        head.first_ms, head.first_seq = packed_form.first_id()
        head.is_listed = block.lists_counters()
        head.first_listed, head.counter_sum = packed_form.first_listed, packed_form.counter_sum
        head.in_column_layout, head.is_layout_tried = packed_form.in_column_layout, packed_form.is_layout_tried
        head.take_sum_of(block)
        return head

    def take_sum_of(self, block: Block) -> None:
        """Note the sum of the entries if no entry has to be hashed for it."""
        if not block.unsummed():
            self.is_summed, self.total = True, block.checksum()

    def set_first(self, ms: int, seq: int, listed: array[int]) -> None:
        """Note the ID of the first entry, and what the list of counters has."""
        self.first_ms, self.first_seq = ms, seq
        if listed:
            self.is_listed, self.first_listed, self.counter_sum = True, listed[0], sum(listed)

    def encode(self) -> bytes:
        form = _PACKED | (_COLUMN_LAYOUT if self.in_column_layout else 0) | (_LISTED if self.is_listed else 0)
        form |= (_LAYOUT_TRIED if self.is_layout_tried else 0) | (_SUMMED if self.is_summed else 0)
        where = (self.index, self.offset, self.length, self.checksum)
        about = (self.count, self.byte_count, self.ms_base, self.counter_base)
        first = (self.first_ms, self.first_seq, self.first_listed)
        counter_sum = self.counter_sum.to_bytes(_COUNTER_SUM_BYTES, "little")
        return _HEAD.pack(form, *where, *about, *first, counter_sum, self.total)

    def block(self, open_blocks: OpenBlockCache, packed: bytes) -> Block:
        """The packed block; without its packed form it is spilled, and needs its handle."""
        packed_form = PackedForm(open_blocks, packed, self.in_column_layout)
        packed_form.spilled = not packed
        packed_form.is_layout_tried = self.is_layout_tried or not packed
        packed_form.first_ms, packed_form.first_seq = self.first_ms, self.first_seq
        packed_form.first_listed, packed_form.counter_sum = self.first_listed, self.counter_sum
        block = Block.of_packed(
            self.ms_base, self.counter_base, self.is_listed, self.count, self.byte_count, packed_form
        )
        if self.is_summed and not packed:
            # Of what is in memory the sum is worked out again, so that it tells what is there.
            block.take_sum(self.total)
        return block

    def handle(self, file: BlockFile, number: int) -> BlockHandle:
        """Where the packed form lies, in the file of this number."""
        place = number << PLACE_BITS | self.index
        return BlockHandle(file, self.offset, self.length, self.checksum, self.in_column_layout, place)


def read_head(payload: bytes, at: int) -> BlockHead:
    """The head at this offset of a section."""
    if at + HEAD_BYTES > len(payload):
        raise CodecError("the head of a packed block is truncated")
    found: tuple[int, int, int, int, int, int, int, int, int, int, int, int, bytes, int] = _HEAD.unpack_from(
        payload, at
    )
    form, index, offset, length, checksum, count, byte_count, ms_base, counter_base = found[:9]
    if form & ~_FORMS or not form & _PACKED or not count or not length or index >> PLACE_BITS:
        raise CodecError(f"the head of a packed block of {count} entries is wrong")
    head = BlockHead(count, byte_count, ms_base, counter_base)
    head.index, head.offset, head.length, head.checksum = index, offset, length, checksum
    head.first_ms, head.first_seq, head.first_listed = found[9:12]
    head.counter_sum, head.total = int.from_bytes(found[12], "little"), found[13]
    head.is_listed, head.in_column_layout = form & _LISTED > 0, form & _COLUMN_LAYOUT > 0
    head.is_layout_tried, head.is_summed = form & _LAYOUT_TRIED > 0, form & _SUMMED > 0
    return head
