"""When links pull: all of them at one moment, and not again for an interval.

So what gathers in between travels as one message, and all peers are sent the same batches, which are compressed once.

A message costs its sender and its receivers the same however little it says. As long as the thread has nothing to spare
for that, the interval doubles, up to `STRETCH_MAX` times; as soon as it rests in between, the interval shrinks again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

STRETCH_MAX = 4
BUSY = 0.9


class Beat:
    """Calls `pull` at once if the last beat is long enough ago, otherwise as soon as it is."""

    def __init__(
        self,
        interval_s: float,
        pull: Callable[[], None],
        clock_s: Callable[[], float] = time.monotonic,
        worked_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._interval_s = interval_s
        self._pull = pull
        self._clock_s = clock_s
        self._worked_s = worked_s
        self._last_s = self._last_worked_s = 0.0
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.stretch = 1

    def ask(self) -> None:
        if self._timer is not None:
            return
        running = asyncio.get_running_loop()
        if running.time() >= self._due_s:
            self._strike()
        else:
            self._timer = running.call_at(self._due_s, self._strike)

    def _strike(self) -> None:
        self._timer = None
        self._pace()
        self._due_s = asyncio.get_running_loop().time() + self._interval_s * self.stretch
        self._pull()

    def _pace(self) -> None:
        now_s, worked_s = self._clock_s(), self._worked_s()
        busy = worked_s - self._last_worked_s >= BUSY * (now_s - self._last_s)
        self.stretch = min(2 * self.stretch, STRETCH_MAX) if busy else max(self.stretch // 2, 1)
        self._last_s, self._last_worked_s = now_s, worked_s

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
