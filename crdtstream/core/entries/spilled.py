"""Spilled blocks: blocks of which memory has only where their packed form lies, in a block file of the checkpoint.

A `BlockHandle` says where. A sealed block gets it when the checkpoint that wrote it is concluded, or from the start
that finds it there. *Spilling* a block drops its packed form and keeps the handle; whatever reads the content reads
that form from the file again, and keeps it no longer than the block is open.

A file may not have at once what is asked of it, and nothing may wait once something was prepared. So a request may wait
until its first effect: `NotAtOnce` names what is missing, the caller of the request has it read on a thread, and runs
the request again from its start with what was read `held`. `demand` names several blocks together, as soon as they are
known. What is missed nevertheless is read at once, and counted in `waited`.

A handle keeps its file open: the descriptor is closed with the last block that has one, whether or not the file still
has a name.

Reference: the block handle of LevelDB and RocksDB, offset and size of a block in a table.
"""

from __future__ import annotations

from typing import Final, Protocol
from zlib import crc32

from mypy_extensions import mypyc_attr

# The place of a block is `number << PLACE_BITS | index`: the number of its file, and its own there.
PLACE_BITS: Final = 40
# Where blocks of a state lie that arrived, until the next checkpoint has them; their place is 0.
STAGED: Final = "staged-blocks"

# What is held for nearly all requests. Never changed.
NONE_HELD: Final[dict[BlockHandle, bytes]] = {}


class BlockFile(Protocol):
    """A block file that is open for reading; errors are an `OSError`. Behind its end, both return less."""

    def at_once(self, offset: int, length: int) -> bytes | None:
        """These bytes if the system has them in memory; None if it would have to wait, or cannot tell."""

    def read(self, offset: int, length: int) -> bytes:
        """These bytes, on any thread."""


@mypyc_attr(acyclic=True)
class BlockHandle:
    """Where the packed form of a block lies: `length` bytes from `offset` on, whose CRC-32 is `checksum`. It never
    changes; a block that is written again gets another one. `place` is that of the block in the checkpoint.
    """

    __slots__ = ("checksum", "file", "in_column_layout", "length", "offset", "place")

    def __init__(
        self, file: BlockFile, offset: int, length: int, checksum: int, in_column_layout: bool, place: int = 0
    ) -> None:
        self.file = file
        self.offset = offset
        self.length = length
        self.checksum = checksum
        self.in_column_layout = in_column_layout
        self.place = place

    def file_name(self) -> str:
        return f"blocks-{self.place >> PLACE_BITS:08d}" if self.place else STAGED

    def where(self) -> str:
        if not self.place:
            return f"a block of the file {STAGED}, at byte {self.offset}"
        return f"block {self.place & ((1 << PLACE_BITS) - 1)} of the file {self.file_name()}, at byte {self.offset}"

    def read(self) -> bytes:
        """The packed form, on any thread; `is_whole` says whether it is."""
        return self.file.read(self.offset, self.length)

    def is_whole(self, packed: bytes) -> bool:
        return len(packed) == self.length and crc32(packed) == self.checksum

    def __deepcopy__(self, memo: object) -> BlockHandle:
        """Copies of a region's state share its files."""
        return self


class NotAtOnce(Exception):
    """A request needs blocks that are not in memory, and has changed nothing yet."""

    def __init__(self, handles: list[BlockHandle]) -> None:
        super().__init__(f"{len(handles)} blocks have to be read from disk first")
        self.handles = handles


class SpilledReads:
    """How the spilled blocks of one region are read now. `may_wait` is true from the beginning of a request to its
    first effect.
    """

    __slots__ = ("_held", "at_once", "may_wait", "on", "read_bytes", "waited")

    def __init__(self) -> None:
        self._held = NONE_HELD
        # Whether the region has spilled blocks, or had some.
        self.on = False
        self.may_wait = False
        # How many blocks were read within a turn, without and with waiting for the disk, and the bytes of all.
        self.at_once = 0
        self.waited = 0
        self.read_bytes = 0

    def forget_counts(self) -> None:
        """Forget the counts of a start, for which nobody waits in a turn."""
        self.at_once = self.waited = self.read_bytes = 0

    def begin(self, held: dict[BlockHandle, bytes]) -> None:
        """Begin a request that may wait, with what was read for it."""
        self._held = held
        self.may_wait = True

    def held(self) -> dict[BlockHandle, bytes]:
        """What is held for the request under way."""
        if self._held is NONE_HELD:
            self._held = {}
        return self._held

    def end(self) -> None:
        self._held = NONE_HELD
        self.may_wait = False

    def fetch(self, handle: BlockHandle) -> bytes:
        """The packed form, checked by the caller; raises NotAtOnce, or OSError."""
        found = self._find(handle)
        if found is None:
            if self.may_wait:
                raise NotAtOnce([handle])
            self.waited += 1
            found = handle.read()
            self.read_bytes += len(found)
        return found

    def _find(self, handle: BlockHandle) -> bytes | None:
        found = self._held.get(handle)
        if found is None:
            found = handle.file.at_once(handle.offset, handle.length)
            if found is not None:
                self.at_once += 1
                self.read_bytes += len(found)
        return found

    def demand(self, handles: list[BlockHandle]) -> None:
        """Hold these for the request under way, if it may wait; raises NotAtOnce with all that are missing."""
        if not self.may_wait:
            return
        missing: list[BlockHandle] = []
        for handle in handles:
            try:
                found = self._find(handle)
            except OSError:
                continue  # whatever opens the block says what is wrong with it
            if found is None:
                missing.append(handle)
            else:
                self.held()[handle] = found
        if missing:
            raise NotAtOnce(missing)
