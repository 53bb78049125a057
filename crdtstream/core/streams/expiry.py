"""Expiry of keys: the values of an expiry register, and which keys are due.

An expiry is a register of a stream, kept for each origin with the counter that set it (`stream.OriginMeta`). An expiry
that an effect's context covers is replaced by that effect. Concurrent expiries are all kept, and the longest wins;
PERSIST is longer than any other. A time is in milliseconds since the epoch and inclusive: the key still exists at that
millisecond and has expired once the clock is beyond it.

`Deadlines` finds the due keys without visiting the others.

Reference: multi-value register (Shapiro et al., 2011); the winner is a function of the values that survive.
"""

from __future__ import annotations

from sortedcontainers import SortedList

from crdtstream.core.effects import Key
from crdtstream.core.values.entry_id import U64_MAX

# No expiry; also the value that PERSIST sets, longer than any other.
NO_EXPIRY = U64_MAX
# An effect with this value removes the registers that its context covers and sets none.
VOID_EXPIRY = 0


class Deadlines:
    """All keys that have an expiry, ordered by the time at which they must be visited."""

    __slots__ = ("_looks", "_rows", "next_ms", "times")

    def __init__(self) -> None:
        self.times: dict[Key, int] = {}
        self.next_ms = NO_EXPIRY
        # Key -> time to look at it, and the same pairs as sorted rows (time to look, key).
        self._looks: dict[Key, int] = {}
        self._rows: SortedList = SortedList()

    def are_due(self, now_ms: int) -> bool:
        # Most regions have none, and `NO_EXPIRY` is too large for a fast comparison.
        return bool(self._looks) and self.next_ms < now_ms

    def schedule(self, key: Key, expires_ms: int) -> None:
        """Set the key's expiry; `NO_EXPIRY` removes it. It may be the same as before, but set by another region, so the
        key is looked at at this time again.
        """
        if expires_ms != NO_EXPIRY:
            self.times[key] = expires_ms
            self.look(key, expires_ms)
        elif self.times.pop(key, None) is not None:
            self._forget(key)

    def look(self, key: Key, look_ms: int) -> None:
        """Make the key due once the clock is beyond this time, and not before."""
        self._forget(key)
        self._looks[key] = look_ms
        self._rows.add((look_ms, key))
        self._record_next()

    def _forget(self, key: Key) -> None:
        look_ms = self._looks.pop(key, None)
        if look_ms is not None:
            self._rows.remove((look_ms, key))
            self._record_next()

    def _record_next(self) -> None:
        self.next_ms = self._rows[0][0] if self._rows else NO_EXPIRY

    def pop_due(self, now_ms: int) -> Key | None:
        """Take the next due key; a caller that leaves its expiry unchanged must call `look` again."""
        if not self.are_due(now_ms):
            return None
        due: Key = self._rows[0][1]
        self._forget(due)
        return due

    def check(self) -> None:
        assert self.times.keys() == self._looks.keys(), (
            "the keys with an expiry and the keys with a time to look differ"
        )
        assert sorted([(look_ms, key) for key, look_ms in self._looks.items()]) == list(self._rows), "rows are stale"
        assert self.next_ms == min(self._looks.values(), default=NO_EXPIRY), "next_ms is stale"
