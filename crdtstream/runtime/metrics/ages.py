"""How old the oldest effect of this region is that a peer has not applied: the lag in time.

The counter of the own origin is noted at each tick, so ages are exact to about a tick. When there are `NOTES_MAX`, old
notes are thinned out: the older they are, the further apart, so that an age is wrong by about `COARSENESS` at most.
"""

from __future__ import annotations

from bisect import bisect_right

NOTES_MAX = 2_048
COARSENESS = 0.02


class Ages:
    """Notes of (counter, time in ms), both ascending: all effects up to the counter were made by that time."""

    def __init__(self) -> None:
        self._origin = 0
        self._counters: list[int] = []
        self._times_ms: list[int] = []

    def record(self, origin: int, counter: int, now_ms: int) -> None:
        """Note how far the own origin is; another origin, or a clock that was set back, begins again."""
        if origin != self._origin or (self._times_ms and now_ms < self._times_ms[-1]):
            self._origin = origin
            self._counters, self._times_ms = [], []
        if not self._counters or counter > self._counters[-1]:
            self._counters.append(counter)
            self._times_ms.append(now_ms)
            if len(self._counters) > NOTES_MAX:
                self._thin(now_ms)

    def _thin(self, now_ms: int) -> None:
        """Leave notes out where the gap that this makes is small for its age. The first and the last one stay."""
        times_ms, last = self._times_ms, len(self._times_ms) - 1
        kept = [0]
        for at in range(1, last):
            if times_ms[at + 1] - times_ms[kept[-1]] > COARSENESS * (now_ms - times_ms[at + 1]):
                kept.append(at)
        kept.append(last)
        self._counters = [self._counters[at] for at in kept]
        self._times_ms = [times_ms[at] for at in kept]

    def age_ms(self, counter: int, now_ms: int) -> int:
        """The age of the first effect above this counter; 0 if there is none."""
        at = bisect_right(self._counters, counter)
        return 0 if at == len(self._counters) else max(0, now_ms - self._times_ms[at])
