"""Replies on their way out: those of this turn, and those that wait for the disk.

Under `fsync = always` a reply, of a read too, may show what is not synced yet, so each turn's replies wait until the
log is durable up to that turn.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LARGE_BYTES: Final = 16 << 10

Replies = list[tuple[int, bytes]]


class Outputs:
    """What clients are to be sent; `holds` says that it waits for the disk."""

    __slots__ = ("_chunks", "_held", "_large", "holds")

    def __init__(self, holds: bool) -> None:
        self.holds = holds
        self._chunks: dict[int, list[bytes]] = {}
        self._large: dict[int, int] = {}
        self._held: deque[tuple[int, Replies]] = deque()

    def add(self, client_id: int, reply: bytes, bytes_max: int) -> bool:
        """False when the client's large replies of one turn alone are more than it may leave unread: it gets none."""
        size = len(reply)
        if size >= LARGE_BYTES:
            self._large[client_id] = self._large.get(client_id, 0) + size
            if self._large[client_id] > bytes_max:
                self.drop(client_id)
                return False
        chunks = self._chunks.get(client_id)
        if chunks is None:
            self._chunks[client_id] = [reply]
        else:
            chunks.append(reply)
        return True

    def drop(self, client_id: int) -> None:
        self._chunks.pop(client_id, None)

    def take(self) -> Replies:
        """The replies of this turn, one for each client."""
        taken = self._chunks
        self._chunks = {}
        self._large.clear()
        return [(client_id, b"".join(chunks) if len(chunks) > 1 else chunks[0]) for client_id, chunks in taken.items()]

    def due(self, position: int, synced: int) -> Replies:
        """What may go now: this turn's, which may show what is in the log up to `position`, is held if need be."""
        replies = self.take()
        if not self.holds:
            return replies
        if replies:
            self._held.append((position, replies))
        due: Replies = []
        while self._held and self._held[0][0] <= synced:
            due += self._held.popleft()[1]
        return due

    def held_for(self) -> list[int]:
        """The clients that have replies waiting for the disk."""
        return [client_id for _, replies in self._held for client_id, _ in replies]
