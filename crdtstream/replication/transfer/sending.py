"""The sending end of state transfers: for each peer a snapshot that is sent in chunks.

Apart from the first window, each chunk is sent after the peer has confirmed earlier ones: `next` says which it has
staged. Chunks are kept until then, so a transfer resumes where a lost link interrupted it; it is released if its peer
stays away or confirms nothing for too long, as one that has abandoned it. While spilled blocks are read for a chunk it
is not there yet, as while the window is closed. The region's own effects continue meanwhile and are served from the log
behind the snapshot's position.

Memory: one window of chunks for each peer, and whatever its snapshot holds (see snapshot.py).

Chunk indexes start at 0; `next` is exclusive: the chunks below it are staged.
"""

from __future__ import annotations

from collections import deque

from crdtstream.core.values.causality import VersionVector
from crdtstream.replication.transfer.snapshot import Snapshot


class Transfer:
    """The transfer of one state to one peer."""

    __slots__ = (
        "_first",
        "_kept",
        "_kept_bytes",
        "_snapshot",
        "byte_count",
        "idle_ms",
        "is_away",
        "number",
        "position",
        "sent",
    )

    def __init__(self, number: int, position: int, snapshot: Snapshot) -> None:
        self.number = number
        self.position = position
        self.sent = 0
        self.byte_count = 0
        # How long the peer has confirmed nothing.
        self.idle_ms = 0
        self.is_away = False
        self._snapshot = snapshot
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._first = 0

    @property
    def vector(self) -> VersionVector:
        return self._snapshot.vector

    def record_staged(self, index: int) -> None:
        """Release the chunks that the peer has staged: all below this index."""
        while self._first < min(index, self.sent):
            self.idle_ms = 0
            self._kept_bytes -= len(self._kept.popleft())
            self._first += 1

    def resume(self, index: int) -> bool:
        """Resume at this chunk on a new link; False if it is no longer kept."""
        if not self._first <= index <= self._first + len(self._kept):
            return False
        self.record_staged(index)
        self.sent = index
        return True

    def chunk(self, bytes_max: int, window_bytes: int) -> tuple[int, bytes] | None:
        """Return the next chunk and its index; None while the window is closed or blocks are read, and at the end."""
        at = self.sent - self._first
        if at == len(self._kept):
            if self._snapshot.is_done() or self._kept_bytes >= window_bytes:
                return None
            chunk = self._snapshot.ready_chunk(bytes_max)
            if chunk is None:
                return None
            self._kept.append(chunk)
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
    """The running transfers, by the peer's origin."""

    __slots__ = ("running", "wanted")

    def __init__(self) -> None:
        self.running: dict[int, Transfer] = {}
        # Origins that wait for a snapshot, which is taken between turns.
        self.wanted: dict[int, None] = {}

    def fetch(self, peer: int, number: int, index: int) -> None:
        """Resume that transfer on a new link, or request a new snapshot. A peer that restarted in between resumes, as
        another origin, with the chunks staged in its directory.
        """
        before = next((one for one, known in self.running.items() if known.number == number), peer)
        transfer = self.running.pop(before, None)
        self.drop(peer)
        if transfer is not None and transfer.number == number and transfer.resume(index):
            self.running[peer] = transfer
            return
        if transfer is not None:
            transfer.release()
        self.wanted[peer] = None

    def begin(self, peer: int, transfer: Transfer) -> None:
        self.drop(peer)
        self.running[peer] = transfer

    def drop(self, peer: int) -> None:
        self.wanted.pop(peer, None)
        transfer = self.running.pop(peer, None)
        if transfer is not None:
            transfer.release()

    def drop_all(self) -> None:
        for peer in [*self.wanted, *self.running]:
            self.drop(peer)

    def tick(self, linked: list[int], passed_ms: int, keep_ms: int) -> None:
        """Release transfers of which the peer has confirmed nothing for `keep_ms`: it is gone, or it has abandoned the
        transfer. One that was sent whole may take its peer longer to join.
        """
        for peer in [peer for peer in self.wanted if peer not in linked]:
            del self.wanted[peer]
        for peer, transfer in list(self.running.items()):
            is_away = peer not in linked
            joins = not is_away and transfer.is_sent()
            before_ms = transfer.idle_ms if is_away == transfer.is_away else 0
            transfer.idle_ms = 0 if joins else before_ms + passed_ms
            transfer.is_away = is_away
            if transfer.idle_ms >= keep_ms:
                self.drop(peer)

    def has(self, peer: int) -> bool:
        """True if a transfer to this peer runs, or waits for its snapshot."""
        return peer in self.running or peer in self.wanted

    def first_position(self) -> int | None:
        """The lowest position among the snapshots being sent; their receivers need the log behind it."""
        return min([transfer.position for transfer in self.running.values()], default=None)

    def check(self) -> None:
        for transfer in self.running.values():
            transfer.check()
