"""What one peer sent: flow control for batches that are not applied yet, and the assembly of split batches.

`consumed_bytes` counts the bytes received since the last restart whose batch the local vector covers, in order of
arrival. The peer's window is measured by it, so at most one window of this peer's batches waits in the inbox. A part is
counted when it arrives, except the last one of its batch, which is counted with the batch: `batch_bytes_max` bounds an
incomplete batch, and the region bounds the incomplete batches of all sessions together.

A batch with an older restart number was sent before the peer knew of the restart and counts in no window. A duplicate
is counted at once and takes no memory here: a correct peer never sends one.
"""

from __future__ import annotations

from collections import deque

from crdtstream.core.causality import VersionVector
from crdtstream.protocols.codec import BatchHeader
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.greeting import WireError


class Intake:
    """The receiving half of a session."""

    __slots__ = ("_batch_bytes_max", "_count", "_known", "_next", "_waiting", "_whole", "consumed_bytes", "restart")

    def __init__(self, batch_bytes_max: int) -> None:
        self._batch_bytes_max = batch_bytes_max
        self.restart = 0
        self.consumed_bytes = 0
        self._waiting: deque[tuple[int, int, int]] = deque()
        self._known: set[tuple[int, int]] = set()
        self._whole = bytearray()
        self._next = 0
        self._count = 0

    @property
    def unfinished_bytes(self) -> int:
        """The bytes of the batch that is being assembled."""
        return len(self._whole)

    def begin(self) -> int:
        """Begin a new restart number and with it a new window."""
        self.restart += 1
        self.consumed_bytes = 0
        self._waiting.clear()
        self._known.clear()
        return self.restart

    def note(self, header: BatchHeader, size_bytes: int, restart: int) -> None:
        """Record the arrival of a batch, of which `size_bytes` are not counted yet."""
        if restart != self.restart:
            return
        dot = (header.slot, header.last)
        if dot in self._known:
            self.consumed_bytes += size_bytes
        else:
            self._known.add(dot)
            self._waiting.append((*dot, size_bytes))

    def settle(self, vector: VersionVector) -> None:
        """Count the batches that the local vector covers by now."""
        waiting = self._waiting
        while waiting and vector.contains(waiting[0][0], waiting[0][1]):
            slot, last, size_bytes = waiting.popleft()
            self._known.discard((slot, last))
            self.consumed_bytes += size_bytes

    def piece(self, part: wire.Part) -> bytes | None:
        """Add a part; return the whole batch with its last part, else None."""
        if part.index == 0:
            self._whole = bytearray()
            self._next = 0
            self._count = part.count
        if part.index != self._next or part.count != self._count or part.index >= part.count or not part.payload:
            raise WireError(f"part {part.index} of {part.count} arrived after {self._next} of {self._count} parts")
        if len(self._whole) + len(part.payload) > self._batch_bytes_max:
            raise WireError(f"a batch exceeds batch_bytes_max = {self._batch_bytes_max} bytes")
        self._whole += part.payload
        self._next += 1
        if self._next < self._count:
            if part.restart == self.restart:
                self.consumed_bytes += len(part.payload)
            return None
        whole = bytes(self._whole)
        self._whole = bytearray()
        self._next = self._count = 0
        return whole

    def check(self) -> None:
        assert len(self._whole) <= self._batch_bytes_max, "the incomplete batch is too large"
        assert self._known == {(slot, last) for slot, last, _ in self._waiting}, "waiting and known batches differ"
        assert all(size > 0 for _, _, size in self._waiting), "a batch without bytes waits"
