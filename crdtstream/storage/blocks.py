"""Blocks as they lie in the block files of a checkpoint.

    block      entries 8 | bytes of data 8 | base of milliseconds 8 | base of counters 8 | widths 4 | form 1 | content
    raw        milliseconds | sequence numbers | counters | ends | data
    packed     bytes of the packed form 8 | first ID 16 | first counter 8 | sum of counters 16 | the packed form

A width is the number of bytes of an integer in that column, as `Block.kept` returns it: 8, or 4 if it is narrow, or 0
for counters that are not listed. The form says whether the content is raw, packed, or packed after its entries were
transposed (core/cold.py). Sums are those of the column, without the base. In files of format 2 there is no form, and
all blocks are raw.

A packed block is restored closed: a start neither decompresses it nor makes its columns, and what a tree has to know of
it stands before the packed form. A block is packed on the thread that writes it, if it is sealed and does not come last
in its tree, whose last ID a start looks at. So it is not transposed, because that would take four times as long; a
packed form that the block has already is written as it is.

The **place** of a block is `number << 40 | index` in the file of this number; in files of format 2 it is
`number << 40 | offset`.
"""

from __future__ import annotations

import struct
from array import array
from itertools import product
from typing import Final

from zstandard import ZstdError, frame_content_size

from crdtstream.core.block import Block
from crdtstream.core.cold import Codec, Cold, Shelf, folded
from crdtstream.core.narrowing import in_order
from crdtstream.protocols.columns import CodecError, column_bytes
from crdtstream.protocols.state_rows import Placed
from crdtstream.storage.recovery import CheckpointDamaged

PLACE_BITS: Final = 40
RAW_FORMAT: Final = 2

_RAW: Final = 0
_PACKED: Final = 1
_TRANSPOSED: Final = 2
_BLOCK: Final = struct.Struct("<4Q4s")
_PACKED_BLOCK: Final = struct.Struct("<4Q4sB4Q16s")
_SUM_BYTES: Final = 16
_CODES: Final = {4: "I", 8: "Q"}
_WIDTHS: Final = tuple(_CODES)
_NO_COLUMN: Final = array("Q")
_NO_COLUMNS: Final[list[array[int]]] = []
_ALLOWED: Final = frozenset(bytes(widths) for widths in product(_WIDTHS, _WIDTHS, (0, *_WIDTHS), _WIDTHS))
# The packed form begins with the widths.
_WIDTH_BYTES: Final = 4
BLOCK_BYTES: Final = _BLOCK.size
HEAD_BYTES: Final = BLOCK_BYTES + 1
PACKED_HEAD_BYTES: Final = _PACKED_BLOCK.size


class BlockImage:
    """The first `count` entries of a block, captured to be written: later changes of the block do not touch it."""

    __slots__ = ("_bases", "_block", "_cold", "_columns", "_count", "_data", "_packs")

    def __init__(self, block: Block, count: int, packs: bool) -> None:
        """With `packs`, the entries are packed when they are written."""
        cold = block.cold
        self._block = block
        self._count = count
        self._bases = block.bases()
        self._packs = packs and cold is None
        self._cold = cold if cold is not None and cold.packed and count == block.count else None
        self._columns, self._data = _NO_COLUMNS, b""
        if self._cold is None:
            self._columns = block.kept(count)[2]
            self._data = block.data() if count == block.count else block.entry_slice(0, count)

    def byte_count(self) -> int:
        """About what the entries take in memory."""
        if self._cold is not None:
            return len(self._cold.packed)
        return len(self._data) + self._count * sum(widths_of(self._columns))

    def parts(self, codec: Codec) -> list[bytes]:
        """The block as it lies in a file; it is told how much it takes there, which is for checkpoints alone."""
        parts = self._packed_parts(codec) or self._raw_parts()
        self._block.stored_bytes = sum([len(part) for part in parts])
        return parts

    def _raw_parts(self) -> list[bytes]:
        head = _BLOCK.pack(self._count, len(self._data), *self._bases, widths_of(self._columns))
        return [head, bytes([_RAW]), *[column_bytes(column) for column in self._columns], self._data]

    def _packed_parts(self, codec: Codec) -> list[bytes]:
        """Nothing if the block is to be raw."""
        cold = self._cold
        if cold is not None:
            columns, data = cold.unpacked(codec, self._count, self._bases[0])
            form = _TRANSPOSED if cold.is_transposed else _PACKED
            return self._parts_of(columns, len(data), form, cold.packed)
        packed = codec.packed(folded(self._columns, self._data)) if self._packs else b""
        return self._parts_of(self._columns, len(self._data), _PACKED, packed) if packed else []

    def _parts_of(self, columns: list[array[int]], data_bytes: int, form: int, packed: bytes) -> list[bytes]:
        ms_base, counter_base = self._bases
        ms, seq, listed, _ = columns
        first = counter_base + (listed[0] if listed else 0)
        total = sum(listed).to_bytes(_SUM_BYTES, "little")
        about = (len(packed), ms_base + ms[0], seq[0], first, total)
        head = _PACKED_BLOCK.pack(self._count, data_bytes, ms_base, counter_base, widths_of(columns), form, *about)
        return [head, packed]


def widths_of(columns: list[array[int]]) -> bytes:
    return bytes([column.itemsize if column else 0 for column in columns])


class BlockReader:
    """Reads blocks from the sections of block files, in order; `placed` are all that were read, by place. Packed ones
    belong to this shelf.
    """

    def __init__(self, shelf: Shelf) -> None:
        self.placed: dict[int, Placed] = {}
        self._shelf = shelf
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

    def take(self, offset: int, payload: bytes) -> None:
        """Take the payload of a section, which begins at this offset of the file."""
        at = 0
        head_bytes = BLOCK_BYTES if self._is_raw else HEAD_BYTES
        while at < len(payload):
            if len(payload) - at < head_bytes:
                raise CheckpointDamaged(self._name, offset + at, "a block header is truncated")
            form = _RAW if self._is_raw else payload[at + BLOCK_BYTES]
            place = self._base + (offset + at if self._is_raw else self._index)
            self._index += 1
            try:
                if form == _RAW:
                    after = self._take_raw(payload, at, at + head_bytes, place)
                else:
                    after = self._take_packed(payload, at, form, place)
            except CodecError as misfit:
                raise CheckpointDamaged(self._name, offset + at, str(misfit)) from misfit
            at = after

    def _take_raw(self, payload: bytes, at: int, begin: int, place: int) -> int:
        """Read the block at `at`, the content of which begins at `begin`; returns where it ends."""
        head: tuple[int, int, int, int, bytes] = _BLOCK.unpack_from(payload, at)
        count, data_bytes, ms_base, counter_base, widths = head
        columns_end = begin + count * sum(widths)
        after = columns_end + data_bytes
        if not count or after > len(payload) or widths not in _ALLOWED:
            raise CodecError(f"a block of {count} entries does not fit its section")
        columns = read_columns(payload, begin, count, widths)
        if columns[-1][-1] != data_bytes:
            raise CodecError("the ends of a block do not match its data")
        block = Block.of_kept(ms_base, counter_base, columns, payload[columns_end:after])
        self._place((block, block.id_at(0), block.counter_at(0)), place, after - at)
        return after

    def _take_packed(self, payload: bytes, at: int, form: int, place: int) -> int:
        begin = at + PACKED_HEAD_BYTES
        if begin > len(payload):
            raise CodecError("the head of a packed block is truncated")
        head: tuple[int, int, int, int, bytes, int, int, int, int, int, bytes] = _PACKED_BLOCK.unpack_from(payload, at)
        count, data_bytes, ms_base, counter_base, widths, _, packed_bytes, first_ms, first_seq, first, total = head
        after = begin + packed_bytes
        if not count or after > len(payload) or widths not in _ALLOWED or form > _TRANSPOSED:
            raise CodecError(f"a packed block of {count} entries does not fit its section")
        packed = payload[begin:after]
        is_transposed, is_listed = form == _TRANSPOSED, widths[2] > 0
        require_size(packed, _WIDTH_BYTES + count * sum(widths), data_bytes, is_transposed)
        cold = Cold(self._shelf, packed, int.from_bytes(total, "little") if is_listed else 0, is_transposed)
        block = Block.of_packed(ms_base, counter_base, is_listed, count, data_bytes, cold)
        self._place((block, (first_ms, first_seq), first), place, after - at)
        return after

    def _place(self, placed: Placed, place: int, byte_count: int) -> None:
        block = placed[0]
        block.place = place
        block.stored_count, block.stored_bytes = block.count, byte_count
        self.placed[place] = placed


def require_size(packed: bytes, before_data: int, data_bytes: int, is_transposed: bool) -> None:
    """Compare what the packed form says that it will unpack to with the head of its block. The bytes themselves are
    what was written: the checksum of the section has said so.
    """
    try:
        size = frame_content_size(packed)
    except ZstdError as error:
        raise CodecError(f"a packed block is none: {error}") from error
    if size < before_data or (size != before_data + data_bytes and not is_transposed):
        raise CodecError(f"a packed block holds {size} bytes, and its head says {before_data} and {data_bytes}")


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
