"""A consumer of a group, as this region knows it."""

from __future__ import annotations

from typing import Final

NEVER_MS: Final = -1


class Consumer:
    """When it last made a request, and when it last received an entry (-1: never)."""

    __slots__ = ("active_ms", "seen_ms")

    def __init__(self, seen_ms: int) -> None:
        self.seen_ms = seen_ms
        self.active_ms = NEVER_MS
