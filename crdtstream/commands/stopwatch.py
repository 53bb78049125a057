"""How long commands run: the one thing that commands know of a clock, for statistics alone.

The runtime gives a function that counts nanoseconds from anywhere; without one, no time passes. No reply but those of
INFO and SLOWLOG depends on it, and nothing replicated.

A reading costs as much as some commands do, so there is one for each: a command begins where the one before it ended
(`mark_ns`). Whoever begins after a pause reads first.
"""

from __future__ import annotations

from collections.abc import Callable


class Stopwatch:
    __slots__ = ("_count", "mark_ns")

    def __init__(self, count: Callable[[], int] | None = None) -> None:
        self._count = count
        self.mark_ns = 0

    def read(self) -> int:
        """The time now, which becomes the mark."""
        if self._count is not None:
            self.mark_ns = self._count()
        return self.mark_ns
