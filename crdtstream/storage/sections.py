"""The files of a checkpoint: sections, each with a checksum, written once and never changed.

    file       magic 8 | version 4 | number 8 | checksum 4 | sections to the end that the manifest names
    section    checksum 4 | length 8 | payload

All numbers are little-endian. The checksum of a section is seeded with the number of its file and its offset, so a
section is valid only in the file and at the offset for which it was written.

The payload of a block file is a sequence of blocks, each with its columns:

    block      entries 8 | bytes of data 8 | base of milliseconds 8 | base of counters 8 | widths 4 | milliseconds |
               sequence numbers | counters | ends | data

A width is the number of bytes of an integer in that column, as `Block.kept` returns it: 8, or 4 if it is narrow, or 0
for counters that are not listed.

The **place** of a block is `number << 40 | offset` of its first byte in the file. `Draft` collects one section in
memory; only `write_section` accesses the disk, and it may run on another thread.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from itertools import product

from crdtstream.core.block import Block
from crdtstream.protocols.columns import column_bytes, in_order
from crdtstream.storage.checksums import crc32
from crdtstream.storage.disk import Disk
from crdtstream.storage.recovery import LogDamaged
from crdtstream.storage.segment import FormatUnknown

FORMAT_VERSION = 2
OFFSET_BITS = 40

_MAGIC = b"CRDTSEC\n"
_HEADER = struct.Struct("<8sIQ")
_CHECKSUM = struct.Struct("<I")
_SECTION = struct.Struct("<IQ")
_BLOCK = struct.Struct("<4Q4s")
_CODES = {4: "I", 8: "Q"}
_WIDTHS = tuple(_CODES)
_NO_COLUMN = array("Q")
_ALLOWED = frozenset(bytes(widths) for widths in product(_WIDTHS, _WIDTHS, (0, *_WIDTHS), _WIDTHS))
_MASK = 0xFFFFFFFF
HEADER_BYTES = _HEADER.size + _CHECKSUM.size
SECTION_BYTES = _SECTION.size
BLOCK_BYTES = _BLOCK.size


class CheckpointDamaged(LogDamaged):
    """A file that the manifest names is corrupt."""


class Section:
    """Data to write to a file: the payload's parts and their offset; the last section of a file closes it."""

    __slots__ = ("closes", "name", "number", "offset", "parts")

    def __init__(self, name: str, number: int, offset: int, parts: list[bytes]) -> None:
        self.name = name
        self.number = number
        self.offset = offset
        self.parts = parts
        self.closes = False


class Draft:
    """A file that is being written: the section being collected, and its offset."""

    __slots__ = ("_gathered_bytes", "_offset", "_parts", "name", "number")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self._offset = HEADER_BYTES
        self._parts: list[bytes] = []
        self._gathered_bytes = 0

    def add(self, parts: list[bytes]) -> int:
        """Add the parts; return their place."""
        place = self.number << OFFSET_BITS | self._offset + SECTION_BYTES + self._gathered_bytes
        for part in parts:
            self._gathered_bytes += len(part)
        self._parts += parts
        return place

    def gathered_bytes(self) -> int:
        return self._gathered_bytes

    def byte_count(self) -> int:
        """The size of the file once everything is written."""
        return self._offset + (SECTION_BYTES + self._gathered_bytes if self._parts else 0)

    def take(self) -> Section:
        """Return what was collected as a section, possibly an empty one that closes the file; the next section follows
        it.
        """
        section = Section(self.name, self.number, self._offset, self._parts)
        self._offset = self.byte_count()
        self._parts = []
        self._gathered_bytes = 0
        return section


def write_section(disk: Disk, section: Section) -> None:
    """Write a section. The first one of a file creates it; the last one makes its content durable, but not its name."""
    if section.parts:
        _write_payload(disk, section, b"".join(section.parts))
    if section.closes:
        disk.sync(section.name)
        disk.release(section.name)


def _write_payload(disk: Disk, section: Section, payload: bytes) -> None:
    offset = section.offset
    head = _SECTION.pack(_checksum(payload, section.number, offset), len(payload))
    data = head + payload
    if offset == HEADER_BYTES:
        disk.create(section.name, 0)
        data = _file_header(section.number) + data
        offset = 0
    disk.write(section.name, offset, data)


def _file_header(number: int) -> bytes:
    head = _HEADER.pack(_MAGIC, FORMAT_VERSION, number)
    return head + _CHECKSUM.pack(crc32(head, 0))


def _checksum(payload: bytes | memoryview, number: int, offset: int) -> int:
    # The odd constant spreads consecutive file numbers, so that equal sums of number and offset are unlikely.
    return crc32(payload, (number * 0x9E3779B1 + offset) & _MASK)


def read_sections(disk: Disk, name: str, number: int, byte_count: int) -> Iterator[tuple[int, memoryview]]:
    """Read (offset of the payload, payload) for each section of a file, one at a time, and verify its checksum.

    Reading a whole file would need new memory for each file; a section uses the memory of the one before.
    """
    size = disk.size(name)
    if size < byte_count:
        raise CheckpointDamaged(name, size, f"the file ends there, but had {byte_count} bytes")
    _check_header(name, number, disk.read(name, 0, HEADER_BYTES))
    offset = HEADER_BYTES
    while offset < byte_count:
        begin = offset + SECTION_BYTES
        head = disk.read(name, offset, SECTION_BYTES)
        if byte_count < begin or len(head) < SECTION_BYTES:
            raise CheckpointDamaged(name, offset, "a section header is truncated")
        checksum, length = _SECTION.unpack(head)
        payload = disk.read(name, begin, length) if length <= byte_count - begin else b""
        if len(payload) < length or _checksum(payload, number, offset) != checksum:
            raise CheckpointDamaged(name, offset, "the checksum of a section is wrong")
        yield begin, memoryview(payload)
        offset = begin + length


def _check_header(name: str, number: int, header: bytes) -> None:
    if len(header) < HEADER_BYTES or not header.startswith(_MAGIC):
        raise CheckpointDamaged(name, 0, "it is not a checkpoint file")
    _, version, found = _HEADER.unpack_from(header)
    if version != FORMAT_VERSION:
        text = f"{name} is in checkpoint format {version}, but this release reads format {FORMAT_VERSION}"
        raise FormatUnknown(f"{text}: run the release that wrote it, or a newer one whose notes say that it reads both")
    if _CHECKSUM.unpack_from(header, _HEADER.size)[0] != crc32(header[: _HEADER.size], 0) or found != number:
        raise CheckpointDamaged(name, 0, "the file header is wrong")


# Blocks


def block_parts(block: Block, count: int) -> list[bytes]:
    """Return the first `count` entries of a block in file format."""
    block = block.viewed()
    data = block.data() if count == block.count else block.entry_slice(0, count)
    ms_base, counter_base, columns = block.kept(count)
    widths = bytes([column.itemsize if column else 0 for column in columns])
    head = _BLOCK.pack(count, len(data), ms_base, counter_base, widths)
    return [head, *[column_bytes(column) for column in columns], data]


def read_blocks(name: str, number: int, offset: int, payload: memoryview, blocks: dict[int, Block]) -> None:
    """Decode the blocks of a section's payload, which begins at this file offset, and store them in `blocks` by
    place.
    """
    at, end = 0, len(payload)
    unpack, place = _BLOCK.unpack_from, number << OFFSET_BITS | offset
    while at < end:
        if end - at < BLOCK_BYTES:
            raise CheckpointDamaged(name, offset + at, "a block header is truncated")
        count, data_bytes, ms_base, counter_base, widths = unpack(payload, at)
        columns_end = at + BLOCK_BYTES + count * sum(widths)
        after = columns_end + data_bytes
        if not count or after > end or widths not in _ALLOWED:
            raise CheckpointDamaged(name, offset + at, f"a block of {count} entries does not fit its section")
        columns = read_columns(payload, at + BLOCK_BYTES, count, widths)
        if columns[-1][-1] != data_bytes:
            raise CheckpointDamaged(name, offset + at, "the ends of a block do not match its data")
        block = Block.of_kept(ms_base, counter_base, columns, payload[columns_end:after].tobytes())
        block.place = place + at
        block.stored_count, block.stored_bytes = count, after - at
        blocks[place + at] = block
        at = after


def read_columns(payload: memoryview, at: int, count: int, widths: bytes) -> list[array[int]]:
    """Read columns of these widths, from this offset on. Counters that are not listed are the same empty column for all
    blocks, which keep none.
    """
    columns: list[array[int]] = []
    for width in widths:
        end = at + count * width
        columns.append(in_order(array(_CODES[width], payload[at:end].tobytes())) if width else _NO_COLUMN)
        at = end
    return columns
