"""When links pull: all of them at one moment, and not again for an interval.

So what gathers in between travels as one message, and all peers are sent the same batches, which are compressed once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Beat:
    """Calls `pull` at once if the last beat is `interval_s` ago, otherwise as soon as it is."""

    def __init__(self, interval_s: float, pull: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._pull = pull
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

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
        self._due_s = asyncio.get_running_loop().time() + self._interval_s
        self._pull()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
