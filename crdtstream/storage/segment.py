"""One segment of the log: its file format, and how complete frames are recognised.

A segment is a header and frames, then zeros to the end of the preallocated space. All numbers are little-endian.

    header   magic 8 | version 4 | salt 4 | first record number 8 | synced position 8 | checksum 4
    frame    salt 4 | checksum 4 | length 4 | kind 4 | record number 8 | synced position 8 | payload

The salt is drawn once for each log. It begins every frame, so that a scan can find the next frame behind damage. It
also seeds the checksum, together with the frame's offset, so a frame is valid only in the log and at the offset for
which it was written: a payload that contains a copy of a frame, or a forged one, is never taken for a frame.

The synced position, inclusive, is the last one known to be durable when the frame was written, so it is lower than the
frame's own number. A frame is a *witness* against damage at record `d` if it names a synced position at or beyond `d`.

Reference: the rule for torn writes follows Pillai et al., "All File Systems Are Not Created Equal" (2014): between two
syncs, pages reach the disk in any order.
"""

from __future__ import annotations

import errno
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator

from crdtstream.protocols.log_port import Payload, size_of
from crdtstream.storage.checksums import crc32
from crdtstream.storage.disk import Disk, DiskFull

FORMAT_VERSION = 1
SEGMENT_BYTES_MIN = 1 << 20
SALT_MAX = 0xFFFFFFFF

_MAGIC = b"CRDTLOG\n"
_PREFIX_NAME = "log-"
_HEADER = struct.Struct("<8sIIQQ")
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CHECKSUM.size

_PREFIX = struct.Struct("<II")
_BODY = struct.Struct("<IIQQ")
_FRAME = struct.Struct("<IIIIQQ")  # prefix and body at once
FRAME_BYTES = _FRAME.size

# A new segment takes at most one part in so many of the free space.
_SHARE = 4
_WINDOW_BYTES = 1 << 20
_POINT_RECORDS = 64
_POINT_BYTES = 1 << 16
_MASK = 0xFFFFFFFF


class FormatUnknown(Exception):
    """The file was written by a release that uses another format."""


def segment_name(first: int) -> str:
    return f"{_PREFIX_NAME}{first:020d}"


def segment_names(disk: Disk) -> list[str]:
    """The log's segments, by ascending first record number; other files are ignored."""
    return [name for name in disk.names() if is_segment(name)]


def is_segment(name: str) -> bool:
    return name.startswith(_PREFIX_NAME) and name[len(_PREFIX_NAME) :].isdigit()


def first_of(name: str) -> int:
    return int(name[len(_PREFIX_NAME) :])


def fitting_bytes(disk: Disk, least: int, most: int, kept_bytes: int) -> int:
    """How much to allocate: `most`, or a quarter of the free space if that is less, and at least `least`; raises
    DiskFull if that does not fit. `kept_bytes` of the free space count as used.
    """
    free = disk.free_bytes() - kept_bytes
    if least > free:
        raise DiskFull(errno.ENOSPC, f"no room for {least} bytes: {free} are free")
    return max(least, min(most, free, max(SEGMENT_BYTES_MIN, free // _SHARE)))


class Segment:
    """The records of a segment, with an index point every 64 records or 64 KiB, so that a reader skips little.

    `end` is exclusive: the offset of the next frame. `last` is inclusive, and `first - 1` while there is no record.
    """

    __slots__ = ("_numbers", "_offsets", "capacity", "end", "first", "last", "name")

    def __init__(self, name: str, first: int, capacity: int) -> None:
        self.name = name
        self.first = first
        self.last = first - 1
        self.end = HEADER_BYTES
        self.capacity = capacity
        self._numbers = array("Q")
        self._offsets = array("Q")

    def room(self) -> int:
        return self.capacity - self.end

    def extend(self, last: int, end: int) -> None:
        """Record that frames up to record `last` now end at offset `end`."""
        points = self._numbers
        if not points or self.last + 1 >= points[-1] + _POINT_RECORDS or self.end >= self._offsets[-1] + _POINT_BYTES:
            points.append(self.last + 1)
            self._offsets.append(self.end)
        self.last = last
        self.end = end

    def skip(self, last: int, end: int) -> None:
        """Leave out unreadable records up to `last`: what follows begins at `end`, and readers find it there."""
        self.last = last
        self.end = end
        self._numbers.append(last + 1)
        self._offsets.append(end)

    def point_before(self, number: int) -> tuple[int, int]:
        """Return the number and offset of an indexed record at or before this one."""
        place = bisect_right(self._numbers, number) - 1
        return self._numbers[place], self._offsets[place]

    def check(self) -> None:
        assert self.name == segment_name(self.first)
        assert HEADER_BYTES <= self.end <= self.capacity
        assert self.end >= HEADER_BYTES + FRAME_BYTES * (self.last - self.first + 1)
        assert list(self._numbers) == sorted(set(self._numbers)) and list(self._offsets) == sorted(set(self._offsets))
        assert len(self._numbers) == len(self._offsets) and bool(self._numbers) == (self.last >= self.first)
        assert not self._numbers or (self._numbers[0] >= self.first and self._numbers[-1] <= self.last + 1)


class Header:
    """The header of a segment file, after its checksum was verified."""

    __slots__ = ("first", "salt", "synced")

    def __init__(self, salt: int, first: int, synced: int) -> None:
        self.salt = salt
        self.first = first
        self.synced = synced


def encode_header(header: Header) -> bytes:
    head = _HEADER.pack(_MAGIC, FORMAT_VERSION, header.salt, header.first, header.synced)
    return head + _CHECKSUM.pack(crc32(head, 0))


def read_header(disk: Disk, name: str) -> Header | None:
    """Read the header; None if it is damaged. The version is checked first, because another format may have another
    checksum. Version 0 is no format: it is a header of which only the beginning was written.
    """
    data = disk.read(name, 0, HEADER_BYTES)
    if len(data) < HEADER_BYTES or not data.startswith(_MAGIC):
        return None
    _, version, salt, first, synced = _HEADER.unpack_from(data)
    if version not in (0, FORMAT_VERSION):
        text = f"{name} is in log format {version}, but this release reads format {FORMAT_VERSION}"
        raise FormatUnknown(f"{text}: run the release that wrote it, or a newer one whose notes say that it reads both")
    if version == 0 or _CHECKSUM.unpack_from(data, _HEADER.size)[0] != crc32(data[: _HEADER.size], 0):
        return None
    return Header(salt, first, synced)


def framed_bytes(records: list[tuple[int, Payload]]) -> int:
    return FRAME_BYTES * len(records) + sum([size_of(payload) for _, payload in records])


def frame_parts(records: list[tuple[int, Payload]], number: int, synced: int, salt: int, offset: int) -> list[bytes]:
    """Consecutive records, the first with this number, as frames to be written at `offset`: what joins to them."""
    parts: list[bytes] = []
    prefix, pack = _PREFIX.pack, _BODY.pack
    for kind, payload in records:
        pieces = [payload] if isinstance(payload, bytes) else payload
        size = size_of(payload)
        body = pack(size, kind, number, synced)
        # The seed ties the checksum to this log and this offset: a copied frame elsewhere is never valid.
        checksum = crc32(body, (salt + offset) & _MASK)
        for piece in pieces:
            checksum = crc32(piece, checksum)
        parts += (prefix(salt, checksum), body, *pieces)
        offset += FRAME_BYTES + size
        number += 1
    return parts


class Window:
    """A file up to `end`, read through one buffer, so a scan neither holds a whole segment nor reads each frame from
    disk.
    """

    __slots__ = ("_base", "_data", "_disk", "_name", "_window_bytes", "end")

    def __init__(self, disk: Disk, name: str, end: int, window_bytes: int = _WINDOW_BYTES) -> None:
        self._disk = disk
        self._name = name
        self._window_bytes = window_bytes
        self._base = 0
        self._data = b""
        self.end = end

    def at(self, offset: int, length: int) -> bytes:
        """Return `length` bytes, or fewer at the end."""
        start = offset - self._base
        if start < 0 or start + length > len(self._data):
            start = 0
            self._fill(offset, length)
        return self._data[start : start + length]

    def find(self, mark: bytes, offset: int) -> int:
        """Return the first offset of `mark` at or after `offset`, or -1."""
        while offset + len(mark) <= self.end:
            if not self._base <= offset <= self._base + len(self._data) - len(mark):
                self._fill(offset, len(mark))
            found = self._data.find(mark, offset - self._base)
            if found >= 0:
                return self._base + found
            if len(self._data) < len(mark):
                break
            # The mark may begin in this buffer and end in the next: keep all but its first byte of overlap.
            offset = self._base + len(self._data) - len(mark) + 1
        return -1

    def is_zero_from(self, offset: int) -> bool:
        while offset < self.end:
            self._fill(offset, 1)
            if not self._data or self._data != bytes(len(self._data)):
                return False
            offset += len(self._data)
        return True

    def _fill(self, offset: int, length: int) -> None:
        wanted = min(max(length, self._window_bytes), self.end - offset)
        self._data = self._disk.read(self._name, offset, wanted) if wanted > 0 else b""
        self._base = offset


def read_frame(window: Window, offset: int, salt: int) -> tuple[int, int, bytes, int] | None:
    """Return (number, kind, payload, synced position) of the complete frame at `offset`, or None."""
    head = window.at(offset, FRAME_BYTES)
    if len(head) < FRAME_BYTES:
        return None
    mark, checksum, length, kind, number, synced = _FRAME.unpack(head)
    if mark != salt or synced >= number or length > window.end - offset - FRAME_BYTES:
        return None
    payload = window.at(offset + FRAME_BYTES, length)
    if crc32(payload, crc32(head[_PREFIX.size :], (salt + offset) & _MASK)) != checksum:
        return None
    return number, kind, payload, synced


def scan(window: Window, offset: int, number: int, salt: int) -> Iterator[tuple[int, int, bytes, int]]:
    """Yield (number, kind, payload, end offset) from record `number` on, until a frame is incomplete or out of
    sequence.
    """
    while True:
        frame = read_frame(window, offset, salt)
        if frame is None or frame[0] != number:
            return
        _, kind, payload, _ = frame
        offset += FRAME_BYTES + len(payload)
        yield number, kind, payload, offset
        number += 1


def complete_frames(window: Window, offset: int, salt: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number, synced position, offset) of the complete frames from `offset` on, wherever they begin."""
    mark = salt.to_bytes(4, "little")
    while (offset := window.find(mark, offset)) >= 0:
        frame = read_frame(window, offset, salt)
        if frame is None:
            offset += 1
            continue
        number, _, payload, synced = frame
        yield number, synced, offset
        offset += FRAME_BYTES + len(payload)


def find_witness(window: Window, offset: int, salt: int, damaged: int) -> tuple[int, int] | None:
    """Return (number, synced position) of a complete frame behind `offset` that was written after `damaged` became
    durable.
    """
    for number, synced, _ in complete_frames(window, offset, salt):
        if synced >= damaged:
            return number, synced
    return None
