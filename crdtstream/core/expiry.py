"""When keys expire: which of them are due, and what an expiry register may hold.

An expiry is a register of a stream, kept for each origin with the counter that set it (`stream.OriginMeta`). One that
an effect's context covers is replaced by that effect; concurrent ones stay side by side, and the longest wins. PERSIST
is the longest of all. A time is in milliseconds since the epoch and is the last one at which the key is there (closed):
the key has expired when the clock is beyond it.

`Deadlines` finds the keys that are due without visiting the others. Its heap holds (time to look, expiry, key); a row
whose expiry is no longer the key's is stale and is dropped when it comes up, or when stale rows are the majority.

Reference: multi-value register (Shapiro et al., 2011); the winner is a function of the values that survive.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from crdtstream.core.effects import Key
from crdtstream.core.entry_id import U64_MAX

# No expiry, and the value of PERSIST, which is longer than any other.
NO_EXPIRY = U64_MAX
# The value of an effect that removes registers and leaves none.
VOID_EXPIRY = 0

STALE_ROWS_MIN = 64


class Deadlines:
    """Every key that has an expiry, in the order in which it must be looked at."""

    __slots__ = ("_heap", "next_ms", "times")

    def __init__(self) -> None:
        self.times: dict[Key, int] = {}
        self.next_ms = NO_EXPIRY
        self._heap: list[tuple[int, int, Key]] = []

    def follow(self, key: Key, expires_ms: int) -> None:
        """The key's expiry is now this one, or `NO_EXPIRY`."""
        if expires_ms == NO_EXPIRY:
            self.times.pop(key, None)
        elif self.times.get(key) != expires_ms:
            self.times[key] = expires_ms
            self.look(key, expires_ms)
        if len(self._heap) > 2 * len(self.times) + STALE_ROWS_MIN:
            self._drop_stale()

    def look(self, key: Key, look_ms: int) -> None:
        """Bring the key up once the clock is beyond this time."""
        heappush(self._heap, (look_ms, self.times[key], key))
        self.next_ms = self._heap[0][0]

    def _drop_stale(self) -> None:
        self._heap = [(expires_ms, expires_ms, key) for key, expires_ms in self.times.items()]
        heapify(self._heap)
        self._note_next()

    def _note_next(self) -> None:
        self.next_ms = self._heap[0][0] if self._heap else NO_EXPIRY

    def take_due(self, now_ms: int) -> Key | None:
        """The next key to be looked at; whoever leaves its expiry as it is must call `look` again."""
        due: Key | None = None
        while due is None and self._heap and self._heap[0][0] < now_ms:
            _, expires_ms, key = heappop(self._heap)
            if self.times.get(key) == expires_ms:
                due = key
        self._note_next()
        return due

    def check(self) -> None:
        rows = {(expires_ms, key) for _, expires_ms, key in self._heap}
        for key, expires_ms in self.times.items():
            assert (expires_ms, key) in rows, f"nobody will look at {key!r}, which expires at {expires_ms}"
        assert self.next_ms == min((row[0] for row in self._heap), default=NO_EXPIRY), "next_ms is stale"
