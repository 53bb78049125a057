"""What one peer sent: batches that are not yet applied count against its window, parts become whole batches again.

`consumed_bytes` are the bytes since the last restart whose batch the own vector covers, in order of arrival; that is
what the peer's window goes by, so at most one window of this peer's batches waits in the inbox. A part counts at
once, but for the last one of its batch, which counts with it: `batch_bytes_max` bounds what is being put together.

A batch with an older restart number was sent before the peer heard of the restart, and counts in no window.
"""

from __future__ import annotations

from collections import deque

from crdtstream.core.causality import VersionVector
from crdtstream.protocols.codec import BatchHeader
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.greeting import WireError


class Intake:
    """The receiving half of a session."""

    __slots__ = ("_batch_bytes_max", "_count", "_pieces", "_size", "_waiting", "consumed_bytes", "restart")

    def __init__(self, batch_bytes_max: int) -> None:
        self._batch_bytes_max = batch_bytes_max
        self.restart = 0
        self.consumed_bytes = 0
        self._waiting: deque[tuple[int, int, int]] = deque()
        self._pieces: list[bytes] = []
        self._count = 0
        self._size = 0

    def begin(self) -> int:
        """A new restart number, and a new window with it."""
        self.restart += 1
        self.consumed_bytes = 0
        self._waiting.clear()
        return self.restart

    def note(self, header: BatchHeader, size_bytes: int, restart: int) -> None:
        """A batch arrived, of which these bytes are not counted yet."""
        if restart == self.restart:
            self._waiting.append((header.slot, header.last, size_bytes))

    def settle(self, vector: VersionVector) -> None:
        """Count what the own vector covers by now."""
        waiting = self._waiting
        while waiting and vector.contains(waiting[0][0], waiting[0][1]):
            self.consumed_bytes += waiting.popleft()[2]

    def piece(self, part: wire.Part) -> bytes | None:
        """The whole batch with its last part, else None."""
        if part.index == 0:
            self._pieces = []
            self._size = 0
            self._count = part.count
        if part.index != len(self._pieces) or part.count != self._count or part.index >= part.count or not part.payload:
            raise WireError(f"part {part.index} of {part.count} after {len(self._pieces)} of {self._count}")
        self._size += len(part.payload)
        if self._size > self._batch_bytes_max:
            raise WireError(f"a batch of more than {self._batch_bytes_max} bytes")
        self._pieces.append(part.payload)
        if len(self._pieces) < self._count:
            if part.restart == self.restart:
                self.consumed_bytes += len(part.payload)
            return None
        whole = b"".join(self._pieces)
        self._pieces = []
        return whole

    def check(self) -> None:
        assert self._size <= self._batch_bytes_max, "too much is being put together"
        assert self._size >= sum(map(len, self._pieces)), "pieces that were not counted"
        assert all(size > 0 for _, _, size in self._waiting), "a batch without bytes waits"
