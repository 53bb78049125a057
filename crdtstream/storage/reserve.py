"""The reserve: space on the disk that is kept for what frees space.

A file of zeros, never written and never read. It is as large as the setting says while there is room; when the disk is
full, parts of it are given up, for records that free room (removals, ends of memberships) and for checkpoints. It is
taken again before anything else may grow.

A crash may leave the file shorter or without a name: then it is filled again, as after a use.

Invariant: `held_bytes` is the size of the file, at most `bytes_max`, and 0 without a file. (A crash may leave a file of
no bytes.)
"""

from __future__ import annotations

from crdtstream.storage.disk import Disk, DiskFull

RESERVE = "reserve"
# The log begins segments of this share of the reserve when there is no other room.
_PORTIONS = 8


class Reserve:
    """The reserve of one data directory."""

    __slots__ = ("_disk", "bytes_max", "held_bytes")

    def __init__(self, disk: Disk, bytes_max: int) -> None:
        self._disk = disk
        self.bytes_max = bytes_max
        self.held_bytes = disk.size(RESERVE) if RESERVE in disk.names() else 0
        if self.held_bytes > bytes_max:
            self._shrink(bytes_max)

    @property
    def portion_bytes(self) -> int:
        return self.bytes_max // _PORTIONS

    def is_whole(self) -> bool:
        return self.held_bytes >= self.bytes_max

    def missing_bytes(self) -> int:
        return max(0, self.bytes_max - self.held_bytes)

    def fill(self) -> bool:
        """Take what is missing; True if the reserve is whole then."""
        if self.is_whole():
            return True
        if self._disk.free_bytes() < self.missing_bytes():
            return False
        try:
            if RESERVE in self._disk.names():
                self._disk.allocate(RESERVE, self.bytes_max)
            else:
                self._disk.create(RESERVE, self.bytes_max)
        except DiskFull:
            return False
        self._disk.release(RESERVE)
        self.held_bytes = self.bytes_max
        return True

    def give(self, byte_count: int) -> None:
        """Give up so much, or all that is left."""
        self._shrink(max(0, self.held_bytes - byte_count))

    def keep(self, byte_count: int) -> None:
        """Give up everything but so much."""
        self._shrink(min(self.held_bytes, byte_count))

    def _shrink(self, byte_count: int) -> None:
        if byte_count == self.held_bytes:
            return
        if byte_count:
            self._disk.truncate(RESERVE, byte_count)
            self._disk.release(RESERVE)
        else:
            self._disk.delete(RESERVE)
        self.held_bytes = byte_count

    def check(self) -> None:
        size = self._disk.size(RESERVE) if RESERVE in self._disk.names() else 0
        assert size == self.held_bytes <= self.bytes_max, f"the reserve has {size} bytes, not {self.held_bytes}"
