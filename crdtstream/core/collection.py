"""Forgetting what nobody needs any more: tombstones that are causally stable, and streams of which nothing is left.

A tombstone `(slot, counter)` kills creates of groups that do not follow it. Once every member holds it on disk, as far
as progress that passed the second gate tells, every create that does not follow it is here already, and dead: what a
member prepares from now on follows it, also after it lost what it had not synced. (What an evicted origin prepared
beyond its eviction is void; core/members.py has that, and why a joiner follows its sponsor.) So it is forgotten, by
each region when it gets to know that; a region that still has it kills nothing by it that lives elsewhere.

A stream is forgotten when it does not exist, has no tombstone, and no register: an XSETID, an XDEL or an expiry that no
DEL has seen still decides what the next entry's ID may be. What is lost with it is the same everywhere, whoever forgets
first and whatever is written to the key meanwhile:

    counts of adds   All are voided, or the key would exist. An add says how many its count had before; whoever has
                     forgotten them knows that they were voided. A DEL that names a count finds it as voided elsewhere,
                     and here not at all.
    trees, groups    Empty.
    `trimmed_to`     A maximum that says nothing about entries yet to come, whose counters lie above it.

No record tells the log of it. A replay builds tombstones anew, kills by them what was dead, and they are collected
anew; a checkpoint holds what is left at its moment, and is durable only together with all that was applied by then.

Work is done in slices. Keys wait in a queue until their tombstones are stable; the first `_left` of them were not
looked at since `stable` changed last, and when none is left nothing is done until it changes: what waits costs nothing.
"""

from __future__ import annotations

from collections import deque

from crdtstream.core.causality import VersionVector
from crdtstream.core.effects import Key
from crdtstream.core.stream import OriginMeta, Stream


class Collection:
    """The keys that have something to forget, in the order in which they are looked at."""

    __slots__ = ("_left", "_queue", "_stable", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Key, None] = {}
        self._queue: deque[Key] = deque()
        self._stable = VersionVector()
        self._left = 0

    def note(self, key: Key) -> None:
        """The key has a tombstone, or may be nothing but remembered."""
        if key not in self.waiting:
            self.waiting[key] = None
            self._queue.append(key)

    def collect(self, databases: list[dict[bytes, Stream]], stable: VersionVector, keys_max: int) -> int:
        """Look at so many keys at most; returns how many were looked at."""
        if stable != self._stable:
            self._stable = stable
            self._left = len(self._queue)
        count = min(self._left, keys_max)
        for _ in range(count):
            key = self._queue.popleft()
            if forget(databases[key[0]], key[1], stable):
                self._queue.append(key)
            else:
                del self.waiting[key]
        self._left -= count
        return count

    def check(self, databases: list[dict[bytes, Stream]]) -> None:
        assert len(self._queue) == len(self.waiting), "the queue and the keys in it differ"
        assert all(key in self.waiting for key in self._queue), "a key waits twice, and another not at all"
        assert 0 <= self._left <= len(self._queue), "more is left than waits"
        for number, database in enumerate(databases):
            for name, stream in database.items():
                known = (number, name) in self.waiting
                assert known or not (stream.deleted or stream.destroyed), f"nobody forgets tombstones of {name!r}"
                assert known or stream.exists(), f"nobody forgets {name!r}, of which nothing is left"


def forget(database: dict[bytes, Stream], name: bytes, stable: VersionVector) -> bool:
    """Forget what can be forgotten of a key; true when something remains that may go later."""
    stream = database.get(name)
    if stream is None:
        return False
    stream.forget_tombstones(stable)
    if stream.deleted or stream.destroyed:
        return True
    if stream.exists():
        return False
    if any(holds_register(meta) for meta in stream.metas.values()):
        return True
    del database[name]
    return False


def holds_register(meta: OriginMeta) -> bool:
    return bool(meta.set_counter or meta.removed_counter or meta.offset_counter or meta.expiry_counter)
