"""Forgets what is causally stable, a slice a tick, and logs that, so that a replay forgets it too.

A replay knows no progress of members, so without these records it would keep every tombstone in the log until the links
are up. A record holds the stable vector and the number of keys visited since the last record, and is written at most
every `TELL_MS` after something was forgotten; the replay visits the same keys. A vector that was stable at that
position is stable whenever the log is read again: origins admitted later build on what others had forgotten by then
(core/members.py).

What was forgotten after the last such record is collected again once the links are up (core/collection.py). So are
names of adds (core/names/register.py), of which no record says anything.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.keyspace import Keyspace
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols import codec
from crdtstream.replication.log.turn import Turn
from crdtstream.settings.config import Limits

TELL_MS: Final = 1_000
NAMES_A_TICK: Final = 2_000


class Collecting:
    """The keys visited and forgotten since the last record in the log."""

    __slots__ = ("_forgotten", "_keyspace", "_looked", "_told_ms", "_turn")

    def __init__(self, keyspace: Keyspace, turn: Turn) -> None:
        self._keyspace = keyspace
        self._turn = turn
        self._looked = 0
        self._forgotten = 0
        self._told_ms = 0

    def tick(self, now_ms: int, stable: VersionVector, limits: Limits, writable: bool) -> None:
        collection, named = self._keyspace.collection, self._keyspace.named
        if named.held:
            named.forget(stable, limits.collected_keys_max, NAMES_A_TICK, now_ms)
        if collection.waiting:
            collection.deleted.streams_max = limits.deleted_streams_max
            before = collection.forgotten
            self._looked += self._keyspace.collect(stable, limits.collected_keys_max)
            self._forgotten += collection.forgotten - before
        if self._forgotten and writable and not 0 <= now_ms - self._told_ms < TELL_MS:
            self._told_ms = now_ms
            self._turn.add(codec.STABLE, codec.encode_stable(self._looked, self._keyspace.collection.stable()))
            self._looked = self._forgotten = 0

    def replay(self, payload: bytes) -> None:
        looked, stable = codec.decode_stable(payload)
        self._keyspace.collect(stable, looked)
