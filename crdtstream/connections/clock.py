"""The time of the turn, as commands see it.

The keyspace owns the time, because it decides which keys are hidden; here is what else depends on how it passes.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.keyspace import Keyspace

# A region that serves looks at the time at least ten times a second.
STEP_MS_MAX: Final = 200


class Clock:
    """`started_ms` is when the region started; `set_back_ms` is the time to which the clock was last set back, or the
    time of the start. `elapsed_ms` is how long the region has served since: a clock that is set, or a suspended
    process, adds a step to it at most. A wait that orders depend on is measured by it. `lost_ms` is what it leaves out:
    while the region was suspended, or how far its clock was set.
    """

    __slots__ = ("_keyspace", "elapsed_ms", "lost_ms", "set_back_ms", "started_ms")

    def __init__(self, keyspace: Keyspace, now_ms: int) -> None:
        self._keyspace = keyspace
        keyspace.now_ms = self.started_ms = self.set_back_ms = now_ms
        self.elapsed_ms = self.lost_ms = 0

    def advance(self, now_ms: int) -> None:
        """It is now this late; a time before the last one is taken as it is."""
        passed_ms = now_ms - self._keyspace.now_ms
        served_ms = min(max(0, passed_ms), STEP_MS_MAX)
        self.elapsed_ms += served_ms
        self.lost_ms += abs(passed_ms - served_ms)
        self._keyspace.now_ms = now_ms

    def idle_ms(self, since_ms: int) -> int:
        """The milliseconds since a time. A time later than now was recorded before the clock was set back, so the idle
        time then counts from `set_back_ms`.
        """
        now_ms = self._keyspace.now_ms
        if since_ms > now_ms:
            since_ms = self.set_back_ms
        return max(0, now_ms - since_ms)
