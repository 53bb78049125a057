"""When links pull: all of them at one moment, and not again for an interval.

So what gathers in between travels as one message, and all peers are sent the same batches, which are compressed once.

A message costs its sender and its receivers the same however little it says. As long as the thread has nothing to spare
for that, the interval doubles, up to `STRETCH_MAX` times; as soon as it rests in between, the interval shrinks again. A
thread that waits for a processor does not rest: where several processes share few of them, none is seen to run all the
time.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress

STRETCH_MAX = 4
BUSY = 0.9
SCHEDULED = "/proc/thread-self/schedstat"
SCHEDULED_BYTES_MAX = 128


class PullInterval:
    """The time in which the thread that first asks ran, or would have run if it had got a processor, in seconds. Where
    the system does not tell that (only Linux does), it is the time in which the thread ran.
    """

    def __init__(self, path: str = SCHEDULED) -> None:
        self._path = path
        self._file: int | None = None

    def __call__(self) -> float:
        return time.thread_time() + self.waited_s()

    def waited_s(self) -> float:
        """The time in which it would have run."""
        if self._file is None:
            self._file = self._open()
        waited_ns = 0
        if self._file >= 0:
            with suppress(OSError, ValueError, IndexError):
                waited_ns = int(os.pread(self._file, SCHEDULED_BYTES_MAX, 0).split()[1])
        return waited_ns / 1e9

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return -1

    def close(self) -> None:
        if self._file is not None and self._file >= 0:
            os.close(self._file)
        self._file = -1


class Beat:
    """Calls `pull` at once if the last beat is long enough ago, otherwise as soon as it is."""

    def __init__(
        self,
        interval_s: float,
        pull: Callable[[], None],
        clock_s: Callable[[], float] = time.monotonic,
        worked_s: Callable[[], float] | None = None,
    ) -> None:
        self._interval_s = interval_s
        self._pull = pull
        self._clock_s = clock_s
        self._wanted = PullInterval()
        self._worked_s = worked_s or self._wanted
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
        self._wanted.close()
