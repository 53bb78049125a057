"""Sealed blocks, captured to be written packed: what happens to a block later changes nothing in the file.

They are packed by the thread that writes them, on another thread than the region's, and not put into column layout,
which would take three times as long. A packed form that the block has already is written as it is; that of a spilled
block is read from its file and written again, so no block is opened for it.

Blocks of a region that spills are packed even where that does not pay, because only a packed form can be spilled; and
the sum of their entries is computed here if it is wanted, so that digests need not read them. For a small entry this
takes half as long as its XADD, so a region does without while much is written (runtime/saver.py).
"""

from __future__ import annotations

import time
from array import array
from typing import Final
from zlib import crc32

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import Codec, folded, unpacked_by
from crdtstream.core.entries.spilled import PLACE_BITS, BlockFile, BlockHandle
from crdtstream.core.entries.uint_encoding import widths_of
from crdtstream.storage.block_heads import HEAD_BYTES, BlockHead
from crdtstream.storage.blocks import INDEX_BYTES, raw_parts
from crdtstream.storage.disk import DiskFailed

# After so many entries that it hashes, the writer's thread rests: the region's would wait for the interpreter.
_HASHED_ENTRIES: Final = 256
_REST_S: Final = 0.00002


class BlockImage:
    """A sealed block that has no packed form. One object and no list, so that captures give the garbage collector
    little to visit.
    """

    __slots__ = (
        "_counter_base",
        "_data",
        "_ends",
        "_listed",
        "_ms",
        "_ms_base",
        "_seq",
        "block",
        "byte_count",
        "index",
    )

    def __init__(self, block: Block) -> None:
        self.block = block
        self._ms_base, self._counter_base, columns = block.kept(block.count)
        self._ms, self._seq, self._listed, self._ends = columns
        self._data = block.data()
        # Its number in the file.
        self.index = 0
        # What it takes in memory until it is written.
        self.byte_count = len(self._data) + block.count * sum(widths_of(columns))

    def payload(self) -> bytes:
        """What is to be packed."""
        return folded([self._ms, self._seq, self._listed, self._ends], self._data)

    def raw(self) -> bytes:
        """The block as it lies in a file, raw."""
        columns = [self._ms, self._seq, self._listed, self._ends]
        found = b"".join(raw_parts(self._ms_base, self._counter_base, columns, self._data, len(self._ms)))
        # For checkpoints alone, which look at it once everything is written.
        self.block.stored_bytes = INDEX_BYTES + len(found)
        return found

    def head(self, packer: BlockPacker) -> BlockHead:
        head = BlockHead(len(self._ms), len(self._data), self._ms_base, self._counter_base)
        head.set_first(self._ms_base + self._ms[0], self._seq[0], self._listed)
        head.index = self.index
        head.take_sum_of(self.block)
        if packer.sums and not head.is_summed:
            packer.add_sum(head, [self._ms, self._seq, self._listed, self._ends], self._data)
        return head


class PackedImage:
    """A block that has its packed form, in memory or in a file."""

    __slots__ = ("_handle", "_packed", "block", "byte_count", "head")

    def __init__(self, block: Block) -> None:
        packed_form, handle = block.packed_form, block.handle
        assert packed_form is not None
        self.block = block
        self.head = BlockHead.of_block(block)
        self._packed = packed_form.packed
        self._handle: BlockHandle | None = handle if packed_form.spilled else None
        assert self._packed or self._handle is not None
        self.byte_count = len(self._packed) if handle is None or self._packed else handle.length

    def packed(self, packer: BlockPacker) -> bytes:
        """The packed form, on the writer's thread."""
        packed = self._packed if self._handle is None else read_whole(self._handle)
        head = self.head
        if packer.sums and not head.is_summed:
            try:
                columns, data = unpacked_by(packer.codec, packed, head.count, head.ms_base, head.in_column_layout)
            except MemoryError:
                raise
            except Exception:  # its sum stays unknown, so a digest opens the block, and says what is wrong with it
                return packed
            packer.add_sum(head, columns, data)
        return packed


def read_whole(handle: BlockHandle) -> bytes:
    """The packed form of a spilled block; raises a disk error that names the block if it is not what was written."""
    packed = handle.read()
    if not handle.is_whole(packed):
        text = f"{handle.where()}, is damaged, so a checkpoint cannot copy it: its checksum is wrong"
        raise DiskFailed(text)
    return packed


class BlockPacker:
    """Packs blocks, on one thread; `spills` says whether the region does, and `sums` whether sums are wanted."""

    __slots__ = ("_hashed", "codec", "spills", "sums")

    def __init__(self, spills: bool = False) -> None:
        self.codec = Codec()
        self.spills = spills
        self.sums = spills
        self._hashed = 0

    def pack(self, images: list[BlockImage]) -> list[bytes]:
        """The packed forms; empty for those that are to stay raw."""
        return self.codec.all_packed([image.payload() for image in images], self.spills)

    def add_sum(self, head: BlockHead, columns: list[array[int]], data: bytes) -> None:
        """Work out the sum of these entries."""
        head.total = Block.of_kept(head.ms_base, head.counter_base, columns, data).checksum()
        head.is_summed = True
        self._hashed += head.count
        if self._hashed >= _HASHED_ENTRIES:
            self._hashed = 0
            time.sleep(_REST_S)


class WrittenBlocks:
    """The blocks that a checkpoint wrote packed to one file, as columns: many objects would keep the garbage collector
    busy. They get their handles once the checkpoint is in force.
    """

    __slots__ = (
        "_blocks",
        "_checksums",
        "_indexes",
        "_layouts",
        "_lengths",
        "_offsets",
        "_summed",
        "_sums",
        "file",
        "number",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        # Set before the checkpoint is in force.
        self.file: BlockFile | None = None
        self._blocks: list[Block] = []
        self._indexes = array("Q")
        self._offsets = array("Q")
        self._lengths = array("Q")
        self._checksums = array("I")
        self._sums = array("Q")
        self._layouts = bytearray()
        self._summed = bytearray()

    def __len__(self) -> int:
        return len(self._blocks)

    def add(self, block: Block, head: BlockHead) -> None:
        self._blocks.append(block)
        self._indexes.append(head.index)
        self._offsets.append(head.offset)
        self._lengths.append(head.length)
        self._checksums.append(head.checksum)
        self._sums.append(head.total)
        self._layouts.append(head.in_column_layout)
        self._summed.append(head.is_summed)
        # For checkpoints alone, which look at it once everything is written.
        block.stored_bytes = stored_bytes(head.length)

    def lay(self, count: int) -> int:
        """Give this many blocks their handles and sums, the last ones first; returns how many there were."""
        file, base = self.file, self.number << PLACE_BITS
        assert file is not None
        low = max(0, len(self._blocks) - count)
        laid = len(self._blocks) - low
        for at in range(low, len(self._blocks)):
            block = self._blocks[at]
            layout = self._layouts[at] > 0
            length, checksum = self._lengths[at], self._checksums[at]
            block.lie_at(BlockHandle(file, self._offsets[at], length, checksum, layout, base | self._indexes[at]))
            if self._summed[at]:
                block.take_sum(self._sums[at])
        del self._blocks[low:]
        return laid


def place_head(head: BlockHead, packed: bytes, offset: int) -> bytes:
    """The head of a packed form that lies at this offset of its file."""
    head.offset, head.length, head.checksum = offset, len(packed), crc32(packed)
    return head.encode()


def stored_bytes(packed_bytes: int) -> int:
    """What a block takes in its file."""
    return HEAD_BYTES + packed_bytes
