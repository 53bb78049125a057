"""Outgoing replies: those of the current turn, and those waiting for the disk.

With `fsync = always` any reply, even of a read, may show data that is not synced yet. So the replies of each turn are
held until the log is durable up to that turn.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LARGE_BYTES: Final = 16 << 10

Replies = list[tuple[int, bytes]]
# Channel and message, of what was published.
Messages = list[tuple[bytes, bytes]]


class Outputs:
    """Replies to be sent to clients; with `holds` they wait for the disk."""

    __slots__ = ("_chunks", "_held", "_large", "holds")

    def __init__(self, holds: bool) -> None:
        self.holds = holds
        self._chunks: dict[int, list[bytes]] = {}
        self._large: dict[int, int] = {}
        self._held: deque[tuple[int, Replies]] = deque()

    def add(self, client_id: int, reply: bytes, bytes_max: int) -> bool:
        """Add a reply. False if the client's large replies of this turn alone exceed what it may leave unread; all its
        replies of the turn are then dropped.
        """
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

    def drain(self) -> Replies:
        """Take the replies of this turn, concatenated for each client."""
        taken = self._chunks
        self._chunks = {}
        self._large.clear()
        return [(client_id, b"".join(chunks) if len(chunks) > 1 else chunks[0]) for client_id, chunks in taken.items()]

    def due(self, position: int, synced: int) -> Replies:
        """The replies that may be sent now. Those of this turn, which may show the log up to `position`, are held until
        the log is synced up to there, if holding is on.
        """
        replies = self.drain()
        if not self.holds:
            return replies
        if replies:
            self._held.append((position, replies))
        due: Replies = []
        while self._held and self._held[0][0] <= synced:
            due += self._held.popleft()[1]
        return due

    def held_for(self) -> list[int]:
        """The clients whose replies are waiting for the disk."""
        return [client_id for _, replies in self._held for client_id, _ in replies]
