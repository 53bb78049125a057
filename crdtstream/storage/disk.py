"""The disk port and the real disk: one flat directory of files.

The log and the checkpoints access files only through `Disk`, so that the simulator can tear everything that they write.
The port guarantees this, and nothing more:

- `write` has passed the data to the kernel when it returns; only `sync` of that file makes it durable.
- Creating or deleting a file is durable only after `sync_directory`.
- `create` and `reserve` allocate the size that they are given, filled with zeros: a write within it cannot fail for
  lack of space. `truncate` frees what lies behind the new end.
- `replace` is complete and durable when it returns; after a crash the file has its old content or its new one, and its
  old one after DiskFull.
- What `open_file` returns reads the file that had the name then, also after the name is deleted or means another file.
  `at_once` never waits for the disk: it returns None instead, always where a file system cannot tell.

`sync`, `release` and `open_file` may be called from another thread than the other methods, and a file that is open may
be read on several. Each file that is written keeps a
descriptor until it is released or deleted; a read opens the file separately, so it never uses a descriptor that is
closed during the read.

Offsets and lengths are in bytes. Names are chosen by the caller, never by a client; names with a leading dot are
reserved for this module.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from crdtstream.core.entries.spilled import BlockFile

LOCK = ".lock"
# Empty, and never written again.
ORIGINAL = ".original"
_TEMPORARY = ".new-"
# How many Linux and the BSDs take at once (IOV_MAX); a turn rarely has more.
_PARTS_MAX = 1024
_ERRORS_OF_ROOM = (errno.ENOSPC, errno.EDQUOT)
_ERRORS_OF_SUPPORT = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
# Read only what is in memory; Linux alone has this.
_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


@mypyc_attr(native_class=False)
class DiskError(OSError):
    """A disk operation failed."""


@mypyc_attr(native_class=False)
class DiskFull(DiskError):
    """No space is left. Creating or growing a file has changed nothing then; a write may have changed a part."""


@mypyc_attr(native_class=False)
class DiskFailed(DiskError):
    """A read, write or sync failed; the resulting state is unknown."""


@mypyc_attr(native_class=False)
class DiskLocked(DiskError):
    """Another process has locked the directory."""


class Disk(Protocol):
    def names(self) -> list[str]:
        """All files, in ascending order."""

    def free_bytes(self) -> int:
        """What this process may still allocate, as far as is known."""

    def volume_bytes(self) -> int:
        """The size of the volume, with what others have on it."""

    def size(self, name: str) -> int: ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return `length` bytes, or fewer at the end of the file."""

    def open_file(self, name: str) -> BlockFile:
        """Open a file for reading; it is closed with the last reference to it."""

    def create(self, name: str, size_bytes: int) -> None:
        """Create a file of zeros; DiskFull leaves no file behind."""

    def allocate(self, name: str, size_bytes: int) -> None:
        """Grow a file with zeros; DiskFull leaves it unchanged."""

    def write(self, name: str, offset: int, data: bytes) -> None: ...

    def write_parts(self, name: str, offset: int, parts: list[bytes]) -> None:
        """Write these one after the other, as if they were joined."""

    def sync(self, name: str) -> None: ...

    def sync_directory(self) -> None: ...

    def truncate(self, name: str, size_bytes: int) -> None: ...

    def replace(self, name: str, data: bytes) -> None: ...

    def delete(self, name: str) -> None: ...

    def release(self, name: str) -> None:
        """Close the descriptor of a file that will not be written again."""


def _disk_error(action: str, path: str, error: OSError) -> DiskError:
    number = error.errno or errno.EIO
    text = f"cannot {action} {path}: {os.strerror(number)}"
    return DiskFull(number, text) if number in _ERRORS_OF_ROOM else DiskFailed(number, text)


def _make_directory(path: str) -> None:
    if os.path.isdir(path):
        return
    os.makedirs(path, mode=0o700)
    parent = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def _write_all(descriptor: int, offset: int, data: bytes) -> None:
    written = os.pwrite(descriptor, data, offset)
    while written < len(data):
        written += os.pwrite(descriptor, memoryview(data)[written:], offset + written)


def _write_parts(descriptor: int, offset: int, parts: list[bytes]) -> None:
    for begin in range(0, len(parts), _PARTS_MAX):
        some = parts[begin : begin + _PARTS_MAX]
        size = sum([len(part) for part in some])
        written = os.pwritev(descriptor, some, offset)
        if written < size:
            _write_all(descriptor, offset + written, b"".join(some)[written:])
        offset += size


def _allocate(descriptor: int, size_bytes: int) -> None:
    """Allocate space. File systems that cannot allocate get a sparse file, so a later write may still fail for lack of
    space.
    """
    try:
        if size_bytes:
            os.posix_fallocate(descriptor, 0, size_bytes)
    except OSError as error:
        if error.errno not in _ERRORS_OF_SUPPORT:
            raise
        if os.fstat(descriptor).st_size < size_bytes:
            os.ftruncate(descriptor, size_bytes)


def _read_all(descriptor: int, offset: int, length: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


@mypyc_attr(native_class=False)
class OpenFile:
    """A file of a real disk that is open for reading, with or without its name."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._tells = _NOWAIT != 0

    def at_once(self, offset: int, length: int) -> bytes | None:
        if not self._tells:
            return None
        buffer = bytearray(length)
        try:
            found = os.preadv(self._descriptor, [buffer], offset, _NOWAIT)
            # Fewer bytes are in memory, or in the file.
            if found < length and offset + found < os.fstat(self._descriptor).st_size:
                return None
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _ERRORS_OF_SUPPORT:
                raise _disk_error("read", self._path, error) from error
            self._tells = False
            return None
        return bytes(memoryview(buffer)[:found])

    def read(self, offset: int, length: int) -> bytes:
        try:
            return _read_all(self._descriptor, offset, length)
        except OSError as error:
            raise _disk_error("read", self._path, error) from error

    def __deepcopy__(self, memo: object) -> OpenFile:
        return self

    def __del__(self) -> None:
        os.close(self._descriptor)


def open_path(path: str, directory: int | None = None) -> OpenFile:
    """Open the file of this path for reading; if a descriptor of its directory is given, it is found there."""
    name = path if directory is None else os.path.basename(path)
    try:
        return OpenFile(path, os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory))
    except OSError as error:
        raise _disk_error("open", path, error) from error


class RealDisk:
    """A directory, locked exclusively while this object is open."""

    __slots__ = ("_descriptors", "_directory", "_lock", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptors: dict[str, int] = {}
        try:
            _make_directory(path)
            self._lock = self._acquire_lock()
            self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            self._remove_temporaries()
        except DiskError:
            raise
        except OSError as error:
            raise _disk_error("open", path, error) from error

    def _acquire_lock(self) -> int:
        descriptor = os.open(os.path.join(self.path, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace") or "unknown"
            os.close(descriptor)
            text = f"data directory {self.path} is in use by another process (PID {holder}): stop it, or use another"
            raise DiskLocked(errno.EAGAIN, text) from None
        os.ftruncate(descriptor, 0)
        try:
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except OSError as error:
            # The PID is for the text above only: a region on a full disk starts without it.
            if error.errno not in _ERRORS_OF_ROOM:
                raise
        return descriptor

    def _remove_temporaries(self) -> None:
        for name in os.listdir(self._directory):
            if name.startswith(_TEMPORARY):
                os.unlink(name, dir_fd=self._directory)

    def remove_lock(self) -> None:
        """Remove the file of the lock, as long as this object holds it: the next process makes another one."""
        os.unlink(LOCK, dir_fd=self._directory)

    def identity(self) -> str:
        """What no copy of the directory has, and a volume keeps that is attached to another machine: inode and change
        time of a file that is made for this, which nobody can set.
        """
        path = os.path.join(self.path, ORIGINAL)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.fsync(descriptor)
                found = os.fstat(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _disk_error("open", path, error) from error
        return f"{found.st_ino}.{found.st_ctime_ns}"

    def close(self) -> None:
        for name in list(self._descriptors):
            self.release(name)
        os.close(self._directory)
        os.close(self._lock)

    def names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._directory) if not name.startswith("."))
        except OSError as error:
            raise _disk_error("list", self.path, error) from error

    def free_bytes(self) -> int:
        volume = self._measure()
        return volume.f_bavail * volume.f_frsize

    def volume_bytes(self) -> int:
        volume = self._measure()
        return volume.f_blocks * volume.f_frsize

    def _measure(self) -> os.statvfs_result:
        try:
            return os.fstatvfs(self._directory)
        except OSError as error:
            raise _disk_error("measure", self.path, error) from error

    def size(self, name: str) -> int:
        try:
            return os.stat(name, dir_fd=self._directory).st_size
        except OSError as error:
            raise self._error("read", name, error) from error

    def read(self, name: str, offset: int, length: int) -> bytes:
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory)
            try:
                return _read_all(descriptor, offset, length)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._error("read", name, error) from error

    def open_file(self, name: str) -> BlockFile:
        return open_path(os.path.join(self.path, name), self._directory)

    def create(self, name: str, size_bytes: int) -> None:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(name, flags, 0o600, dir_fd=self._directory)
            self._descriptors[name] = descriptor
            try:
                _allocate(descriptor, size_bytes)
            except OSError:
                self.delete(name)
                raise
        except OSError as error:
            raise self._error("create", name, error) from error

    def allocate(self, name: str, size_bytes: int) -> None:
        descriptor = self._descriptor(name)
        size_before = self.size(name)
        try:
            _allocate(descriptor, size_bytes)
        except OSError as error:
            os.ftruncate(descriptor, size_before)
            raise self._error("grow", name, error) from error

    def write(self, name: str, offset: int, data: bytes) -> None:
        descriptor = self._descriptor(name)
        try:
            _write_all(descriptor, offset, data)
        except OSError as error:
            raise self._error("write", name, error) from error

    def write_parts(self, name: str, offset: int, parts: list[bytes]) -> None:
        descriptor = self._descriptor(name)
        try:
            _write_parts(descriptor, offset, parts)
        except OSError as error:
            raise self._error("write", name, error) from error

    def sync(self, name: str) -> None:
        descriptor = self._descriptor(name)
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            raise self._error("sync", name, error) from error

    def sync_directory(self) -> None:
        try:
            os.fsync(self._directory)
        except OSError as error:
            raise _disk_error("sync", self.path, error) from error

    def truncate(self, name: str, size_bytes: int) -> None:
        descriptor = self._descriptor(name)
        try:
            os.ftruncate(descriptor, size_bytes)
        except OSError as error:
            raise self._error("truncate", name, error) from error

    def replace(self, name: str, data: bytes) -> None:
        self.release(name)
        temporary = _TEMPORARY + name
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o600, dir_fd=self._directory)
            try:
                _write_all(descriptor, 0, data)
                os.fsync(descriptor)
            except OSError:
                os.unlink(temporary, dir_fd=self._directory)  # it may be what fills the disk
                raise
            finally:
                os.close(descriptor)
            os.rename(temporary, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except OSError as error:
            raise self._error("replace", name, error) from error
        try:
            self.sync_directory()
        except DiskFull as full:
            # The new content has its name already: unlike DiskFull from above, this leaves open which one survives.
            raise DiskFailed(full.errno, full.strerror) from full

    def delete(self, name: str) -> None:
        self.release(name)
        try:
            os.unlink(name, dir_fd=self._directory)
        except OSError as error:
            raise self._error("delete", name, error) from error

    def release(self, name: str) -> None:
        descriptor = self._descriptors.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def _descriptor(self, name: str) -> int:
        descriptor = self._descriptors.get(name)
        if descriptor is None:
            try:
                descriptor = os.open(name, os.O_RDWR | os.O_CLOEXEC, dir_fd=self._directory)
            except OSError as error:
                raise self._error("open", name, error) from error
            self._descriptors[name] = descriptor
        return descriptor

    def _error(self, action: str, name: str, error: OSError) -> DiskError:
        return _disk_error(action, os.path.join(self.path, name), error)

    def check(self) -> None:
        named = set(os.listdir(self._directory))
        for name, descriptor in self._descriptors.items():
            assert name in named, f"{name} is open and not in the directory"
            assert os.fstat(descriptor).st_ino == os.stat(name, dir_fd=self._directory).st_ino, (
                f"{name} is another file"
            )
