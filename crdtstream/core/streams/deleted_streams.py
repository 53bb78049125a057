"""What is remembered of deleted streams: up to which entries they were deleted, for readers that come by position (see
OriginMeta.trimmed_to), and how many adds were voided, for joins with a state that has later ones (core/joining.py).

A stream that collection would drop stays in the keyspace with these alone. The state that clients see does not depend
on them, so regions may remember different streams. The oldest are dropped first, and FORGOTTEN, a stream of each
database that never exists unless somebody writes to that name, holds the maxima of their `trimmed_to`: a reader whose
position is above them has lost nothing with a stream that is not remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from crdtstream.core.effects import Key
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.key_order import KeyOrder

FORGOTTEN: Final = b"crdtstream:forgotten"
STREAMS_MAX: Final = 10_000


class DeletedStreams:
    """The keys of remembered streams, the one that was collected first at the front; `streams_max` bounds them."""

    __slots__ = ("_keys", "_queue", "streams_max")

    def __init__(self) -> None:
        self.streams_max = STREAMS_MAX
        self._keys: dict[Key, None] = {}
        # A dictionary would search for its first key behind all that were removed before.
        self._queue: deque[Key] = deque()

    def __contains__(self, key: Key) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def keep(self, databases: list[dict[bytes, Stream]], orders: list[KeyOrder], key: Key) -> None:
        """Remember a collected stream by its last words, or drop it if it never had an entry."""
        kept = last_words(databases[key[0]][key[1]])
        if not len(kept.metas):
            drop(databases, orders, key)
            return
        databases[key[0]][key[1]] = kept
        if key[1] == FORGOTTEN or key in self._keys:
            return
        self._keys[key] = None
        self._queue.append(key)

    def shrink(
        self,
        databases: list[dict[bytes, Stream]],
        orders: list[KeyOrder],
        waiting: dict[Key, None],
        announce: Callable[[Key], None],
    ) -> None:
        """Drop the oldest beyond the limit; those that exist again, or wait for collection, only leave the queue."""
        while len(self._queue) > self.streams_max:
            key = self._queue.popleft()
            del self._keys[key]
            stream = databases[key[0]].get(key[1])
            if stream is None or stream.exists() or key in waiting:
                continue
            announce(key)
            forget(databases, orders, key[0], stream)
            drop(databases, orders, key)


def last_words(stream: Stream) -> Stream:
    """A stream with the `trimmed_to` and the voided counts of this one, and nothing else."""
    kept = Stream()
    for origin, meta in stream.metas.items():
        if meta.trimmed_to or meta.added:
            noted = kept.metas.of(origin)
            noted.record_removed(meta.trimmed_to)
            noted.first, noted.added, noted.voided = meta.first, meta.added, meta.voided
    return kept


def forget(databases: list[dict[bytes, Stream]], orders: list[KeyOrder], database: int, stream: Stream) -> None:
    """Raise the maxima of the database to those of this stream."""
    streams = databases[database]
    if FORGOTTEN not in streams:
        streams[FORGOTTEN] = Stream()
        orders[database].add(FORGOTTEN)
    for origin, meta in stream.metas.items():
        streams[FORGOTTEN].metas.of(origin).record_removed(meta.trimmed_to)


def drop(databases: list[dict[bytes, Stream]], orders: list[KeyOrder], key: Key) -> None:
    del databases[key[0]][key[1]]
    orders[key[0]].remove(key[1])
