"""The replicated state at one vector, captured while the region goes on, and read in chunks.

Keys are captured one by one as chunks are requested. A key that an effect is about to change is captured first, so
every key is as it was when the snapshot was taken. Captured data that is not sent yet keeps blocks alive that the
streams may have dropped: at most the entries that existed at that moment, not counting what is appended to their tails
later, and the small rows of each key that has changed since.

Local state is left out; see protocols/transfer_rows.py.
"""

from __future__ import annotations

from functools import partial

from crdtstream.core.deferred_work import DeferredWork
from crdtstream.core.effects import Key
from crdtstream.core.entries.block import Block, demand_blocks
from crdtstream.core.keyspace import Observer
from crdtstream.core.replica import Replica
from crdtstream.protocols.state_rows import StreamImage, TreeImage, block_row, capture_replicated
from crdtstream.protocols.transfer_rows import Drafting, context_row, head_row, tail_row


class Snapshot(Observer):
    """One snapshot, taken between turns; call `release` if it is not read to the end."""

    __slots__ = (
        "_block",
        "_chunk",
        "_count",
        "_deferred_work",
        "_draft",
        "_ended",
        "_image",
        "_images",
        "_left",
        "_replica",
        "_tree",
        "vector",
    )

    def __init__(self, replica: Replica, founders: list[int], deferred_work: DeferredWork | None = None) -> None:
        assert replica.is_settled(), "a snapshot in the middle of a turn"
        self._deferred_work = DeferredWork(replica) if deferred_work is None else deferred_work
        self._chunk = b""
        self.vector = replica.applied.vector.copy()
        self._replica = replica
        self._left: list[dict[bytes, None]] = [dict.fromkeys(database) for database in replica.keyspace.databases]
        self._images: dict[Key, StreamImage] = {}
        self._draft = Drafting()
        self._draft.put([head_row(self.vector, founders, replica.applied.members.rows())])
        self._draft.put([context_row(origin, context) for origin, context in sorted(replica.applied.contexts.items())])
        self._image: StreamImage | None = None
        self._tree = 0
        self._block = 0
        self._count = 0
        self._ended = False
        replica.keyspace.observers.append(self)

    def before_change(self, key: Key) -> None:
        left = self._left[key[0]]
        if key[1] in left:
            del left[key[1]]
            self._capture(key)

    def _capture(self, key: Key) -> None:
        stream = self._replica.keyspace.databases[key[0]].get(key[1])
        if stream is not None:
            self._images[key] = capture_replicated(key, stream)
            self._count += 1

    def chunk(self, bytes_max: int) -> bytes:
        """Return the next `bytes_max` bytes; fewer only at the end, and none after it. Raises NotAtOnce where it may
        wait and lacks a block; then it goes on there.
        """
        while self._draft.byte_count() < bytes_max and not self._ended:
            self._draft_more(bytes_max)
        return self._draft.read(bytes_max)

    def ready_chunk(self, bytes_max: int) -> bytes | None:
        """The same; None while spilled blocks are read for it."""
        if not self._deferred_work.run(self, partial(self._read_chunk, bytes_max)):
            return None
        found, self._chunk = self._chunk, b""
        return found

    def _read_chunk(self, bytes_max: int) -> None:
        self._chunk = self.chunk(bytes_max)

    def is_done(self) -> bool:
        """Return whether every byte was read."""
        return self._ended and self._draft.byte_count() == 0

    def _draft_more(self, bytes_max: int) -> None:
        image = self._image
        if image is None:
            self._begin_stream()
        elif self._tree < len(image.trees):
            self._draft_block(image, bytes_max)
        else:
            for group in image.groups:
                self._draft.put(group.rows)
            self._image = None

    def _begin_stream(self) -> None:
        """Begin the next stream; those captured early come first, because they hold memory."""
        if not self._images:
            self._capture_next()
        if self._images:
            _, self._image = self._images.popitem()
            self._tree = self._block = 0
            self._draft.put(self._image.rows)

    def _capture_next(self) -> None:
        for number, left in enumerate(self._left):
            if left:
                self._capture((number, left.popitem()[0]))
                return
        self._draft.put([tail_row(self._count)])
        self.release()

    def _draft_block(self, image: StreamImage, bytes_max: int) -> None:
        tree = image.trees[self._tree]
        if tree.blocks[self._block].is_spilled():
            demand_blocks(self._next_blocks(tree, bytes_max - self._draft.byte_count()))
        self._draft.put([block_row(tree, self._block)])
        self._block += 1
        if self._block == len(tree.blocks):
            self._tree += 1
            self._block = 0

    def _next_blocks(self, tree: TreeImage, bytes_max: int) -> list[Block]:
        """The next blocks of a tree, of about so many bytes: what is read together is used together."""
        found: list[Block] = []
        for block in tree.blocks[self._block :]:
            if bytes_max <= 0:
                break
            found.append(block)
            bytes_max -= block.byte_count
        return found

    def release(self) -> None:
        """Stop capturing."""
        self._deferred_work.forget(self)
        if not self._ended:
            self._ended = True
            self._replica.keyspace.observers.remove(self)

    def check(self) -> None:
        assert self._ended or self in self._replica.keyspace.observers, (
            "an open snapshot is no observer, so it would miss changes"
        )
        for number, name in self._images:
            assert name not in self._left[number], f"{name!r} is captured and would be captured again"
