"""The files of a checkpoint: sections, each with a checksum, written once and never changed.

    file       magic 8 | version 4 | number 8 | checksum 4 | sections to the end that the manifest names
    section    checksum 4 | length 8 | payload

All numbers are little-endian. The checksum of a section is seeded with the number of its file and its offset, so a
section is valid only in the file and at the offset for which it was written.

The payload of a state file is a sequence of rows, that of a block file a sequence of blocks (storage/blocks.py).
`Draft` collects one section in memory; only `write_section` accesses the disk, and it may run on another thread. Blocks
are packed there, so the size of a file is known only once it is written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from crdtstream.storage.blocks import PLACE_BITS, RAW_FORMAT, BlockImage, BlockPacker
from crdtstream.storage.checksums import crc32
from crdtstream.storage.disk import Disk
from crdtstream.storage.recovery import CheckpointDamaged
from crdtstream.storage.segment import FormatUnknown

FORMAT_VERSION = 3
READ_VERSIONS = (RAW_FORMAT, FORMAT_VERSION)

_MAGIC = b"CRDTSEC\n"
_HEADER = struct.Struct("<8sIQ")
_CHECKSUM = struct.Struct("<I")
_SECTION = struct.Struct("<IQ")
_MASK = 0xFFFFFFFF
HEADER_BYTES = _HEADER.size + _CHECKSUM.size
SECTION_BYTES = _SECTION.size


class Section:
    """What is to be written to a file next: parts, of which those of the images are missing; the last section of a file
    closes it.
    """

    __slots__ = ("_images", "_parts", "closes", "draft")

    def __init__(self, draft: Draft, parts: list[bytes], images: list[BlockImage]) -> None:
        self.draft = draft
        self.closes = False
        self._parts = parts
        self._images = images

    def payload(self, packer: BlockPacker) -> bytes:
        for image, data in zip(self._images, packer.pack(self._images), strict=True):
            self._parts[image.at] = data
        return b"".join(self._parts)


class Draft:
    """A file that is being written: the section being collected, and the size of what is in the file."""

    __slots__ = ("_count", "_images", "_parts", "byte_count", "gathered_bytes", "name", "number", "taken_bytes")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        # Set by the writer: so it is the size of the file once everything is written.
        self.byte_count = HEADER_BYTES
        # What was added to this section, and to those before it: what is packed takes less in the file.
        self.gathered_bytes = 0
        self.taken_bytes = 0
        self._count = 0
        self._parts: list[bytes] = []
        self._images: list[BlockImage] = []

    def add(self, parts: list[bytes]) -> int:
        """Add a block, or rows; return the place of the block."""
        self._parts += parts
        self.gathered_bytes += sum([len(part) for part in parts])
        return self._next_place()

    def add_image(self, image: BlockImage) -> int:
        """Add a block that is to be packed; return its place."""
        image.at = len(self._parts)
        self._parts.append(b"")
        self._images.append(image)
        self.gathered_bytes += image.byte_count
        return self._next_place()

    def _next_place(self) -> int:
        self._count += 1
        return self.number << PLACE_BITS | self._count - 1

    def drain(self) -> Section:
        """Return what was collected as a section, possibly an empty one that closes the file; the next section follows
        it.
        """
        section = Section(self, self._parts, self._images)
        self._parts, self._images = [], []
        self.taken_bytes += self.gathered_bytes
        self.gathered_bytes = 0
        return section


def write_section(disk: Disk, section: Section, packer: BlockPacker) -> None:
    """Write a section. The first one of a file creates it; the last one makes its content durable, but not its name."""
    draft = section.draft
    payload = section.payload(packer)
    if payload:
        _write_payload(disk, draft, payload)
    if section.closes:
        disk.sync(draft.name)
        disk.release(draft.name)


def _write_payload(disk: Disk, draft: Draft, payload: bytes) -> None:
    offset = draft.byte_count
    data = _SECTION.pack(_checksum(payload, draft.number, offset), len(payload)) + payload
    draft.byte_count += len(data)
    if offset == HEADER_BYTES:
        disk.create(draft.name, 0)
        data = _file_header(draft.number) + data
        offset = 0
    disk.write(draft.name, offset, data)


def _file_header(number: int) -> bytes:
    head = _HEADER.pack(_MAGIC, FORMAT_VERSION, number)
    return head + _CHECKSUM.pack(crc32(head, 0))


def _checksum(payload: bytes, number: int, offset: int) -> int:
    # The odd constant spreads consecutive file numbers, so that equal sums of number and offset are unlikely.
    return crc32(payload, (number * 0x9E3779B1 + offset) & _MASK)


def read_version(disk: Disk, name: str, number: int) -> int:
    """Read the header of a file, and return the format that it is in."""
    header = disk.read(name, 0, HEADER_BYTES)
    if len(header) < HEADER_BYTES or not header.startswith(_MAGIC):
        raise CheckpointDamaged(name, 0, "it is not a checkpoint file")
    _, version, found = _HEADER.unpack_from(header)
    if version not in READ_VERSIONS:
        known = " and ".join([str(each) for each in READ_VERSIONS])
        text = f"{name} is in checkpoint format {version}, but this release reads formats {known}"
        raise FormatUnknown(f"{text}: run the release that wrote it, or a newer one whose notes say that it reads both")
    if _CHECKSUM.unpack_from(header, _HEADER.size)[0] != crc32(header[: _HEADER.size], 0) or found != number:
        raise CheckpointDamaged(name, 0, "the file header is wrong")
    return int(version)


def read_sections(disk: Disk, name: str, number: int, byte_count: int) -> Iterator[tuple[int, bytes]]:
    """Read (offset of the payload, payload) for each section of a file, one at a time, and verify its checksum. The
    header was read before.

    Reading a whole file would need new memory for each file; a section uses the memory of the one before.
    """
    size = disk.size(name)
    if size < byte_count:
        raise CheckpointDamaged(name, size, f"the file ends there, but had {byte_count} bytes")
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
        yield begin, payload
        offset = begin + length
