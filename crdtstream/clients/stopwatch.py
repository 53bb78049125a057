"""The stopwatch: how long commands run. It is the only clock that commands use, and only for statistics.

The runtime supplies a function that counts nanoseconds from an arbitrary start; without one, no time passes. Nothing
replicated depends on it, and no replies except those of INFO and SLOWLOG.

A reading costs as much as some commands do, so there is only one for each command: a command begins where the previous
one ended (`mark_ns`). The first command after a pause takes an extra reading.
"""

from __future__ import annotations

from collections.abc import Callable


class Stopwatch:
    __slots__ = ("_count", "mark_ns")

    def __init__(self, count: Callable[[], int] | None = None) -> None:
        self._count = count
        self.mark_ns = 0

    def read(self) -> int:
        """Read the time in nanoseconds and make it the mark."""
        if self._count is not None:
            self.mark_ns = self._count()
        return self.mark_ns
