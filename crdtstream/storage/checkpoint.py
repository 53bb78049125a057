"""Checkpoints: the state of a node as files, so that a start need not replay the whole log.

A checkpoint consists of block files (entries, written once), state files (everything else, rewritten each time) and a
manifest that is replaced atomically; see `sections` and `protocols/manifest`. It is taken while the node keeps running:

    begin      between turns: records the vector, births and milestones of this position
    step       between turns, repeatedly: captures keys one by one, each at the log position of that moment
    write      on any thread: packs and writes what the steps have collected
    commit     on any thread, after everything is written: syncs, and replaces the manifest
    conclude   between turns: the new manifest takes effect; then `clean`, on any thread
    lay        between turns, repeatedly: blocks learn where this checkpoint has their packed forms

A block that is complete in a file and has not grown since is referenced again, not written again. A file is *doomed*
when less than two thirds of it are in use, or when it is in an old format: its blocks are written to new files, and the
next manifest no longer names it; that waits while the disk has no room for it, or when a checkpoint would copy too
much. Spilled blocks are copied by `write`, without being opened.

The `place` of a block is set when it is captured, because rows of state files name it. Its handle, by which it is
spilled and read, says where it lies in the checkpoint in force, and so changes only once another is. When a checkpoint
is given up, the places that it set are invalid, and the handle has the valid one.

Crashes. Before the manifest is replaced, all files that it names are synced, including their directory entries, and so
is the log up to `through`. Files that no manifest names are deleted afterwards, or at the next start. Nothing is
deleted until `conclude` or `abort` has settled which manifest is on disk. A failed checkpoint changes neither the node
nor the previous checkpoint.

Invariant: `_kept` holds the numbers of the files for which a block's `place` is valid.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgpack

from crdtstream.core.effects import Key
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.spilled import PLACE_BITS
from crdtstream.core.streams.deleted_streams import FORGOTTEN
from crdtstream.protocols.manifest import Manifest, encode_manifest
from crdtstream.protocols.rows import Row
from crdtstream.protocols.state_rows import TreeImage, span_row, tree_row
from crdtstream.storage.block_images import BlockImage, BlockPacker, PackedImage, WrittenBlocks, stored_bytes
from crdtstream.storage.blocks import INDEX_BYTES, drop_handles, has_its_place, raw_parts_of
from crdtstream.storage.disk import Disk, DiskError, DiskFull
from crdtstream.storage.log import Log
from crdtstream.storage.sections import HEADER_BYTES, RAW, ROWS, Draft, Section, write_section
from crdtstream.storage.stored import Stored, does_spill

MANIFEST = "manifest"
BLOCKS_PREFIX = "blocks-"
STATE_PREFIX = "state-"

FILE_BYTES_MAX = 64 << 20
SECTION_BYTES_MAX = 1 << 20

# What a checkpoint writes again at most from files that are little in use, unless a single file has more.
COPIED_BYTES_MAX = 256 << 20

# How many blocks get their handles in about a millisecond.
LAID_A_STEP = 2_000

_PLACES_MAX = 4096
_REFERENCES_A_UNIT = 32


def block_file(number: int) -> str:
    return f"{BLOCKS_PREFIX}{number:08d}"


def state_file(number: int) -> str:
    return f"{STATE_PREFIX}{number:08d}"


def checkpoint_names(disk: Disk) -> list[str]:
    """The block and state files of all checkpoints."""
    return [name for name in disk.names() if name.startswith((BLOCKS_PREFIX, STATE_PREFIX))]


def number_of(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


def files_of(manifest: Manifest) -> set[str]:
    blocks = {block_file(number) for number, _ in manifest.block_files}
    return blocks | {state_file(number) for number, _ in manifest.state_files}


class CheckpointWriter:
    """Writes rows or blocks to files of one kind, one file after the other; `drafts` are the files that are closed."""

    __slots__ = ("_draft", "_kind", "_name", "_numbers", "_out", "drafts")

    def __init__(self, kind: int, name: Callable[[int], str], numbers: Iterator[int], out: list[Section]) -> None:
        self._kind = kind
        self._name = name
        self._numbers = numbers
        self._out = out
        self._draft: Draft | None = None
        self.drafts: list[Draft] = []

    def add_rows(self, parts: list[bytes]) -> None:
        draft = self._open()
        draft.add_rows(parts)
        self._emit_if_full(draft)

    def add(self, parts: list[bytes]) -> int:
        """Add a raw block; return its place."""
        draft = self._open()
        place = draft.add(parts)
        self._emit_if_full(draft)
        return place

    def add_image(self, image: BlockImage) -> int:
        """Add a block that is to be packed; return its place."""
        draft = self._open()
        place = draft.add_image(image)
        self._emit_if_full(draft)
        return place

    def add_packed(self, image: PackedImage) -> int:
        """Add a block that has its packed form; return its place."""
        draft = self._open()
        place = draft.add_packed(image)
        self._emit_if_full(draft)
        return place

    def end(self) -> None:
        if self._draft is not None:
            self._emit(self._draft, True)

    def files(self) -> list[tuple[int, int]]:
        """Number and size of each file, once all of them are written."""
        return [(draft.number, draft.byte_count) for draft in self.drafts]

    def _open(self) -> Draft:
        draft = self._draft
        if draft is None:
            number = next(self._numbers)
            draft = self._draft = Draft(self._name(number), number, self._kind)
        return draft

    def _emit_if_full(self, draft: Draft) -> None:
        if draft.gathered_bytes >= SECTION_BYTES_MAX:
            self._emit(draft, draft.taken_bytes + draft.gathered_bytes >= FILE_BYTES_MAX)

    def _emit(self, draft: Draft, closes: bool) -> None:
        section = draft.drain()
        section.closes = closes
        self._out.append(section)
        if closes:
            self.drafts.append(draft)
            self._draft = None


class Capture:
    """One running checkpoint."""

    def __init__(
        self, stored: Stored, manifest: Manifest, numbers: Iterator[int], kept: set[int], old: set[int]
    ) -> None:
        self.manifest = manifest
        self.live_bytes: dict[int, int] = dict.fromkeys(kept, HEADER_BYTES)
        self.done = False
        # Last blocks of trees, which the next checkpoint writes again if they have grown.
        self.tail_bytes = 0
        self._stored = stored
        self._kept = kept
        self._old = old
        self._first = next(numbers)
        self._out: list[Section] = []
        self._blocks = CheckpointWriter(RAW, block_file, numbers, self._out)
        self._state = CheckpointWriter(ROWS, state_file, numbers, self._out)
        self.raw_again: list[Block] = []  # that have a handle
        self._packer = msgpack.Packer()
        self._spills = does_spill(stored)
        self._keys = stored.names()
        self._work = self._capture_all()

    def step(self, units: int) -> bool:
        """Capture and encode for about `units` times 10 µs. False if everything is captured, or if the output must be
        written before the next step, or if acknowledgements wait for spilled blocks.
        """
        if self._stored.awaits_blocks():
            return False
        assert self._stored.is_settled(), "a checkpoint in the middle of a turn"
        for used in self._work:
            units -= used
            if units <= 0 or self._out:
                break
        else:
            self._end()
        return not self.done and not self._out

    def drain_output(self) -> list[Section]:
        out = self._out[:]
        self._out.clear()
        return out

    def _end(self) -> None:
        if not self.done:
            self._blocks.end()
            self._state.end()
            self.manifest.through = self._stored.last_position
            self.done = True

    def name_files(self, sizes: dict[int, int]) -> None:
        """Name in the manifest the files that it needs, once all are written; `sizes` are those of kept block files.
        What this checkpoint wrote is in use.
        """
        written = self._blocks.files()
        kept = [(number, sizes[number]) for number, live in self.live_bytes.items() if live > HEADER_BYTES]
        self.live_bytes.update(written)
        self.manifest.block_files = sorted(kept + written)
        self.manifest.state_files = self._state.files()

    def open_files(self, disk: Disk) -> None:
        """Open the files whose blocks get handles, before the checkpoint is in force."""
        for draft in self._blocks.drafts:
            if len(draft.written):
                draft.written.file = disk.open_file(draft.name)

    def written(self) -> list[WrittenBlocks]:
        """The blocks that this checkpoint wrote packed, by file."""
        return [draft.written for draft in self._blocks.drafts if len(draft.written)]

    def _capture_all(self) -> Iterator[int]:
        for database, names in self._keys:
            for name in names:
                if name != FORGOTTEN:
                    yield from self._capture((database, name))
            # Last, because a stream that is dropped before its turn leaves its trace there.
            yield from self._capture((database, FORGOTTEN))

    def _capture(self, key: Key) -> Iterator[int]:
        image = self._stored.image(key)
        self._put(image.rows)
        yield 1 + len(image.rows)
        for tree in image.trees:
            yield from self._capture_tree(tree)
        for group in image.groups:
            self._put(group.rows)
            yield len(group.rows)
            for origin, span in group.spans:
                self._put([span_row(origin, span)])
                yield 1

    def _capture_tree(self, tree: TreeImage) -> Iterator[int]:
        places = array("Q")
        last = len(tree.blocks) - 1
        for index, block in enumerate(tree.blocks):
            count = tree.tail_count if index == last else block.count
            if self._keep(block, count, index < last):
                yield 2
            elif index % _REFERENCES_A_UNIT == 0:
                yield 1
            places.append(block.place)
            if len(places) == _PLACES_MAX:
                self._put([tree_row(tree.origin, tree.head, places)])
                places = array("Q")
        self._put([tree_row(tree.origin, tree.head, places)])

    def _keep(self, block: Block, count: int, packs: bool) -> bool:
        """Ensure that the block's first `count` entries are in a file; True if they have to be written."""
        number = block.place >> PLACE_BITS
        if block.stored_count == count and number in self._kept and (not self._spills or has_its_place(block)):
            # As nearly all blocks are, so it comes first.
            self.live_bytes[number] += block.stored_bytes
            return False
        if self._is_kept(block, count, packs):
            return False
        packed_form = block.packed_form
        if packed_form is not None and (packed_form.packed or packed_form.spilled) and count == block.count:
            image = PackedImage(block)
            block.stored_bytes = stored_bytes(image.byte_count)
            block.place = self._blocks.add_packed(image)
        elif packs and block.sealed and (packed_form is None or self._spills):
            block.place = self._blocks.add_image(BlockImage(block))
        else:
            parts = raw_parts_of(block, count)
            block.place = self._blocks.add(parts)
            if block.handle is not None:
                self.raw_again.append(block)
            block.stored_bytes = INDEX_BYTES + sum([len(part) for part in parts])
            if not packs:
                self.tail_bytes += block.stored_bytes
        block.stored_count = count
        return True

    def _is_kept(self, block: Block, count: int, packs: bool) -> bool:
        """True if the block's first `count` entries are in a kept file, or in one of this checkpoint, and may stay."""
        number = block.place >> PLACE_BITS
        if block.stored_count != count or (number not in self._kept and number < self._first):
            handle = block.handle
            if handle is None or handle.place >> PLACE_BITS not in self._kept or count != block.count:
                return False
            # The place is of a checkpoint that was given up.
            block.place, block.stored_count, block.stored_bytes = handle.place, count, stored_bytes(handle.length)
            number = handle.place >> PLACE_BITS
        if number in self._kept:
            if self._spills and packs and block.sealed and not has_its_place(block) and number not in self._old:
                # It was the last block of its tree, or did not pay, so it is raw there and cannot be spilled.
                return False
            self.live_bytes[number] += block.stored_bytes
        return True

    def _put(self, rows: list[Row]) -> None:
        self._state.add_rows([self._packer.pack(row) for row in rows])


class Checkpointer:
    """The checkpoints of one data directory."""

    def __init__(self, disk: Disk, log: Log, stored: Stored, manifest: Manifest | None, old: set[int]) -> None:
        self.manifest = manifest
        self.capture: Capture | None = None
        self._disk = disk
        self._log = log
        self._stored = stored
        self._sizes = dict(manifest.block_files) if manifest is not None else {}
        # The files in formats that are no longer written.
        self._old = old
        # The bytes in use of each doomed file, at most.
        self._doomed = {number: self._sizes[number] for number in old}
        # What the last checkpoint wrote packed, without handles yet.
        self._written: list[WrittenBlocks] = []
        self._written_bytes = 0
        self._tail_bytes = 0
        self._next_number = 1 + max((number_of(name) for name in checkpoint_names(disk)), default=0)
        # For `write`, which may run on another thread than the region.
        self._packer = BlockPacker()
        self._certain = True
        self._bytes_before = 0
        self._bytes_began = 0

    def log_bytes(self) -> int:
        """The log bytes that a restart would replay."""
        return self._log.appended_bytes - self._bytes_before

    def needed_bytes(self) -> int:
        """What a checkpoint writes at most, or what is left of it: what the log gained, all state files, and the blocks
        that the last one wrote incomplete (others grow too, but those that grew lately are the best guess).
        """
        return max(0, self.log_bytes() + self.state_bytes() - self._written_bytes)

    def state_bytes(self) -> int:
        """What the next checkpoint writes, as the last one did, however little the log has gained."""
        state = 0 if self.manifest is None else sum(size for _, size in self.manifest.state_files)
        return state + self._tail_bytes

    def is_owed(self) -> bool:
        """True if a checkpoint would save something, or rewrite a file that is little used."""
        sparse = [number for number, live in self._rewritten().items() if self._is_sparse(number, live)]
        return self.log_bytes() > 0 or len(sparse) > 0

    def _is_sparse(self, number: int, live: int) -> bool:
        return 3 * live < 2 * self._sizes[number]

    # Steps of one checkpoint

    def begin(self) -> Capture:
        assert self.capture is None, "two checkpoints at once"
        stored = self._stored
        assert stored.can_describe(), "a checkpoint would lose staged chunks"
        assert self._log.last_position == stored.last_position, "a turn is not in the log yet"
        while self.lay():
            pass
        self._packer.spills = does_spill(stored)
        self._bytes_began = self._log.appended_bytes
        manifest = stored.describe(self._log.segment_firsts())
        rewritten = self._rewritten()
        kept = {number for number in self._sizes if number not in rewritten}
        self.capture = Capture(stored, manifest, self._numbers(), kept, self._old)
        return self.capture

    def _rewritten(self) -> dict[int, int]:
        """The doomed files that a checkpoint may write again, and what is in use of each, the least first: they fit
        into half of what it leaves free.
        """
        room = (self._disk.free_bytes() - self.needed_bytes()) // 2
        copied = 0
        chosen: dict[int, int] = {}
        for number, live in sorted(self._doomed.items(), key=_live):
            room -= live
            copied += live
            if room < 0 or (copied > COPIED_BYTES_MAX and chosen):
                break
            chosen[number] = live
        return chosen

    def _numbers(self) -> Iterator[int]:
        """Yield file numbers; the first is used for no file, so every number at or above it belongs to this
        checkpoint.
        """
        while True:
            self._next_number += 1
            yield self._next_number - 1

    def write(self, sections: list[Section], sums: bool = True) -> None:
        """Write what the steps have collected; with `sums` blocks that may be spilled get the sums of their entries."""
        self._packer.sums = sums and self._packer.spills
        for section in sections:
            before = section.draft.byte_count
            write_section(self._disk, section, self._packer)
            self._written_bytes += section.draft.byte_count - before

    def commit(self, saved_ms: int) -> None:
        """Make the checkpoint durable, after everything that the steps collected is written."""
        capture = self._current()
        assert capture.done, "not all keys are captured"
        manifest = capture.manifest
        capture.name_files(self._sizes)
        capture.open_files(self._disk)
        manifest.saved_ms = saved_ms
        self._disk.sync_directory()
        assert self._log.sync() >= manifest.through
        self._certain = False
        try:
            self._disk.replace(MANIFEST, encode_manifest(manifest))
        except DiskFull:
            self._certain = True
            raise

    def conclude(self) -> list[str]:
        """Let the new manifest take effect; return the log segments that are no longer needed, for `Log.delete`."""
        capture = self._current()
        self.capture = None
        self.manifest = capture.manifest
        self._certain = True
        self._sizes = dict(capture.manifest.block_files)
        self._tail_bytes = capture.tail_bytes
        live = capture.live_bytes
        self._old = self._old & self._sizes.keys()
        self._doomed = {n: live[n] for n in self._sizes if self._is_sparse(n, live[n]) or n in self._old}
        self._written = capture.written()
        drop_handles(capture.raw_again)
        self._bytes_before = self._bytes_began
        self._written_bytes = 0
        return self.release()

    def lay(self, count: int = LAID_A_STEP) -> bool:
        """Let blocks that the last checkpoint wrote packed know where they lie in it; true while there are more. The
        next checkpoint does what is left.
        """
        while self._written and count > 0:
            count -= self._written[-1].lay(count)
            if not len(self._written[-1]):
                self._written.pop()
        return bool(self._written)

    def release(self, yields: bool = False) -> list[str]:
        """Forget the log segments that neither a start nor a peer needs any more, as `conclude` does: peers have caught
        up since, or no longer count. With `yields`, neither do peers that have been away for long.
        """
        if self.manifest is None or self.capture is not None:
            return []
        # Records before damage are served to nobody, and those that the manifest covers are not replayed.
        unserved = min(self._log.first_position, self.manifest.begun + 1)
        needed = max(self._stored.needed_position(self.manifest.milestones, yields), self._retained(), unserved)
        return self._log.forget_before(min(needed, self._stored.held_position(), self.manifest.begun + 1))

    def _retained(self) -> int:
        """Return the position up to which the retention limit drops the log for peers; what a restart replays is always
        kept.
        """
        limit = self._stored.limits.log_retention_bytes
        assert self.manifest is not None
        return min(self._log.position_within(limit), self.manifest.begun + 1) if limit else 0

    def clean(self) -> None:
        """Delete the files that the manifest does not name."""
        if not self._certain or self.capture is not None:
            return
        named = set() if self.manifest is None else files_of(self.manifest)
        for name in checkpoint_names(self._disk):
            if name not in named:
                self._disk.delete(name)

    def abort(self) -> None:
        """Give up after a failure; places in files of this checkpoint become invalid."""
        self.capture = None
        self._written_bytes = 0
        with suppress(DiskError):  # the files left behind are deleted after the next checkpoint
            self.clean()

    def _current(self) -> Capture:
        assert self.capture is not None, "no checkpoint is under way"
        return self.capture


def _live(doomed: tuple[int, int]) -> int:
    return doomed[1]
