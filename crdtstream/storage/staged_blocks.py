"""Blocks of a state that arrives, spilled into a file of their own: so a region takes a state that is larger than its
memory.

The chunks of the state are in the log, which a start replays; the file only spares memory. It is no part of a
checkpoint: the next one copies what it has of blocks that were joined, as it copies other spilled blocks. Its name is
deleted when the transfer ends, or by the next start; handles keep it open until no block has one any more.

If the disk refuses the file, blocks stay in memory as if there was none.
"""

from __future__ import annotations

from collections.abc import Callable

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import OpenBlockCache, folded
from crdtstream.core.entries.spilled import STAGED, BlockFile, BlockHandle
from crdtstream.storage.checksums import crc32
from crdtstream.storage.disk import Disk, DiskError


class StagedBlocks:
    """The file of one region's incoming state, of which half of what is `allowed` in memory stays there."""

    __slots__ = ("_allowed", "_disk", "_failed", "_file", "_kept_bytes", "_offset", "_open_blocks")

    def __init__(self, disk: Disk, open_blocks: OpenBlockCache, allowed: Callable[[], int]) -> None:
        """`allowed` is `hot_bytes_max`, which may change."""
        self._disk = disk
        self._open_blocks = open_blocks
        self._allowed = allowed
        self._kept_bytes = 0
        self._file: BlockFile | None = None
        self._offset = 0
        self._failed = False

    def spill(self, block: Block) -> None:
        """Spill a block that will get no more entries, if there is too much."""
        allowed_bytes = self._allowed()
        if not allowed_bytes or self._failed:
            return
        if self._kept_bytes + block.byte_count <= allowed_bytes // 2:
            self._kept_bytes += block.byte_count
            return
        block.seal()
        # While it is in memory: digests then need not read it.
        block.checksum()
        packed = self._open_blocks.codec.pack(folded(block.as_stored(), block.data()))
        try:
            file = self._write(packed)
        except DiskError:
            self._failed = True
            return
        offset = self._offset - len(packed)
        block.lie_at(BlockHandle(file, offset, len(packed), crc32(packed, 0), False))
        block.spill(self._open_blocks)
        self._open_blocks.reads.on = True

    def _write(self, packed: bytes) -> BlockFile:
        file = self._file
        if file is None:
            self._delete()
            self._disk.create(STAGED, 0)
            file = self._file = self._disk.open_file(STAGED)
        self._disk.write(STAGED, self._offset, packed)
        self._offset += len(packed)
        return file

    def end(self) -> None:
        """The transfer is over: what is left of the file belongs to the blocks that were joined."""
        self._file, self._offset, self._kept_bytes, self._failed = None, 0, 0, False
        try:
            self._delete()
        except DiskError:
            return  # the next transfer or start deletes it

    def _delete(self) -> None:
        if STAGED in self._disk.names():
            self._disk.delete(STAGED)
