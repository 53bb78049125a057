"""The block files of a checkpoint: packed forms, their heads, and raw blocks, each in sections of their own.

    packed forms    one after the other
    heads           of the packed blocks whose forms stand before (storage/block_heads.py)
    raw blocks      index 8 | raw block (storage/blocks.py), one after the other

A start that leaves packed blocks on disk reads the heads of sections, the heads of blocks, and raw blocks. Whatever
opens such a block later compares its packed form with the checksum in its head. Any other start reads the packed forms
too, a section at a time, keeps them in memory, and compares the sizes that they unpack to with their heads: it neither
decompresses a block nor makes its columns. Blocks know where they lie in both cases.

Raw are the last blocks of trees, because a start looks at their last ID, and blocks of a region that does not spill if
packing would not pay.
"""

from __future__ import annotations

from bisect import bisect_right

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.entries.spilled import PLACE_BITS, BlockFile
from crdtstream.protocols.columns import CodecError
from crdtstream.storage.block_heads import HEAD_BYTES, BlockHead, read_head
from crdtstream.storage.block_images import stored_bytes
from crdtstream.storage.blocks import INDEX, INDEX_BYTES, OldBlockReader, read_raw, require_size
from crdtstream.storage.disk import Disk
from crdtstream.storage.recovery import CheckpointDamaged
from crdtstream.storage.sections import (
    FORMAT_VERSION,
    HEADS,
    PACKED,
    RAW,
    SectionHead,
    read_payload,
    read_sections,
    read_version,
    section_heads,
)


class BlockReader:
    """Reads the block files of a start. `blocks` are all blocks by place, packed ones of this cache; `old` are the
    files in formats that are no longer written.
    """

    def __init__(self, disk: Disk, open_blocks: OpenBlockCache, spills: bool, with_sums: bool = True) -> None:
        self.blocks: dict[int, Block] = {}
        self.old: set[int] = set()
        self._disk = disk
        self._open_blocks = open_blocks
        self._spills = spills
        self._with_sums = with_sums
        open_blocks.reads.on = open_blocks.reads.on or spills

    def read(self, name: str, number: int, byte_count: int) -> None:
        """Read a file of which the manifest says number and size."""
        version = read_version(self._disk, name, number)
        if version == FORMAT_VERSION:
            self._read_new(name, number, byte_count)
            return
        self.old.add(number)
        reader = OldBlockReader(self._open_blocks, self.blocks)
        reader.begin(name, number, version)
        for offset, payload in read_sections(self._disk, name, number, byte_count, version):
            reader.add_section(offset, payload)

    def _read_new(self, name: str, number: int, byte_count: int) -> None:
        packed: list[SectionHead] = []
        heads: list[BlockHead] = []
        for section in section_heads(self._disk, name, number, byte_count, FORMAT_VERSION):
            if section.kind == PACKED:
                packed.append(section)
            elif section.kind in (HEADS, RAW):
                self._read_section(name, number, section, heads)
        by_section = sorted_heads(name, packed, heads)
        file = self._disk.open_file(name) if heads else None
        for section, theirs in zip(packed, by_section, strict=True):
            if file is not None:
                self._add_packed(name, number, section, theirs, file)

    def _read_section(self, name: str, number: int, section: SectionHead, heads: list[BlockHead]) -> None:
        payload = read_payload(self._disk, name, number, section)
        at = 0
        while at < len(payload):
            try:
                if section.kind == HEADS:
                    heads.append(read_head(payload, at))
                    at += HEAD_BYTES
                else:
                    at = self._add_raw(number, payload, at)
            except CodecError as misfit:
                raise CheckpointDamaged(name, section.begin + at, str(misfit)) from misfit

    def _add_raw(self, number: int, payload: bytes, at: int) -> int:
        """Take the raw block at `at`; return where it ends."""
        begin = at + INDEX_BYTES
        if begin > len(payload):
            raise CodecError("a block header is truncated")
        block, after = read_raw(payload, begin)
        self._add(block, number << PLACE_BITS | int(INDEX.unpack_from(payload, at)[0]), after - at)
        return after

    def _add_packed(
        self, name: str, number: int, section: SectionHead, heads: list[BlockHead], file: BlockFile
    ) -> None:
        """Take the blocks with these heads, whose packed forms lie in this section."""
        payload = b"" if self._spills else read_payload(self._disk, name, number, section)
        for head in heads:
            begin = head.offset - section.begin
            head.is_summed = head.is_summed and self._with_sums
            block = head.block(self._open_blocks, payload[begin : begin + head.length])
            packed_form = block.packed_form
            if packed_form is not None and not packed_form.spilled:
                try:
                    require_size(packed_form, head.count, head.byte_count)
                except CodecError as misfit:
                    raise CheckpointDamaged(name, head.offset, str(misfit)) from misfit
            handle = head.handle(file, number)
            block.lie_at(handle)
            self._add(block, handle.place, stored_bytes(head.length))

    def _add(self, block: Block, place: int, byte_count: int) -> None:
        block.place, block.stored_count, block.stored_bytes = place, block.count, byte_count
        self.blocks[place] = block


def sorted_heads(name: str, packed: list[SectionHead], heads: list[BlockHead]) -> list[list[BlockHead]]:
    """The heads of the blocks in each of these sections."""
    begins = [section.begin for section in packed]
    found: list[list[BlockHead]] = [[] for _ in packed]
    for head in heads:
        at = bisect_right(begins, head.offset) - 1
        if at < 0 or head.offset + head.length > packed[at].begin + packed[at].length:
            text = f"a packed block of {head.count} entries does not fit its section"
            raise CheckpointDamaged(name, head.offset, text)
        found[at].append(head)
    return found
