"""Garbage collection: forgetting tombstones that are causally stable, and streams of which nothing is left.

A tombstone `(origin, counter)` voids every group create whose context does not cover it. The tombstone is *stable* once
every member has it on disk, according to progress reports that passed the second gate of the inbox. Then every such
create has arrived here and was voided, and whatever a member prepares later covers the tombstone, even after that
member lost unsynced effects. (What an evicted origin prepared beyond its end is void, and a new member's context covers
its sponsor's: see core/members.py.) So each region drops the tombstone when it learns that it is stable; a region that
still keeps it voids nothing that survives elsewhere.

A stream is dropped when it does not exist, has no tombstone and has no register: a last ID, max-deleted ID, expiry or
property set by XSETID, XDEL, EXPIRE or CRDT.STREAM SET and not yet covered by a DEL still decides which ID the next
entry may get; names of adds that may meet concurrent ones are kept too (core/names/register.py). What `forget` does
with a key:

    tombstones left    the key exists    registers or names left    the stream    waits in the queue
    yes                -                 -                          stays         yes
    no                 yes               -                          stays         no
    no                 no                yes                        stays         yes
    no                 no                no                         is dropped    no

A stream that is dropped may still be remembered by what readers by position, and joins, need
(core/streams/deleted_streams.py).

The state lost with a dropped stream is the same everywhere, whichever region drops it first and whatever is written to
the key meanwhile:

    counts of adds   All are voided, or the key would exist. An add says how many adds its count had before, so a region
                     that dropped them knows that they were voided. A DEL that names a count finds it voided in other
                     regions and missing here; both have the same effect.
    trees, groups    Empty.
    `trimmed_to`,    Maxima that say nothing about future entries, whose counters lie above them. The first is
    `dropped_counter`    remembered for a while, as are the counts.

Replaying the log recreates tombstones, voids the same creates by them, and collects them where the log records what was
stable (replication/log/collecting.py); the rest is collected after the start. A checkpoint holds what was left
when it was captured, and becomes durable only together with everything applied by then.

Work is done in slices. Keys wait in a queue. The first `_left` of them have not been visited since `stable` last
changed; once `_left` is 0, nothing happens until `stable` changes, so waiting keys cost nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from crdtstream.core.effects import Key
from crdtstream.core.streams.deleted_streams import FORGOTTEN, DeletedStreams
from crdtstream.core.streams.origin_meta import OriginMeta
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.key_order import KeyOrder


class Collection:
    """The keys that have something to forget, in the order in which they are visited; `forgotten` counts the keys that
    left the queue because nothing remained to be forgotten, `deleted` remembers what is left of dropped streams.
    """

    __slots__ = ("_left", "_queue", "_stable", "deleted", "forgotten", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Key, None] = {}
        self.deleted = DeletedStreams()
        self._queue: deque[Key] = deque()
        self._stable = VersionVector()
        self._left = 0
        self.forgotten = 0

    def stable(self) -> VersionVector:
        """The vector that the last call of `collect` was given."""
        return self._stable

    def queue(self, key: Key) -> None:
        """Queue a key that has a tombstone, or that may no longer exist."""
        if key not in self.waiting:
            self.waiting[key] = None
            self._queue.append(key)

    def collect(
        self,
        databases: list[dict[bytes, Stream]],
        orders: list[KeyOrder],
        stable: VersionVector,
        keys_max: int,
        announce: Callable[[Key], None],
    ) -> int:
        """Visit at most `keys_max` keys and forget what `stable` covers; returns how many were visited. `announce` is
        called before a remembered stream is dropped.
        """
        if stable != self._stable:
            self._stable = stable
            self._left = len(self._queue)
        count = min(self._left, keys_max)
        for _ in range(count):
            key = self._queue.popleft()
            stream = databases[key[0]].get(key[1])
            if stream is not None and forget(stream, stable):
                self._queue.append(key)
                continue
            del self.waiting[key]
            self.forgotten += 1
            if stream is not None and not stream.exists():
                self.deleted.keep(databases, orders, key)
        self.deleted.shrink(databases, orders, self.waiting, announce)
        self._left -= count
        return count

    def check(self, databases: list[dict[bytes, Stream]]) -> None:
        assert len(self._queue) == len(self.waiting), "the queue and the set of waiting keys differ in size"
        assert all(key in self.waiting for key in self._queue), "a queued key is missing from the set of waiting keys"
        assert 0 <= self._left <= len(self._queue), "more keys are left than queued"
        for number, database in enumerate(databases):
            for name, stream in database.items():
                known = (number, name) in self.waiting
                assert known or not (stream.deleted or stream.destroyed), f"tombstones of {name!r} are not queued"
                remembered = (number, name) in self.deleted or name == FORGOTTEN
                assert known or remembered or stream.exists(), f"{name!r} no longer exists and is not queued"


def forget(stream: Stream, stable: VersionVector) -> bool:
    """Forget what is stable of one key; true if something remains that may be forgotten later."""
    stream.forget_tombstones(stable)
    if stream.deleted or stream.destroyed:
        return True
    if stream.exists():
        return False
    if stream.properties is not None or holds_names(stream):
        return True
    return any(holds_register(meta) for meta in stream.metas.values())


def holds_names(stream: Stream) -> bool:
    return stream.producers is not None and stream.producers.register is not None


def holds_register(meta: OriginMeta) -> bool:
    return bool(meta.set_counter or meta.removed_counter or meta.offset_counter or meta.expiry_counter)
