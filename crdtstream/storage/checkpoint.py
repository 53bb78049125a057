"""Checkpoints: what a node knows as files, so that a start need not replay the whole log.

A checkpoint is block files (entries, written once), state files (everything else, written anew each time) and a
manifest that is replaced atomically; see `sections` and `protocols/manifest`. It is taken while the node goes on:

    begin      between turns: the vector, births and milestones of this position
    step       between turns, again and again: captures keys one by one, each at the position of its moment
    write      on any thread: what the steps have gathered
    commit     on any thread, after all is written: syncs, and replaces the manifest
    conclude   between turns: from here on the new manifest counts; then `clean`, on any thread

A block that lies in a file whole and has not grown since is named again, not written again. A file is *doomed* when
less than half of it is in use: its blocks are written to new files, and the next manifest no longer names it.

Crashes. Before the manifest is replaced, all files that it names are synced, their names too, and the log up to
`through`; files that no manifest names are deleted afterwards, or at the next start. Until `conclude` or `abort` has
settled which manifest is on disk, nothing is deleted. A failed checkpoint leaves the node and the older one as they
are.

Invariant: `_kept` are the numbers of the files in which a block's `place` counts.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgpack

from crdtstream.core.block import Block
from crdtstream.core.effects import Key
from crdtstream.node import Node
from crdtstream.protocols.manifest import Manifest, encode_manifest
from crdtstream.protocols.rows import Row
from crdtstream.protocols.state_rows import TreeImage, capture_stream, span_row, tree_row
from crdtstream.storage.disk import Disk, DiskError, DiskFull
from crdtstream.storage.log import Log
from crdtstream.storage.sections import (
    HEADER_BYTES,
    OFFSET_BITS,
    Draft,
    Section,
    block_parts,
    write_section,
)

MANIFEST = "manifest"
BLOCKS_PREFIX = "blocks-"
STATE_PREFIX = "state-"

FILE_BYTES_MAX = 64 << 20
SECTION_BYTES_MAX = 1 << 20

_PLACES_MAX = 4096
_REFERENCES_A_UNIT = 32


def block_file(number: int) -> str:
    return f"{BLOCKS_PREFIX}{number:08d}"


def state_file(number: int) -> str:
    return f"{STATE_PREFIX}{number:08d}"


def checkpoint_names(disk: Disk) -> list[str]:
    """Block and state files, whoever wrote them."""
    return [name for name in disk.names() if name.startswith((BLOCKS_PREFIX, STATE_PREFIX))]


def number_of(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


def files_of(manifest: Manifest) -> set[str]:
    blocks = {block_file(number) for number, _ in manifest.block_files}
    return blocks | {state_file(number) for number, _ in manifest.state_files}


class Writer:
    """Rows or blocks to files of one kind, one after the other."""

    __slots__ = ("_draft", "_name", "_numbers", "_out", "files")

    def __init__(self, name: Callable[[int], str], numbers: Iterator[int], out: list[Section]) -> None:
        self._name = name
        self._numbers = numbers
        self._out = out
        self._draft: Draft | None = None
        self.files: list[tuple[int, int]] = []

    def add(self, parts: list[bytes]) -> int:
        """The place of what was added."""
        draft = self._draft
        if draft is None:
            number = next(self._numbers)
            draft = self._draft = Draft(self._name(number), number)
        place = draft.add(parts)
        if draft.gathered_bytes() >= SECTION_BYTES_MAX:
            self._emit(draft, draft.byte_count() >= FILE_BYTES_MAX)
        return place

    def end(self) -> None:
        if self._draft is not None:
            self._emit(self._draft, True)

    def _emit(self, draft: Draft, closes: bool) -> None:
        section = draft.take()
        section.closes = closes
        self._out.append(section)
        if closes:
            self.files.append((draft.number, draft.byte_count()))
            self._draft = None


class Capture:
    """One checkpoint that is under way."""

    def __init__(self, node: Node, manifest: Manifest, numbers: Iterator[int], kept: set[int]) -> None:
        self.manifest = manifest
        self.live_bytes: dict[int, int] = dict.fromkeys(kept, HEADER_BYTES)
        self.done = False
        self._node = node
        self._kept = kept
        self._first = next(numbers)
        self._out: list[Section] = []
        self._blocks = Writer(block_file, numbers, self._out)
        self._state = Writer(state_file, numbers, self._out)
        self._packer = msgpack.Packer()
        self._keys: list[tuple[int, list[bytes]]] = [
            (number, list(database)) for number, database in enumerate(node.replica.databases) if database
        ]
        self._work = self._capture_all()

    def step(self, units: int) -> bool:
        """Capture and encode, about `units` times 10 µs; false when all is captured, or what gathered must be written
        first.
        """
        assert self._node.replica.is_settled(), "a checkpoint in the middle of a turn"
        for used in self._work:
            units -= used
            if units <= 0 or self._out:
                break
        else:
            self._end()
        return not self.done and not self._out

    def take_output(self) -> list[Section]:
        out = self._out[:]
        self._out.clear()
        return out

    def _end(self) -> None:
        if not self.done:
            self._blocks.end()
            self._state.end()
            self.manifest.through = self._node.turn.last_position
            self.done = True

    def new_files(self) -> list[tuple[int, int]]:
        """Block files of this checkpoint alone."""
        return self._blocks.files

    def _capture_all(self) -> Iterator[int]:
        for database, names in self._keys:
            for name in names:
                yield from self._capture((database, name))
        self.manifest.state_files = self._state.files

    def _capture(self, key: Key) -> Iterator[int]:
        stream = self._node.replica.databases[key[0]].get(key[1])
        image = capture_stream(key, stream, self._node.turn.last_position)
        self._put(image.rows)
        yield 1 + len(image.rows)
        for tree in image.trees:
            yield from self._capture_tree(tree)
        for group in image.groups:
            self._put(group.rows)
            yield len(group.rows)
            for slot, span in group.spans:
                self._put([span_row(slot, span)])
                yield 1

    def _capture_tree(self, tree: TreeImage) -> Iterator[int]:
        places = array("Q")
        last = len(tree.blocks) - 1
        for index, block in enumerate(tree.blocks):
            count = tree.tail_count if index == last else block.count
            if self._keep(block, count):
                yield 2
            elif index % _REFERENCES_A_UNIT == 0:
                yield 1
            places.append(block.place)
            if len(places) == _PLACES_MAX:
                self._put([tree_row(tree.slot, tree.head, places)])
                places = array("Q")
        self._put([tree_row(tree.slot, tree.head, places)])

    def _keep(self, block: Block, count: int) -> bool:
        """Have the block's first `count` entries in a file; true when they had to be written."""
        number = block.place >> OFFSET_BITS
        fresh = block.stored_count != count or not (number in self._kept or number >= self._first)
        if fresh:
            parts = block_parts(block, count)
            block.place, block.stored_count = self._blocks.add(parts), count
            block.stored_bytes = sum([len(part) for part in parts])
            number = block.place >> OFFSET_BITS
        self.live_bytes[number] = self.live_bytes.get(number, HEADER_BYTES) + block.stored_bytes
        return fresh

    def _put(self, rows: list[Row]) -> None:
        self._state.add([self._packer.pack(row) for row in rows])


class Checkpointer:
    """The checkpoints of one data directory."""

    def __init__(self, disk: Disk, log: Log, node: Node, manifest: Manifest | None) -> None:
        self.manifest = manifest
        self.capture: Capture | None = None
        self._disk = disk
        self._log = log
        self._node = node
        self._sizes = dict(manifest.block_files) if manifest is not None else {}
        self._doomed: set[int] = set()
        self._next_number = 1 + max((number_of(name) for name in checkpoint_names(disk)), default=0)
        self._certain = True
        self._bytes_before = 0
        self._bytes_began = 0

    def log_bytes(self) -> int:
        """How much of the log a restart would replay."""
        return self._log.appended_bytes - self._bytes_before

    # Steps of one checkpoint

    def begin(self) -> Capture:
        assert self.capture is None, "two checkpoints at once"
        node = self._node
        assert node.can_describe(), "a checkpoint would lose staged chunks"
        assert self._log.last_position == node.turn.last_position, "a turn is not in the log yet"
        self._bytes_began = self._log.appended_bytes
        manifest = node.describe(self._log.segment_firsts())
        kept = {number for number in self._sizes if number not in self._doomed}
        self.capture = Capture(node, manifest, self._numbers(), kept)
        return self.capture

    def _numbers(self) -> Iterator[int]:
        """The first one is of no file: what is at or above it is of this checkpoint."""
        while True:
            self._next_number += 1
            yield self._next_number - 1

    def write(self, sections: list[Section]) -> None:
        for section in sections:
            write_section(self._disk, section)

    def commit(self, saved_ms: int) -> None:
        """Everything that the steps gathered is written."""
        capture = self._current()
        assert capture.done, "not all keys are captured"
        manifest = capture.manifest
        live = capture.live_bytes
        sizes = {**self._sizes, **dict(capture.new_files())}
        manifest.block_files = [(number, sizes[number]) for number in sorted(live) if live[number] > HEADER_BYTES]
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
        """The new manifest counts; the log's segments that nobody needs any more, for `Log.delete`."""
        capture = self._current()
        self.capture = None
        self.manifest = capture.manifest
        self._certain = True
        self._sizes = dict(capture.manifest.block_files)
        self._doomed = {n for n, size in self._sizes.items() if 2 * capture.live_bytes[n] < size}
        self._bytes_before = self._bytes_began
        unserved = min(self._log.first_position, capture.manifest.begun + 1)
        needed = max(self._node.needed_position(capture.manifest.milestones), self._retained(), unserved)
        return self._log.forget_before(min(needed, self._node.held_position()))

    def _retained(self) -> int:
        """Beyond the limit nothing is kept for peers; what a restart replays always is."""
        limit = self._node.context.limits.log_retention_bytes
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
        """Give up after a failure; places in files of this checkpoint count no more."""
        self.capture = None
        with suppress(DiskError):  # what is left is deleted after the next checkpoint
            self.clean()

    def _current(self) -> Capture:
        assert self.capture is not None, "no checkpoint is under way"
        return self.capture
