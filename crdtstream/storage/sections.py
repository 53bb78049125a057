"""The files of a checkpoint: sections, each with a checksum, written once and never changed.

    file       magic 8 | version 4 | number 8 | checksum 4 | sections to the end that the manifest names
    section    checksum of this head 4 | kind 1 | length 8 | checksum of the payload 4 | payload

All numbers are little-endian. Both checksums of a section are seeded with the number of its file and its offset, so a
section is valid only in the file and at the offset for which it was written. The head has one of its own, because most
sections of a block file are skipped by a start that leaves their blocks on disk. In formats 2 and 3 a section had
`checksum of the payload 4 | length 8 | payload`, and no kind.

The payload of a state file is a sequence of rows; storage/block_files.py has those of block files. `Draft` collects one
section in memory; only `write_section` accesses the disk, and it may run on another thread. Blocks are packed there, so
the size of a file is known only once it is written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from crdtstream.core.entries.spilled import PLACE_BITS
from crdtstream.storage.block_images import (
    BlockImage,
    BlockPacker,
    PackedImage,
    WrittenBlocks,
    place_head,
    stored_bytes,
)
from crdtstream.storage.blocks import INDEX, RAW_FORMAT
from crdtstream.storage.checksums import crc32
from crdtstream.storage.disk import Disk
from crdtstream.storage.recovery import CheckpointDamaged
from crdtstream.storage.segment import FormatUnknown

FORMAT_VERSION: Final = 4
READ_VERSIONS: Final = (RAW_FORMAT, 3, FORMAT_VERSION)

# Kinds of sections: rows of a state; of a block file raw blocks, packed forms, and the heads of these.
ROWS: Final = 0
RAW: Final = 1
PACKED: Final = 2
HEADS: Final = 3

# Heads are written at the end of a file, and in between when there are so many.
HEADS_BYTES_MAX = 1 << 20

_MAGIC: Final = b"CRDTSEC\n"
_HEADER: Final = struct.Struct("<8sIQ")
_CHECKSUM: Final = struct.Struct("<I")
_OLD_SECTION: Final = struct.Struct("<IQ")
_SECTION: Final = struct.Struct("<BQI")
_MASK: Final = 0xFFFFFFFF
HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
SECTION_BYTES: Final = _CHECKSUM.size + _SECTION.size
OLD_SECTION_BYTES: Final = _OLD_SECTION.size


# Writing


class Section:
    """What is to be written to a file next: rows or raw blocks, and images of packed ones; the last section of a file
    closes it.
    """

    __slots__ = ("closes", "draft", "images", "packed_images", "parts")

    def __init__(
        self, draft: Draft, parts: list[bytes], images: list[BlockImage], packed_images: list[PackedImage]
    ) -> None:
        self.draft = draft
        self.closes = False
        self.parts = parts
        self.images = images
        self.packed_images = packed_images


class Draft:
    """A file that is being written, of sections of this kind and of packed blocks: the section being collected, and the
    size of what is in the file.
    """

    __slots__ = (
        "_count",
        "_images",
        "_packed_images",
        "_parts",
        "byte_count",
        "gathered_bytes",
        "heads",
        "heads_bytes",
        "kind",
        "name",
        "number",
        "taken_bytes",
        "written",
    )

    def __init__(self, name: str, number: int, kind: int) -> None:
        self.name = name
        self.number = number
        self.kind = kind
        # Set by the writer: so it is the size of the file once everything is written; and the heads that are not yet.
        self.byte_count = HEADER_BYTES
        self.heads: list[bytes] = []
        self.heads_bytes = 0
        self.written = WrittenBlocks(number)
        # What was added to this section, and to those before it: what is packed takes less in the file.
        self.gathered_bytes = 0
        self.taken_bytes = 0
        self._count = 0
        self._parts: list[bytes] = []
        self._images: list[BlockImage] = []
        self._packed_images: list[PackedImage] = []

    def add_rows(self, parts: list[bytes]) -> None:
        self._parts += parts
        self.gathered_bytes += sum([len(part) for part in parts])

    def add(self, parts: list[bytes]) -> int:
        """Add a raw block; return its place."""
        self.add_rows([INDEX.pack(self._count), *parts])
        return self._next_place()

    def add_image(self, image: BlockImage) -> int:
        """Add a block that is to be packed; return its place."""
        image.index = self._count
        self._images.append(image)
        self.gathered_bytes += image.byte_count
        return self._next_place()

    def add_packed(self, image: PackedImage) -> int:
        """Add a block that has its packed form; return its place."""
        image.head.index = self._count
        self._packed_images.append(image)
        self.gathered_bytes += stored_bytes(image.byte_count)
        return self._next_place()

    def _next_place(self) -> int:
        self._count += 1
        return self.number << PLACE_BITS | self._count - 1

    def drain(self) -> Section:
        """Return what was collected as a section, possibly an empty one that closes the file; the next section follows
        it.
        """
        section = Section(self, self._parts, self._images, self._packed_images)
        self._parts, self._images, self._packed_images = [], [], []
        self.taken_bytes += self.gathered_bytes
        self.gathered_bytes = 0
        return section


def write_section(disk: Disk, section: Section, packer: BlockPacker) -> None:
    """Write a section. The first one of a file creates it; the last one makes its content durable, but not its name."""
    draft = section.draft
    offset = draft.byte_count
    data = b"".join(_framed_parts(section, packer))
    if data:
        if offset == HEADER_BYTES:
            disk.create(draft.name, 0)
            data = _file_header(draft.number) + data
            offset = 0
        disk.write(draft.name, offset, data)
    if section.closes:
        disk.sync(draft.name)
        disk.release(draft.name)


def _framed_parts(section: Section, packer: BlockPacker) -> list[bytes]:
    """What a section adds to its file: packed forms, then what is raw, then heads once there are enough."""
    draft, raw = section.draft, section.parts
    forms: list[bytes] = []
    at = draft.byte_count + SECTION_BYTES
    for image, packed in zip(section.images, packer.pack(section.images), strict=True):
        if packed:
            head = image.head(packer)
            _add_head(draft, place_head(head, packed, at))
            draft.written.add(image.block, head)
            forms.append(packed)
            at += len(packed)
        else:
            raw += [INDEX.pack(image.index), image.raw()]
    for other in section.packed_images:
        packed = other.packed(packer)
        _add_head(draft, place_head(other.head, packed, at))
        draft.written.add(other.block, other.head)
        forms.append(packed)
        at += len(packed)
    out = _framed(draft, PACKED, forms) + _framed(draft, draft.kind, raw)
    if section.closes or draft.heads_bytes >= HEADS_BYTES_MAX:
        out += _framed(draft, HEADS, draft.heads)
        draft.heads, draft.heads_bytes = [], 0
    return out


def _add_head(draft: Draft, head: bytes) -> None:
    draft.heads.append(head)
    draft.heads_bytes += len(head)


def _framed(draft: Draft, kind: int, parts: list[bytes]) -> list[bytes]:
    """These parts as a section of this kind at the end of the file; nothing if there are none."""
    if not parts:
        return []
    payload = b"".join(parts)
    head = _SECTION.pack(kind, len(payload), _checksum(payload, draft.number, draft.byte_count))
    checksum = _CHECKSUM.pack(_checksum(head, draft.number, draft.byte_count))
    draft.byte_count += SECTION_BYTES + len(payload)
    return [checksum, head, payload]


def _file_header(number: int) -> bytes:
    head = _HEADER.pack(_MAGIC, FORMAT_VERSION, number)
    return head + _CHECKSUM.pack(crc32(head, 0))


def _checksum(payload: bytes, number: int, offset: int) -> int:
    # The odd constant spreads consecutive file numbers, so that equal sums of number and offset are unlikely.
    return crc32(payload, (number * 0x9E3779B1 + offset) & _MASK)


# Reading


class SectionHead:
    """Where a section lies: its payload, of this length, begins at `begin`."""

    __slots__ = ("begin", "checksum", "kind", "length", "offset")

    def __init__(self, offset: int, begin: int, kind: int, length: int, checksum: int) -> None:
        self.offset = offset
        self.begin = begin
        self.kind = kind
        self.length = length
        self.checksum = checksum


def read_version(disk: Disk, name: str, number: int) -> int:
    """Read the header of a file, and return the format that it is in."""
    header = disk.read(name, 0, HEADER_BYTES)
    if len(header) < HEADER_BYTES or not header.startswith(_MAGIC):
        raise CheckpointDamaged(name, 0, "it is not a checkpoint file")
    _, version, found = _HEADER.unpack_from(header)
    if version not in READ_VERSIONS:
        known = ", ".join([str(each) for each in READ_VERSIONS[:-1]])
        text = f"{name} is in checkpoint format {version}, but this release reads formats {known} and {FORMAT_VERSION}"
        raise FormatUnknown(f"{text}: run the release that wrote it, or a newer one whose notes say that it reads both")
    if _CHECKSUM.unpack_from(header, _HEADER.size)[0] != crc32(header[: _HEADER.size], 0) or found != number:
        raise CheckpointDamaged(name, 0, "the file header is wrong")
    return int(version)


def section_heads(disk: Disk, name: str, number: int, byte_count: int, version: int) -> Iterator[SectionHead]:
    """Where the sections of a file lie, in order. The header was read before."""
    size = disk.size(name)
    if size < byte_count:
        raise CheckpointDamaged(name, size, f"the file ends there, but had {byte_count} bytes")
    head_bytes = SECTION_BYTES if version == FORMAT_VERSION else OLD_SECTION_BYTES
    offset = HEADER_BYTES
    while offset < byte_count:
        head = disk.read(name, offset, head_bytes)
        begin = offset + head_bytes
        if byte_count < begin or len(head) < head_bytes:
            raise CheckpointDamaged(name, offset, "a section header is truncated")
        found = _new_head(name, number, offset, head) if version == FORMAT_VERSION else _old_head(offset, head)
        if found.length > byte_count - begin:
            raise _wrong(name, found)
        yield found
        offset = begin + found.length


def _new_head(name: str, number: int, offset: int, head: bytes) -> SectionHead:
    kind, length, checksum = _SECTION.unpack_from(head, _CHECKSUM.size)
    found = SectionHead(offset, offset + len(head), kind, length, checksum)
    if _CHECKSUM.unpack_from(head)[0] != _checksum(head[_CHECKSUM.size :], number, offset) or kind > HEADS:
        raise _wrong(name, found)
    return found


def _old_head(offset: int, head: bytes) -> SectionHead:
    checksum, length = _OLD_SECTION.unpack(head)
    return SectionHead(offset, offset + len(head), ROWS, length, checksum)


def read_payload(disk: Disk, name: str, number: int, section: SectionHead) -> bytes:
    """The payload of a section, verified."""
    payload = disk.read(name, section.begin, section.length)
    if len(payload) < section.length or _checksum(payload, number, section.offset) != section.checksum:
        raise _wrong(name, section)
    return payload


def _wrong(name: str, section: SectionHead) -> CheckpointDamaged:
    return CheckpointDamaged(name, section.offset, "the checksum of a section is wrong")


def read_sections(disk: Disk, name: str, number: int, byte_count: int, version: int) -> Iterator[tuple[int, bytes]]:
    """Read (offset of the payload, payload) for each section of a file, one at a time, and verify its checksum. The
    header was read before.

    Reading a whole file would need new memory for each file; a section uses the memory of the one before.
    """
    for section in section_heads(disk, name, number, byte_count, version):
        yield section.begin, read_payload(disk, name, number, section)
