"""How old the oldest effect of this region is that a peer has not applied: the lag in time.

The counter of the own origin is noted at each tick, so ages are exact to about a tick. Beyond `NOTES_MAX`
every second note is dropped, so the ages of old effects are coarser.
"""

from __future__ import annotations

from bisect import bisect_right

NOTES_MAX = 2_048


class Ages:
    """Notes of (counter, time in ms), both ascending: all effects up to the counter were made by that time."""

    def __init__(self) -> None:
        self._origin = 0
        self._counters: list[int] = []
        self._times_ms: list[int] = []

    def note(self, origin: int, counter: int, now_ms: int) -> None:
        """Note how far the own origin is; another origin, or a clock that was set back, begins anew."""
        if origin != self._origin or (self._times_ms and now_ms < self._times_ms[-1]):
            self._origin = origin
            self._counters, self._times_ms = [], []
        if not self._counters or counter > self._counters[-1]:
            self._counters.append(counter)
            self._times_ms.append(now_ms)
            if len(self._counters) > NOTES_MAX:
                # The last note stays, so that every effect is covered by one.
                del self._counters[-2::-2], self._times_ms[-2::-2]

    def age_ms(self, counter: int, now_ms: int) -> int:
        """The age of the first effect above this counter; 0 if there is none."""
        at = bisect_right(self._counters, counter)
        return 0 if at == len(self._counters) else max(0, now_ms - self._times_ms[at])
