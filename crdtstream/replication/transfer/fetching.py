"""The receiving end of a state transfer: which link it uses and what is staged. A region fetches one state at a time.

Staged chunks are kept while the sending region is away. A transfer that has received no chunk for `transfer_keep_ms` is
abandoned, and its link is closed, so that the peer starts over with a new one.

Chunks that arrive while this region lacks room (holding.py) wait, so that no more are confirmed and the window of their
sender closes. What is staged takes room itself, and keeps checkpoints from being taken. So if the wait lasts, the
transfer is abandoned, without the link, and there is a rest before the next one.

Where blocks are spilled, a complete state is compared with what is here before it is joined (core/comparing.py). It
needs no link any more, and no other state is fetched meanwhile. Once it is compared, it waits for room as chunks do.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from crdtstream.core.comparing import StateComparison
from crdtstream.core.entries.block import Block
from crdtstream.protocols import codec
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.transfer.staging import Staging
from crdtstream.status.events import Notice


class SpillsStaged(Protocol):
    """What spills the blocks of a state that is staged (storage/staged_blocks.py)."""

    def spill(self, block: Block, /) -> None: ...
    def end(self) -> None: ...


class Fetching:
    """The staged chunks, and the link over which more arrive; `news` collects messages for the operator."""

    __slots__ = (
        "_idle_ms",
        "_news",
        "_rest_ms",
        "blocks",
        "comparison",
        "link",
        "staging",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, news: list[Notice]) -> None:
        # Where blocks of the state are spilled; the runtime lends it.
        self.blocks: SpillsStaged | None = None
        self.staging: Staging | None = None
        # Of the complete state that is staged.
        self.comparison: StateComparison | None = None
        # None while no link delivers the state.
        self.link: int | None = None
        self._idle_ms = 0
        self._rest_ms = 0
        self._news = news
        # Chunks that wait for room, in order.
        self.waiting: deque[wire.Chunk] = deque()
        self.waiting_bytes = 0

    def begin(self, link: int) -> None:
        """Fetch over this link and no other."""
        self._drop_waiting()
        self.link = link
        self._idle_ms = 0

    @property
    def rests(self) -> bool:
        """True for a while after a transfer for which there was no room."""
        return self._rest_ms > 0

    def leave(self, link: int) -> None:
        """Stop using a lost link; the chunks that it delivered are kept."""
        if self.link == link:
            self._drop_waiting()
            self.link = None

    def keep(self, chunk: wire.Chunk) -> None:
        """Keep a chunk until there is room."""
        self.waiting.append(chunk)
        self.waiting_bytes += len(chunk.payload)

    def pop(self) -> wire.Chunk | None:
        """Take the first chunk that waited."""
        if not self.waiting:
            return None
        chunk = self.waiting.popleft()
        self.waiting_bytes -= len(chunk.payload)
        return chunk

    def _drop_waiting(self) -> None:
        self.waiting.clear()
        self.waiting_bytes = 0

    def staged(self) -> tuple[int, int]:
        """The staged transfer and the index of its next chunk; zeros if none is staged."""
        return (0, 0) if self.staging is None else (self.staging.transfer, self.staging.next)

    def expects(self, chunk: wire.Chunk) -> bool:
        """Return whether this chunk belongs to the staged transfer or begins another one."""
        staging = self.staging
        if self.comparison is not None:
            return False
        return chunk.index == 0 or (staging is not None and staging.transfer == chunk.transfer)

    def stage(self, region: int, chunk: wire.Chunk) -> bytes:
        """Stage a chunk; return its log record, empty for a duplicate. CodecError if it is out of order."""
        staging = self.staging
        if staging is None or staging.transfer != chunk.transfer:
            staging = self.staging = self._begin_staging(region, chunk.transfer)
            self._news.append(Notice("state-transfer-begun", f"a state transfer from region {region} begins"))
        self._idle_ms = 0
        if not staging.stage(chunk.index, chunk.payload):
            return b""
        return codec.encode_staged(region, staging.transfer, chunk.index, chunk.payload)

    def restage(self, payload: bytes) -> None:
        """Stage a chunk again while the log is replayed."""
        region, transfer, index, chunk = codec.decode_staged(payload)
        if self.staging is None or self.staging.transfer != transfer:
            self.staging = self._begin_staging(region, transfer)
        self.staging.stage(index, chunk)

    def _begin_staging(self, region: int, transfer: int) -> Staging:
        if self.blocks is None:
            return Staging(region, transfer)
        self.blocks.end()
        return Staging(region, transfer, self.blocks.spill)

    def whole(self, transfer: int) -> Staging | None:
        """Return the staging of this transfer if it is complete."""
        staging = self.staging
        return staging if staging is not None and staging.transfer == transfer and staging.is_done() else None

    def compare(self, comparison: StateComparison) -> None:
        """All chunks are staged, and are compared before they are joined."""
        self._drop_waiting()
        self.comparison, self.link = comparison, None

    def end(self) -> None:
        """Forget the staged chunks: the state was joined, or it replaced this region's state."""
        self._drop_waiting()
        self.staging = self.comparison = self.link = None
        if self.blocks is not None:
            self.blocks.end()

    def give_up(self, lacking: str, rest_ms: int) -> None:
        """Abandon a transfer for which there is no room, and begin none for a while."""
        self._rest_ms = rest_ms
        self.abandon(f"this region lacks {lacking}")

    def abandon(self, reason: str) -> None:
        if self.staging is not None:
            text = f"the state transfer from region {self.staging.region} is abandoned: {reason}"
            self._news.append(Notice("state-transfer-abandoned", text))
        self.end()

    def tick(self, passed_ms: int, keep_ms: int) -> bool:
        """Advance the idle time; True if the transfer has been idle for `keep_ms` and must be abandoned."""
        self._rest_ms = max(0, self._rest_ms - passed_ms)
        if (self.staging is None and self.link is None) or (self.comparison is not None and not self.comparison.done):
            return False
        self._idle_ms += passed_ms
        return self._idle_ms >= keep_ms

    def check(self) -> None:
        assert self.waiting_bytes == sum(len(chunk.payload) for chunk in self.waiting), "waiting bytes do not add up"
        if self.comparison is not None:
            assert self.staging is not None and self.staging.is_done(), "an incomplete state is compared"
        elif self.staging is not None:
            self.staging.check()
