"""The keys of streams that have limits of retention, which ticks visit in turn.

A key that leaves stays in the queue until its turn comes: searching the queue for it would cost more.
"""

from __future__ import annotations

from collections import deque

from crdtstream.core.effects import Key
from crdtstream.core.streams.properties import ACKED_ONLY, MAX_AGE, MAX_BYTES, MAX_LENGTH


class RetainedKeys:
    """`keys` are those that are visited; none in most regions, and then a tick costs nothing. `removed` counts the
    entries, and their bytes, that this region removed for each reason since it started.
    """

    __slots__ = ("_queue", "_queued", "keys", "removed")

    def __init__(self) -> None:
        self.keys: dict[Key, None] = {}
        self._queue: deque[Key] = deque()
        self._queued: dict[Key, None] = {}
        self.removed: dict[bytes, tuple[int, int]] = dict.fromkeys((MAX_AGE, MAX_LENGTH, MAX_BYTES, ACKED_ONLY), (0, 0))

    def record(self, reason: bytes, entries: int, byte_count: int) -> None:
        """Count entries that were removed for this reason."""
        entries_before, bytes_before = self.removed[reason]
        self.removed[reason] = (entries_before + entries, bytes_before + byte_count)

    def schedule(self, key: Key, is_retained: bool) -> None:
        """From now on the key is visited, or not."""
        if not is_retained:
            self.keys.pop(key, None)
            return
        self.keys[key] = None
        if key not in self._queued:
            self._queued[key] = None
            self._queue.append(key)

    def pop_next(self) -> Key | None:
        """The key whose turn it is, which then comes last; None if there is none."""
        while self._queue:
            key = self._queue.popleft()
            if key in self.keys:
                self._queue.append(key)
                return key
            del self._queued[key]
        return None

    def check(self) -> None:
        assert len(self._queue) == len(self._queued), "the queue and the set of queued keys differ in size"
        assert all(key in self._queued for key in self._queue), "a key in the queue is missing from the set"
        assert all(key in self._queued for key in self.keys), "a key that is to be visited is not queued"
