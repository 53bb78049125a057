"""A replicated state at one vector, taken while the region goes on, and given out in chunks.

Keys are captured one by one, as chunks are asked for. One that an effect is about to change is captured before that,
so all are as they were at the moment when the snapshot was made. What is captured and not yet sent holds on to blocks
that the streams may have left behind: at most the entries that were there at that moment, but for the tails that go on
growing, plus the small rows of each key that changed since.

Local state is left out; see protocols/transfer_rows.py.
"""

from __future__ import annotations

from crdtstream.core.causality import Origin
from crdtstream.core.effects import Key
from crdtstream.core.observer import Observer
from crdtstream.core.replica import Replica
from crdtstream.protocols.state_rows import StreamImage, block_row, capture_replicated
from crdtstream.protocols.transfer_rows import Drafting, head_row, tail_row


class Snapshot(Observer):
    """Made between turns; `release` when it is not read to its end."""

    __slots__ = ("_block", "_count", "_draft", "_ended", "_image", "_images", "_left", "_replica", "_tree", "vector")

    def __init__(self, replica: Replica, origins: list[Origin]) -> None:
        assert replica.is_settled(), "a snapshot in the middle of a turn"
        self.vector = replica.vector.copy()
        self._replica = replica
        self._left: list[dict[bytes, None]] = [dict.fromkeys(database) for database in replica.databases]
        self._images: dict[Key, StreamImage] = {}
        self._draft = Drafting()
        self._draft.put([head_row(self.vector, origins, replica.members.rows())])
        self._image: StreamImage | None = None
        self._tree = 0
        self._block = 0
        self._count = 0
        self._ended = False
        replica.observers.append(self)

    def before_change(self, key: Key) -> None:
        left = self._left[key[0]]
        if key[1] in left:
            del left[key[1]]
            self._capture(key)

    def _capture(self, key: Key) -> None:
        stream = self._replica.databases[key[0]].get(key[1])
        if stream is not None:
            self._images[key] = capture_replicated(key, stream)
            self._count += 1

    def chunk(self, bytes_max: int) -> bytes:
        """The next so many bytes; fewer at the end only, and none behind it."""
        while self._draft.byte_count() < bytes_max and not self._ended:
            self._draft_more()
        return self._draft.take(bytes_max)

    def is_done(self) -> bool:
        """Every byte was given out."""
        return self._ended and self._draft.byte_count() == 0

    def _draft_more(self) -> None:
        image = self._image
        if image is None:
            self._begin_stream()
        elif self._tree < len(image.trees):
            self._draft_block(image)
        else:
            for group in image.groups:
                self._draft.put(group.rows)
            self._image = None

    def _begin_stream(self) -> None:
        """What was captured early comes first, since it holds memory."""
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

    def _draft_block(self, image: StreamImage) -> None:
        tree = image.trees[self._tree]
        self._draft.put([block_row(tree, self._block)])
        self._block += 1
        if self._block == len(tree.blocks):
            self._tree += 1
            self._block = 0

    def release(self) -> None:
        """Nothing more is captured."""
        if not self._ended:
            self._ended = True
            self._replica.observers.remove(self)

    def check(self) -> None:
        assert self._ended or self in self._replica.observers, "it would miss changes"
        for number, name in self._images:
            assert name not in self._left[number], f"{name!r} is captured and would be captured again"
