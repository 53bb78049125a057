"""Blocks as they lie in the block files of a checkpoint.

    block      form 1 | entries 8 | bytes of data 8 | base of milliseconds 8 | base of counters 8 | content
    raw        widths 4 | milliseconds | sequence numbers | counters | ends | data
    packed     bytes of the packed form 8 | first ID 16 | first counter 8 | sum of counters 16 | the packed form

A width is the number of bytes of an integer in that column, as `Block.kept` returns it: 8, or 4 if it is narrow, or 0
for counters that are not listed. The form is 0 for a raw block, 1 for a packed one, 2 more if its entries are in column
layout (core/entries/column_layout.py), and 4 more if its counters are listed; the first counter and the sum are of that
list, without the base. Files of format 2 have no forms, and only raw blocks.

A packed block is restored packed: a start neither decompresses it nor makes its columns, and what a tree has to know of
it stands before the packed form. The checksum of the section covers all of it, so what is opened later is what was
written; a start only compares the sizes.

A sealed block is packed by the thread that writes it, on another thread than the region's, unless it comes last in its
tree, because a start looks at the last ID. Its entries are not put into column layout, which would take three times as
long. A packed form that the block has already is written as it is. Raw blocks become bytes when they are captured,
because a thread that makes many small objects keeps the region waiting.

The **place** of a block is `number << 40 | index` in the file of this number; in files of format 2 it is
`number << 40 | offset`.
"""

from __future__ import annotations

import struct
from array import array
from itertools import product
from typing import Final

from zstandard import ZstdError, frame_content_size

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import Codec, OpenBlockCache, PackedForm, folded
from crdtstream.core.entries.uint_encoding import in_order, widths_of
from crdtstream.protocols.columns import CodecError, column_bytes
from crdtstream.storage.recovery import CheckpointDamaged

PLACE_BITS: Final = 40
RAW_FORMAT: Final = 2

_RAW: Final = 0
_RAW_FORM: Final = bytes([_RAW])
_PACKED: Final = 1
_COLUMN_LAYOUT: Final = 2
_LISTED: Final = 4
_FORMS: Final = _PACKED | _COLUMN_LAYOUT | _LISTED
_BLOCK: Final = struct.Struct("<4Q4s")
_PACKED_BLOCK: Final = struct.Struct("<B8Q16s")
_SUM_BYTES: Final = 16
_CODES: Final = {4: "I", 8: "Q"}
_WIDTHS: Final = tuple(_CODES)
_NO_COLUMN: Final = array("Q")
_ALLOWED: Final = frozenset(bytes(widths) for widths in product(_WIDTHS, _WIDTHS, (0, *_WIDTHS), _WIDTHS))
# What the columns of a packed block begin with, and the least and the most that they take for an entry.
_WIDTH_BYTES: Final = 4
_ROW_BYTES_MIN: Final = 12
_ROW_BYTES_MAX: Final = 32
FORM_BYTES: Final = 1
RAW_HEAD_BYTES: Final = _BLOCK.size
PACKED_HEAD_BYTES: Final = _PACKED_BLOCK.size


def block_parts(block: Block, count: int) -> list[bytes]:
    """The first `count` entries of a block as they lie in a file, packed if the block is packed already."""
    packed_form = block.packed_form
    ms_base, counter_base = block.bases()
    if packed_form is not None and packed_form.packed and count == block.count:
        layout = _COLUMN_LAYOUT if packed_form.in_column_layout else 0
        form = _PACKED | layout | (_LISTED if block.lists_counters() else 0)
        first = (*packed_form.first_id(), packed_form.first_listed, packed_form.counter_sum)
        return packed_parts(form, (count, block.byte_count, ms_base, counter_base), first, packed_form.packed)
    data = block.data() if count == block.count else block.entry_slice(0, count)
    columns = block.kept(count)[2]
    return raw_parts(ms_base, counter_base, columns, data, count)


def raw_parts(ms_base: int, counter_base: int, columns: list[array[int]], data: bytes, count: int) -> list[bytes]:
    head = _BLOCK.pack(count, len(data), ms_base, counter_base, widths_of(columns))
    return [_RAW_FORM, head, *[column_bytes(column) for column in columns], data]


def packed_parts(
    form: int, about: tuple[int, int, int, int], first: tuple[int, int, int, int], packed: bytes
) -> list[bytes]:
    """A packed block of these entries, bytes and bases, with its first ID, and first and sum of the list."""
    ms, seq, first_listed, total = first
    sum_bytes = total.to_bytes(_SUM_BYTES, "little")
    return [_PACKED_BLOCK.pack(form, *about, len(packed), ms, seq, first_listed, sum_bytes), packed]


class BlockImage:
    """A sealed block, captured to be packed by the thread that writes it: what happens to the block later changes
    nothing. One object and no list, so that captures give the garbage collector little to visit.
    """

    __slots__ = ("_block", "_counter_base", "_data", "_ends", "_listed", "_ms", "_ms_base", "_seq", "at", "byte_count")

    def __init__(self, block: Block) -> None:
        self._block = block
        self._ms_base, self._counter_base, columns = block.kept(block.count)
        self._ms, self._seq, self._listed, self._ends = columns
        self._data = block.data()
        # Its number among the parts of a section.
        self.at = 0
        # What it takes in memory until it is written.
        self.byte_count = len(self._data) + block.count * sum(widths_of(columns))

    def payload(self) -> bytes:
        """What is to be packed."""
        return folded([self._ms, self._seq, self._listed, self._ends], self._data)

    def bytes_of(self, packed: bytes) -> bytes:
        """The block as it lies in a file, if this is the packed form; nothing if it is to stay raw."""
        ms, listed, count = self._ms, self._listed, len(self._ms)
        if packed:
            about = (count, len(self._data), self._ms_base, self._counter_base)
            first = (self._ms_base + ms[0], self._seq[0], listed[0] if listed else 0, sum(listed))
            found = b"".join(packed_parts(_PACKED | (_LISTED if listed else 0), about, first, packed))
        else:
            columns = [ms, self._seq, listed, self._ends]
            found = b"".join(raw_parts(self._ms_base, self._counter_base, columns, self._data, count))
        # For checkpoints alone, which look at it once everything is written.
        self._block.stored_bytes = len(found)
        return found


class BlockPacker:
    """Packs blocks, on one thread."""

    __slots__ = ("_codec",)

    def __init__(self) -> None:
        self._codec = Codec()

    def pack(self, images: list[BlockImage]) -> list[bytes]:
        """These blocks as they lie in a file."""
        packed = self._codec.all_packed([image.payload() for image in images])
        return [image.bytes_of(form) for image, form in zip(images, packed, strict=True)]


class BlockReader:
    """Reads blocks from the sections of block files, in order; `blocks` are all that were read, by place. Packed ones
    belong to this cache.
    """

    def __init__(self, open_blocks: OpenBlockCache) -> None:
        self.blocks: dict[int, Block] = {}
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
