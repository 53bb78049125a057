"""A real directory on a volume that is too small, as far as the region can tell."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from crdtstream.storage.disk import DiskFull, RealDisk
from crdtstream.storage.reserve import RESERVE


def size_of(directory: str, name: str) -> int:
    """The size of a file; 0 if a thread of the region has deleted it meanwhile."""
    try:
        return os.stat(os.path.join(directory, name)).st_size
    except FileNotFoundError:
        return 0


class SmallVolume:
    """A `RealDisk` below `place` finds `capacity_bytes` for all of its files, without what others hold.

    Once they `fill_up` the volume, others take at once what the region gives back too, but for its reserve: what it
    gives up of that, it needs in the next moment.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capacity_bytes: int, place: str) -> None:
        self._place = place
        self._volume_bytes = RealDisk.free_bytes
        self.capacity_bytes = capacity_bytes
        self._others_bytes = 0
        self._is_contended = False
        named = ("create", "allocate", "write", "replace", "truncate", "delete")
        self._originals = {name: getattr(RealDisk, name) for name in named}
        monkeypatch.setattr(RealDisk, "free_bytes", lambda disk: self.free_bytes(disk))
        monkeypatch.setattr(RealDisk, "create", lambda disk, name, size: self._call(disk, "create", size, name, size))
        monkeypatch.setattr(RealDisk, "allocate", lambda *arguments: self._allocate(*arguments))
        monkeypatch.setattr(RealDisk, "write", lambda *arguments: self._write(*arguments))
        monkeypatch.setattr(RealDisk, "truncate", lambda *arguments: self._truncate(*arguments))
        monkeypatch.setattr(RealDisk, "delete", lambda *arguments: self._delete(*arguments))
        monkeypatch.setattr(
            RealDisk, "replace", lambda disk, name, data: self._call(disk, "replace", len(data), name, data)
        )

    def fill_up(self, directory: Path) -> None:
        self._others_bytes = self._left_bytes(str(directory))
        self._is_contended = True

    def empty(self) -> None:
        self._others_bytes = 0
        self._is_contended = False

    def free_bytes(self, disk: RealDisk) -> int:
        if self._place not in disk.path:
            return self._volume_bytes(disk)
        return self._left_bytes(disk.path)

    def _left_bytes(self, directory: str) -> int:
        used = sum(size_of(directory, name) for name in os.listdir(directory))
        return max(0, self.capacity_bytes - self._others_bytes - used)

    def _allocate(self, disk: RealDisk, name: str, size_bytes: int) -> None:
        self._call(disk, "allocate", size_bytes - disk.size(name), name, size_bytes)

    def _write(self, disk: RealDisk, name: str, offset: int, data: bytes) -> None:
        self._call(disk, "write", offset + len(data) - disk.size(name), name, offset, data)

    def _truncate(self, disk: RealDisk, name: str, size_bytes: int) -> None:
        self._lose(disk, name, disk.size(name) - size_bytes)
        self._originals["truncate"](disk, name, size_bytes)

    def _delete(self, disk: RealDisk, name: str) -> None:
        self._lose(disk, name, size_of(disk.path, name))
        self._originals["delete"](disk, name)

    def _lose(self, disk: RealDisk, name: str, byte_count: int) -> None:
        if self._is_contended and name != RESERVE and self._place in disk.path:
            self._others_bytes += byte_count

    def _call(self, disk: RealDisk, method: str, more_bytes: int, *arguments: Any) -> None:
        if more_bytes > 0 and more_bytes > self.free_bytes(disk):
            raise DiskFull(errno.ENOSPC, f"no room for {more_bytes} bytes: simulated")
        self._originals[method](disk, *arguments)
