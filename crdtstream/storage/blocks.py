"""Raw blocks as they lie in the block files of a checkpoint, and all blocks of the formats before.

    raw        entries 8 | bytes of data 8 | base of milliseconds 8 | base of counters 8 | content
    content    widths 4 | milliseconds | sequence numbers | counters | ends | data

A width is the number of bytes of an integer in that column, as `Block.kept` returns it: 8, or 4 if it is narrow, or 0
for counters that are not listed. Before a raw block stands its number in the file (storage/block_files.py).

Files of format 3 had all blocks in one sequence, each with its form:

    block      form 1 | a raw block, or a packed one
    packed     entries 8 | bytes of data 8 | base of milliseconds 8 | base of counters 8 | bytes of the packed form 8 |
               first ID 16 | first counter 8 | sum of counters 16 | the packed form

The form is 0 for a raw block, 1 for a packed one, 2 more if its entries are in column layout
(core/entries/column_layout.py), and 4 more if its counters are listed; the first counter and the sum are of that list,
without the base. Files of format 2 had no forms, and only raw blocks; there the place of a block is
`number << 40 | offset`. `OldBlockReader` reads both; nothing writes them any more.
"""

from __future__ import annotations

import struct
from array import array
from itertools import product
from typing import Final

from zstandard import ZstdError, frame_content_size

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import OpenBlockCache, PackedForm
from crdtstream.core.entries.spilled import PLACE_BITS
from crdtstream.core.entries.uint_encoding import in_order, widths_of
from crdtstream.protocols.columns import CodecError, column_bytes
from crdtstream.storage.recovery import CheckpointDamaged

RAW_FORMAT: Final = 2

_RAW: Final = 0
_PACKED: Final = 1
_COLUMN_LAYOUT: Final = 2
_LISTED: Final = 4
_FORMS: Final = _PACKED | _COLUMN_LAYOUT | _LISTED
_BLOCK: Final = struct.Struct("<4Q4s")
_PACKED_BLOCK: Final = struct.Struct("<B8Q16s")
_CODES: Final = {4: "I", 8: "Q"}
_WIDTHS: Final = tuple(_CODES)
_NO_COLUMN: Final = array("Q")
_ALLOWED: Final = frozenset(bytes(widths) for widths in product(_WIDTHS, _WIDTHS, (0, *_WIDTHS), _WIDTHS))
# What the columns of a packed block begin with, and the least and the most that they take for an entry.
_WIDTH_BYTES: Final = 4
_ROW_BYTES_MIN: Final = 12
_ROW_BYTES_MAX: Final = 32
FORM_BYTES: Final = 1
# The number of a raw block in its file, which stands before it.
INDEX: Final = struct.Struct("<Q")
INDEX_BYTES: Final = INDEX.size
RAW_HEAD_BYTES: Final = _BLOCK.size
PACKED_HEAD_BYTES: Final = _PACKED_BLOCK.size


def raw_parts_of(block: Block, count: int) -> list[bytes]:
    """The first `count` entries of a block as they lie in a file, raw."""
    data = block.data() if count == block.count else block.entry_slice(0, count)
    ms_base, counter_base, columns = block.kept(count)
    return raw_parts(ms_base, counter_base, columns, data, count)


def raw_parts(ms_base: int, counter_base: int, columns: list[array[int]], data: bytes, count: int) -> list[bytes]:
    head = _BLOCK.pack(count, len(data), ms_base, counter_base, widths_of(columns))
    return [head, *[column_bytes(column) for column in columns], data]


class OldBlockReader:
    """Reads blocks from the sections of block files of formats 2 and 3, in order, and notes them by place. Packed ones
    belong to this cache.
    """

    def __init__(self, open_blocks: OpenBlockCache, blocks: dict[int, Block]) -> None:
        self.blocks = blocks
        self._open_blocks = open_blocks
        self._name = ""
        self._is_raw = False
        # The place of the first block of the file, or in format 2 of its first byte.
        self._base = 0
        self._index = 0

    def begin(self, name: str, number: int, version: int) -> None:
        """Begin a file."""
        self._name = name
        self._base = number << PLACE_BITS
        self._index = 0
        self._is_raw = version == RAW_FORMAT

    def add_section(self, offset: int, payload: bytes) -> None:
        """Take the payload of a section, which begins at this offset of the file."""
        at = 0
        while at < len(payload):
            try:
                if self._is_raw:
                    block, after = read_raw(payload, at)
                    block.place = self._base + offset + at
                else:
                    is_raw = payload[at] == _RAW
                    block, after = read_raw(payload, at + FORM_BYTES) if is_raw else self._read_packed(payload, at)
                    block.place = self._base + self._index
                    self._index += 1
            except CodecError as misfit:
                raise CheckpointDamaged(self._name, offset + at, str(misfit)) from misfit
            block.stored_count, block.stored_bytes = block.count, after - at
            self.blocks[block.place] = block
            at = after

    def _read_packed(self, payload: bytes, at: int) -> tuple[Block, int]:
        """The block at `at`, and where it ends."""
        begin = at + PACKED_HEAD_BYTES
        if begin > len(payload):
            raise CodecError("the head of a packed block is truncated")
        head: tuple[int, int, int, int, int, int, int, int, int, bytes] = _PACKED_BLOCK.unpack_from(payload, at)
        form, count, data_bytes, ms_base, counter_base, packed_bytes, first_ms, first_seq, first_listed, total = head
        after = begin + packed_bytes
        if not count or after > len(payload) or not form & _PACKED or form > _FORMS:
            raise CodecError(f"a packed block of {count} entries does not fit its section")
        packed_form = PackedForm(self._open_blocks, payload[begin:after], form & _COLUMN_LAYOUT > 0)
        require_size(packed_form, count, data_bytes)
        packed_form.first_ms, packed_form.first_seq = first_ms, first_seq
        is_listed = form & _LISTED > 0
        if is_listed:
            packed_form.first_listed, packed_form.counter_sum = first_listed, int.from_bytes(total, "little")
        return Block.of_packed(ms_base, counter_base, is_listed, count, data_bytes, packed_form), after


def read_raw(payload: bytes, at: int) -> tuple[Block, int]:
    """The raw block that has its head at `at`, and where it ends."""
    begin = at + RAW_HEAD_BYTES
    if begin > len(payload):
        raise CodecError("a block header is truncated")
    head: tuple[int, int, int, int, bytes] = _BLOCK.unpack_from(payload, at)
    count, data_bytes, ms_base, counter_base, widths = head
    columns_end = begin + count * sum(widths)
    after = columns_end + data_bytes
    if not count or after > len(payload) or widths not in _ALLOWED:
        raise CodecError(f"a block of {count} entries does not fit its section")
    columns = read_columns(payload, begin, count, widths)
    if columns[-1][-1] != data_bytes:
        raise CodecError("the ends of a block do not match its data")
    return Block.of_kept(ms_base, counter_base, columns, payload[columns_end:after]), after


def require_size(packed_form: PackedForm, count: int, data_bytes: int) -> None:
    """Compare what the packed form says that it unpacks to with the head of its block."""
    try:
        size = frame_content_size(packed_form.packed)
    except ZstdError as error:
        raise CodecError(f"a packed block is not valid zstd data: {error}") from error
    rows_bytes = size - _WIDTH_BYTES - (0 if packed_form.in_column_layout else data_bytes)
    fits = rows_bytes % count == 0 and rows_bytes <= _ROW_BYTES_MAX * count
    if rows_bytes < _ROW_BYTES_MIN * count or not (fits or packed_form.in_column_layout):
        raise CodecError(f"a packed block of {count} entries and {data_bytes} bytes of data unpacks to {size} bytes")


def read_columns(payload: bytes, at: int, count: int, widths: bytes) -> list[array[int]]:
    """Read columns of these widths, from this offset on. Counters that are not listed are the same empty column for all
    blocks, which keep none.
    """
    columns: list[array[int]] = []
    for width in widths:
        end = at + count * width
        columns.append(in_order(array(_CODES[width], payload[at:end])) if width else _NO_COLUMN)
        at = end
    return columns


def has_its_place(block: Block) -> bool:
    """True if the block's handle says where it lies in the checkpoint that its place is of."""
    return block.handle is not None and block.handle.place == block.place


def drop_handles(blocks: list[Block]) -> None:
    """Let blocks be in memory alone that the checkpoint in force has raw; those that were spilled since their capture
    get another handle from the next one.
    """
    for block in blocks:
        if block.packed_form is None or not block.packed_form.spilled:
            block.handle = None
