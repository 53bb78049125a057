"""What one peer sent: batches that are not yet applied count against its window, parts become whole batches again.

`consumed_bytes` are the bytes since the last restart whose batch the own vector covers, in order of arrival; that is
what the peer's window goes by, so at most one window of this peer's batches waits in the inbox. A part counts at
once, but for the last one of its batch, which counts with it: `batch_bytes_max` bounds what is being put together, and
the region bounds what all its sessions put together.

A batch with an older restart number was sent before the peer heard of the restart, and counts in no window. One that
comes twice counts at once, and takes no memory here: no sound peer sends it.
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
        """Of the batch that is being put together."""
        return len(self._whole)

    def begin(self) -> int:
        """A new restart number, and a new window with it."""
        self.restart += 1
        self.consumed_bytes = 0
        self._waiting.clear()
        self._known.clear()
        return self.restart

    def note(self, header: BatchHeader, size_bytes: int, restart: int) -> None:
        """A batch arrived, of which these bytes are not counted yet."""
        if restart != self.restart:
            return
        dot = (header.slot, header.last)
        if dot in self._known:
            self.consumed_bytes += size_bytes
        else:
            self._known.add(dot)
            self._waiting.append((*dot, size_bytes))

    def settle(self, vector: VersionVector) -> None:
        """Count what the own vector covers by now."""
        waiting = self._waiting
        while waiting and vector.contains(waiting[0][0], waiting[0][1]):
            slot, last, size_bytes = waiting.popleft()
            self._known.discard((slot, last))
            self.consumed_bytes += size_bytes

    def piece(self, part: wire.Part) -> bytes | None:
        """The whole batch with its last part, else None."""
        if part.index == 0:
            self._whole = bytearray()
            self._next = 0
            self._count = part.count
        if part.index != self._next or part.count != self._count or part.index >= part.count or not part.payload:
            raise WireError(f"part {part.index} of {part.count} after {self._next} of {self._count}")
        if len(self._whole) + len(part.payload) > self._batch_bytes_max:
            raise WireError(f"a batch of more than batch_bytes_max = {self._batch_bytes_max} bytes")
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
        assert len(self._whole) <= self._batch_bytes_max, "too much is being put together"
        assert self._known == {(slot, last) for slot, last, _ in self._waiting}, "what waits is not what is known"
        assert all(size > 0 for _, _, size in self._waiting), "a batch without bytes waits"
