"""The unread output of all clients together.

A socket does not report when it drains, so each recorded size is what remained at the last write or measurement, and is
never too small. If `total_bytes` exceeds the limit, every socket is measured again before a client is closed; that
happens at most once for each write that exceeds it.
"""

from __future__ import annotations

from collections.abc import Callable


class Unread:
    """Unread sizes by client; `size_of` measures one client's output. A client without unread output has no entry."""

    __slots__ = ("_size_of", "_sizes", "total_bytes")

    def __init__(self, size_of: Callable[[int], int]) -> None:
        self._size_of = size_of
        self._sizes: dict[int, int] = {}
        self.total_bytes = 0

    def record(self, client_id: int, size: int) -> None:
        self.total_bytes += size - self._sizes.pop(client_id, 0)
        if size:
            self._sizes[client_id] = size

    def most_of(self, bytes_max: int) -> int:
        """Return the client with the most unread bytes if the total exceeds `bytes_max`, else 0."""
        if self.total_bytes <= bytes_max:
            return 0
        for client_id in list(self._sizes):
            self.record(client_id, self._size_of(client_id))
        if self.total_bytes <= bytes_max:
            return 0
        return max(self._sizes, key=lambda client_id: self._sizes[client_id])

    def check(self) -> None:
        assert self.total_bytes == sum(self._sizes.values()), "the total is not that of the sizes"
        assert all(size > 0 for size in self._sizes.values()), "a client without output is kept"
