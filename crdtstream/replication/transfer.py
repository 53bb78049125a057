"""State transfers to peers: for each a snapshot that is sent in chunks.

The peer asks for each chunk but the first ones of a window: `next` says which it has staged. Chunks are kept until
then, so a link that was lost goes on where it stopped; a transfer whose peer does not come back is let go after a
while. The region's effects go on meanwhile, and are served from the log behind the snapshot's position.

Memory: a window of chunks for each peer, and what its snapshot holds (see snapshot.py).

Indexes are those of chunks, from 0; `next` is exclusive: chunks below it are staged.
"""

from __future__ import annotations

from collections import deque

from crdtstream.core.causality import VersionVector
from crdtstream.replication.snapshot import Snapshot


class Transfer:
    """One state, on its way to one peer."""

    __slots__ = ("_first", "_kept", "_kept_bytes", "_snapshot", "byte_count", "lost_ms", "number", "position", "sent")

    def __init__(self, number: int, position: int, snapshot: Snapshot) -> None:
        self.number = number
        self.position = position
        self.sent = 0
        self.byte_count = 0
        self.lost_ms = 0
        self._snapshot = snapshot
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._first = 0

    @property
    def vector(self) -> VersionVector:
        return self._snapshot.vector

    def staged(self, index: int) -> None:
        """The peer has all chunks below this index."""
        while self._first < min(index, self.sent):
            self._kept_bytes -= len(self._kept.popleft())
            self._first += 1

    def resume(self, index: int) -> bool:
        """Go on with this chunk, on a new link; false when it is gone."""
        if not self._first <= index <= self._first + len(self._kept):
            return False
        self.staged(index)
        self.sent = index
        return True

    def chunk(self, bytes_max: int, window_bytes: int) -> tuple[int, bytes] | None:
        """The next one, with its index; None while the window is closed, and at the end."""
        at = self.sent - self._first
        if at == len(self._kept):
            if self._snapshot.is_done() or self._kept_bytes >= window_bytes:
                return None
            self._kept.append(self._snapshot.chunk(bytes_max))
            self._kept_bytes += len(self._kept[-1])
            self.byte_count += len(self._kept[-1])
        self.sent += 1
        return (self.sent - 1, self._kept[at])

    def is_sent(self) -> bool:
        return self._snapshot.is_done() and self.sent == self._first + len(self._kept)

    def is_staged(self) -> bool:
        return self._snapshot.is_done() and not self._kept

    def release(self) -> None:
        self._snapshot.release()

    def check(self) -> None:
        assert self._first <= self.sent <= self._first + len(self._kept), "sent is outside what is kept"
        assert self._kept_bytes == sum(map(len, self._kept)), "kept bytes do not add up"
        self._snapshot.check()


class Transfers:
    """What is being sent to whom, by region."""

    __slots__ = ("_transfers", "wanted")

    def __init__(self) -> None:
        self._transfers: dict[int, Transfer] = {}
        # Regions that wait for a snapshot, which is made between turns.
        self.wanted: dict[int, None] = {}

    def of(self, region: int) -> Transfer | None:
        return self._transfers.get(region)

    def fetch(self, region: int, number: int, index: int) -> None:
        """On a new link: go on with that transfer, or else want a new one."""
        transfer = self._transfers.get(region)
        if transfer is None or transfer.number != number or not transfer.resume(index):
            self.drop(region)
            self.wanted[region] = None

    def begin(self, region: int, transfer: Transfer) -> None:
        self.drop(region)
        self._transfers[region] = transfer

    def drop(self, region: int) -> None:
        self.wanted.pop(region, None)
        transfer = self._transfers.pop(region, None)
        if transfer is not None:
            transfer.release()

    def tick(self, linked: list[int], passed_ms: int, keep_ms: int) -> None:
        """Let go what belongs to a region that is gone for so long."""
        for region in [region for region in self.wanted if region not in linked]:
            del self.wanted[region]
        for region, transfer in list(self._transfers.items()):
            transfer.lost_ms = 0 if region in linked else transfer.lost_ms + passed_ms
            if transfer.lost_ms >= keep_ms:
                self.drop(region)

    def first_position(self) -> int | None:
        """The log behind this position is needed by who takes a state."""
        return min([transfer.position for transfer in self._transfers.values()], default=None)

    def check(self) -> None:
        for transfer in self._transfers.values():
            transfer.check()
