"""Bytes as a sequence of choices. Where the bytes end every choice is the first one, so that each input is a valid one
and a shorter one is simpler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")
ONE_BYTE = 256


class Choices:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        """Whether bytes are left."""
        return self._at < len(self._data)

    def below(self, limit: int) -> int:
        """A number from 0 to the limit, which is exclusive."""
        if limit <= 1:
            return 0
        return int.from_bytes(self.take(1 if limit <= ONE_BYTE else 2), "big") % limit

    def one_in(self, count: int) -> bool:
        """Rarely true; false where the bytes end."""
        return self.below(count) == count - 1

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def take(self, size: int) -> bytes:
        """At most so many bytes as they are."""
        found = self._data[self._at : self._at + size]
        self._at += size
        return found

    def rest(self) -> bytes:
        return self.take(max(0, len(self._data) - self._at))
