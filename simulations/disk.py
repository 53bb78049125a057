"""A disk in memory that forgets what was not synced.

The twin of `crdtstream.storage.disk.RealDisk`, behind the same port. Each file has two states, what a reader sees now
and what certainly survives a power loss; so has the directory. `crash` decides the difference with the given `Random`:
each page written since the last sync survives or not, independently, and so does each change of a file's size, and each
name created or deleted since the last `sync_directory`. Syncing a file does not save its name.

Power may also fail during an operation: `lose_power_at` lets a number of writes and syncs succeed, then performs the
first bytes of the next write, or some pages of the next sync, and raises PowerLost; `crash` must follow.

A sync that was told to fail loses the pages that it should have saved and marks them clean, as Linux does: a retry
would succeed and save nothing.

A file that is open is read as it is now, with or without its name. What is asked at once is there, unless the disk has
`Misses`: these draw whether it is.

Invariant: a page that is neither dirty nor lost is the same in both states. Pages that a file does not hold are zeros.
"""

from __future__ import annotations

import errno
from random import Random

from crdtstream.storage.disk import DiskFailed, DiskFull

PAGE_BYTES = 4096
_ZEROS = bytes(PAGE_BYTES)
_BOUNDLESS_BYTES = 1 << 60
_SURVIVAL_ODDS = (0.0, 0.1, 0.5, 0.9, 1.0)


class PowerLost(Exception):
    """Power was lost during a write or a sync; the calling process must not continue."""


class _File:
    """Pages as a reader sees them, durable pages, and which of them may differ (dirty) or do differ (lost)."""

    __slots__ = ("dirty", "durable", "durable_size", "lost", "pages", "size")

    def __init__(self) -> None:
        self.pages: dict[int, bytearray] = {}
        self.size = 0
        self.durable: dict[int, bytes] = {}
        self.durable_size = 0
        self.dirty: set[int] = set()
        self.lost: set[int] = set()

    def flip_bit(self, offset: int, bit: int) -> None:
        """Flip a bit on the medium: both states change, and no sync restores the bit."""
        page, start = divmod(offset, PAGE_BYTES)
        self.pages.setdefault(page, bytearray(PAGE_BYTES))[start] ^= 1 << bit
        rotten = bytearray(self.durable.get(page, _ZEROS))
        rotten[start] ^= 1 << bit
        self.durable[page] = bytes(rotten)

    def copy(self) -> _File:
        """Return a file with what a reader sees here, all of it durable."""
        file = _File()
        file.pages = {page: bytearray(data) for page, data in self.pages.items()}
        file.dirty = set(file.pages)
        file.size = self.size
        file.sync()
        return file

    def write(self, offset: int, data: bytes) -> None:
        self.size = max(self.size, offset + len(data))
        done = 0
        while done < len(data):
            page, start = divmod(offset + done, PAGE_BYTES)
            piece = data[done : done + PAGE_BYTES - start]
            self.pages.setdefault(page, bytearray(PAGE_BYTES))[start : start + len(piece)] = piece
            self.dirty.add(page)
            done += len(piece)

    def read(self, offset: int, length: int) -> bytes:
        end = min(offset + length, self.size)
        if offset >= end:
            return b""
        first, start = divmod(offset, PAGE_BYTES)
        pages = range(first, (end - 1) // PAGE_BYTES + 1)
        joined = b"".join([self.pages.get(page, _ZEROS) for page in pages])
        return joined[start : start + end - offset]

    def truncate(self, size: int) -> None:
        last, kept = divmod(size, PAGE_BYTES)
        for page in sorted(page for page in self.pages if page >= last):
            self.dirty.add(page)
            if page == last and kept:
                self.pages[page][kept:] = bytes(PAGE_BYTES - kept)
            else:
                del self.pages[page]
        self.size = size

    def sync(self) -> None:
        for page in self.dirty:
            self._save(page)
        self.dirty.clear()
        self.durable_size = self.size

    def lose(self) -> None:
        self.lost |= self.dirty
        self.dirty.clear()

    def _save(self, page: int) -> None:
        self.lost.discard(page)
        if page in self.pages:
            self.durable[page] = bytes(self.pages[page])
        else:
            self.durable.pop(page, None)

    def save_some(self, random: Random) -> None:
        """Perform a part of a sync."""
        for page in sorted(self.dirty):
            if random.random() < 0.5:
                self._save(page)
                self.dirty.discard(page)

    def crash(self, random: Random, odds: float) -> None:
        for page in sorted(self.dirty):
            if random.random() < odds:
                self._save(page)
        if self.size != self.durable_size and random.random() < odds:
            self.durable_size = self.size
        self.pages = {page: bytearray(data) for page, data in self.durable.items()}
        self.lost.clear()
        self.truncate(self.durable_size)
        self.sync()

    def check(self) -> None:
        for page in self.pages.keys() | self.durable.keys():
            if page not in self.dirty and page not in self.lost:
                assert self.pages.get(page) == self.durable.get(page), f"page {page} differs and is not dirty"
        assert all(page * PAGE_BYTES < self.size for page in self.pages), "a page lies past the end"


class Misses:
    """Draws what open files do not have at once, of a region and never of the simulator while it is `looking`."""

    __slots__ = ("_odds", "_rng", "found", "found_at", "looking", "missed", "on_thread", "waits")

    def __init__(self, rng: Random, odds: float = 0.5) -> None:
        self._rng = rng
        self._odds = odds
        self.looking = False
        # True while reads are those of a thread, which nobody waits for.
        self.on_thread = False
        # How often a region found what it asked for, and did not; by name and offset what it waited for, and found.
        self.found = 0
        self.missed = 0
        self.waits: set[tuple[str, int]] = set()
        self.found_at: set[tuple[str, int]] = set()

    def draw(self) -> bool:
        if self.looking:
            return False
        misses = self._rng.random() < self._odds
        self.missed += misses
        self.found += not misses
        return misses


class SimulatedFile:
    """A file of a simulated disk that is open for reading."""

    __slots__ = ("_disk", "_file", "_name")

    def __init__(self, disk: SimulatedDisk, name: str, file: _File) -> None:
        self._disk = disk
        self._name = name
        self._file = file

    def at_once(self, offset: int, length: int) -> bytes | None:
        misses = self._disk.misses
        if misses is not None and misses.draw():
            return None
        if misses is not None and not misses.looking:
            misses.found_at.add((self._name, offset))
        return self._read(offset, length)

    def read(self, offset: int, length: int) -> bytes:
        misses = self._disk.misses
        if misses is not None and not misses.looking and not misses.on_thread:
            misses.waits.add((self._name, offset))
        return self._read(offset, length)

    def flip_bit(self, offset: int, bit: int) -> None:
        """As `SimulatedDisk.flip_bit`, whether or not the file still has its name."""
        self._file.flip_bit(offset, bit)

    def _read(self, offset: int, length: int) -> bytes:
        self._disk.fail_read(self._name)
        return self._file.read(offset, length)


class SimulatedDisk:
    """The disk of one simulated machine; a log is opened on it again after each crash."""

    __slots__ = (
        "_append_fails",
        "_durable_names",
        "_files",
        "_power",
        "_read_fails",
        "_steps_left",
        "_sync_fails",
        "_volume_bytes",
        "capacity_bytes",
        "misses",
        "syncs",
        "writes",
    )

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self._volume_bytes = _BOUNDLESS_BYTES if capacity_bytes is None else capacity_bytes
        self.writes = 0
        self.syncs = 0
        self._files: dict[str, _File] = {}
        self._durable_names: dict[str, _File] = {}
        self._append_fails = False
        self._sync_fails = False
        self._read_fails = False
        # Draws what an open file has not at once; None lets it have everything.
        self.misses: Misses | None = None
        self._power: Random | None = None
        self._steps_left = 0

    def copy(self) -> SimulatedDisk:
        """Return another disk with what a reader sees here, all of it durable."""
        disk = SimulatedDisk()
        disk._files = {name: file.copy() for name, file in self._files.items()}
        disk._durable_names = dict(disk._files)
        return disk

    # Faults

    def lose_power_at(self, steps: int, random: Random) -> None:
        """Tear the next write or sync after this many more steps."""
        self._power = random
        self._steps_left = steps

    def heal(self) -> None:
        """Cancel all faults that have not occurred yet."""
        self._power = None
        self._append_fails = self._sync_fails = self._read_fails = False
        self.capacity_bytes = None

    def _tears(self) -> Random | None:
        """Return the random source that tears this step, or None if it completes."""
        if self._power is not None:
            self._steps_left -= 1
            if self._steps_left < 0:
                return self._power
        return None

    def crash(self, random: Random, odds: float | None = None) -> None:
        """Lose power: each unsynced page and name survives or not, with these odds or drawn ones."""
        self._power = None
        odds = random.choice(_SURVIVAL_ODDS) if odds is None else odds
        names: dict[str, _File] = {}
        for name in sorted(self._files.keys() | self._durable_names.keys()):
            before, now = self._durable_names.get(name), self._files.get(name)
            survivor = now if before is not now and random.random() < odds else before
            if survivor is not None:
                survivor.crash(random, odds)
                names[name] = survivor
        self._files = names
        self._durable_names = dict(names)

    def fail_next_append(self) -> None:
        """Let the next write fail after a part of its bytes."""
        self._append_fails = True

    def fail_next_sync(self) -> None:
        self._sync_fails = True

    def fail_next_read(self) -> None:
        """Let the next read of an open file fail."""
        self._read_fails = True

    def fail_read(self, name: str) -> None:
        """Fail a read of an open file, if the next one is to fail."""
        if self._read_fails:
            self._read_fails = False
            raise DiskFailed(errno.EIO, f"cannot read {name}: simulated")

    def flip_bit(self, name: str, offset: int, bit: int = 0) -> None:
        """Flip a bit on the medium: both states change, and no sync restores the bit."""
        self._file(name).flip_bit(offset, bit)

    # The port

    def names(self) -> list[str]:
        return sorted(self._files)

    def free_bytes(self) -> int:
        if self.capacity_bytes is None:
            return _BOUNDLESS_BYTES
        return max(0, self.capacity_bytes - self.used_bytes())

    def volume_bytes(self) -> int:
        """As at first: what others take and give back later is no other volume."""
        return self._volume_bytes

    def size(self, name: str) -> int:
        return self._file(name).size

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self._file(name).read(offset, length)

    def open_file(self, name: str) -> SimulatedFile:
        return SimulatedFile(self, name, self._file(name))

    def create(self, name: str, size_bytes: int) -> None:
        if name in self._files:
            raise DiskFailed(errno.EEXIST, f"cannot create {name}: it exists")
        self._refuse_beyond_capacity(name, size_bytes)
        self._files[name] = _File()
        self._files[name].size = size_bytes

    def allocate(self, name: str, size_bytes: int) -> None:
        file = self._file(name)
        grown = max(file.size, size_bytes)
        self._refuse_beyond_capacity(name, grown - file.size)
        file.size = grown

    def write(self, name: str, offset: int, data: bytes) -> None:
        file = self._file(name)
        self._refuse_beyond_capacity(name, max(0, offset + len(data) - file.size))
        self.writes += 1
        random = self._tears()
        if random is not None:
            file.write(offset, data[: random.randrange(len(data) + 1)])
            raise PowerLost(f"in the middle of writing {name}")
        if self._append_fails:
            self._append_fails = False
            file.write(offset, data[: len(data) // 2])
            raise DiskFailed(errno.EIO, f"cannot write {name}: simulated")
        file.write(offset, data)

    def write_parts(self, name: str, offset: int, parts: list[bytes]) -> None:
        self.write(name, offset, b"".join(parts))

    def sync(self, name: str) -> None:
        file = self._file(name)
        random = self._tears()
        if random is not None:
            file.save_some(random)
            raise PowerLost(f"in the middle of syncing {name}")
        self._fail_sync(name, file)
        file.sync()

    def sync_directory(self) -> None:
        if self._tears() is not None:
            raise PowerLost("before the directory is synced")
        self._fail_sync("the directory", None)
        self._durable_names = dict(self._files)

    def truncate(self, name: str, size_bytes: int) -> None:
        self._file(name).truncate(size_bytes)

    def replace(self, name: str, data: bytes) -> None:
        """Keeps the old content until the new one is durable, so it needs space for both."""
        self._refuse_beyond_capacity(name, len(data))
        if self._tears() is not None:
            raise PowerLost(f"before {name} is replaced")
        file = _File()
        file.write(0, data)
        self._fail_sync(name, file)
        file.sync()
        self._files[name] = file
        self.sync_directory()

    def delete(self, name: str) -> None:
        self._file(name)
        del self._files[name]

    def release(self, name: str) -> None:
        pass

    def _file(self, name: str) -> _File:
        file = self._files.get(name)
        if file is None:
            raise DiskFailed(errno.ENOENT, f"{name} does not exist")
        return file

    def _refuse_beyond_capacity(self, name: str, more_bytes: int) -> None:
        if not more_bytes or self.capacity_bytes is None:
            return
        used = self.used_bytes()
        if used + more_bytes > self.capacity_bytes:
            raise DiskFull(
                errno.ENOSPC, f"no room for {more_bytes} bytes of {name}: {used} of {self.capacity_bytes} used"
            )

    def used_bytes(self) -> int:
        return sum(file.size for file in self._files.values())

    def _fail_sync(self, what: str, file: _File | None) -> None:
        self.syncs += 1
        if not self._sync_fails:
            return
        self._sync_fails = False
        if file is not None:
            file.lose()
        raise DiskFailed(errno.EIO, f"cannot sync {what}: simulated")

    def check(self) -> None:
        for file in self._files.values():
            file.check()
