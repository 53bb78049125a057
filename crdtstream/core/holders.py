"""Holders: the consumers that hold pending entries, as numbers, so that the columns of spans stay narrow."""

from __future__ import annotations

from array import array
from operator import itemgetter
from typing import Final

# As many consumers that hold nothing keep their numbers in any case; more do while they are a minority.
IDLE_MIN: Final = 64


class Holders:
    """The consumers that hold something, or lately did, each with its number and how many entries it holds.

    A consumer that holds nothing keeps its number for a while, because it will usually receive the next entry soon.
    Nobody else sees that: `with_counts` and `numbered` leave such consumers out.

    Invariant: a number has a name and a count, or it is free; `_idle` of the counts are 0.
    """

    __slots__ = ("_counts", "_end", "_free", "_idle", "_names", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._names: dict[int, bytes] = {}
        self._counts: dict[int, int] = {}
        self._free: list[int] = []
        # All numbers in use are below this one.
        self._end = 0
        self._idle = 0

    def take(self, name: bytes, count: int) -> int:
        """Record that the consumer holds `count` more entries; returns its number."""
        number = self._numbers.get(name, -1)
        if number < 0:
            number = self._number_for(name)
        held = self._counts[number]
        if held == 0:
            self._idle -= 1
        self._counts[number] = held + count
        return number

    def _number_for(self, name: bytes) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number = self._end
            self._end += 1
        self._names[number] = name
        self._counts[number] = 0
        self._idle += 1
        self._numbers[name] = number
        return number

    def release(self, number: int, count: int) -> None:
        held = self._counts[number] - count
        self._counts[number] = held
        if held == 0:
            self._idle += 1
            if self._idle > IDLE_MIN and 2 * self._idle > len(self._numbers):
                self._free_idle()

    def _free_idle(self) -> None:
        for name, number in list(self._numbers.items()):
            if self._counts[number] == 0:
                del self._numbers[name], self._names[number], self._counts[number]
                self._free.append(number)
        self._idle = 0

    def number_of(self, name: bytes) -> int | None:
        number = self._numbers.get(name, -1)
        return number if number >= 0 and self._counts[number] else None

    def name_of(self, number: int) -> bytes:
        return self._names[number]

    def count_of(self, name: bytes) -> int:
        number = self._numbers.get(name)
        return 0 if number is None else self._counts[number]

    def with_counts(self) -> list[tuple[bytes, int]]:
        return [(name, self._counts[number]) for number, name in sorted(self.numbered(), key=itemgetter(1))]

    # Checkpoints

    def numbered(self) -> list[tuple[int, bytes]]:
        return [(number, name) for name, number in self._numbers.items() if self._counts[number]]

    def restore(self, names: dict[int, bytes], columns: list[array[int]]) -> None:
        """Load these numbers with the counts found in the columns; KeyError for a number that has no name."""
        self._counts = dict.fromkeys(names, 0)
        for column in columns:
            for number in sorted({*column}):
                self._counts[number] += column.count(number)
        self._names = dict(names)
        self._numbers = {name: number for number, name in names.items()}
        self._end = max(names, default=-1) + 1
        self._idle = list(self._counts.values()).count(0)

    def check(self) -> None:
        for name, number in self._numbers.items():
            assert self._names[number] == name and self._counts[number] >= 0, f"{name!r} has no number of its own"
        assert list(self._counts.values()).count(0) == self._idle, "the consumers that hold nothing are miscounted"
        assert len(self._numbers) == len(self._names) == len(self._counts), "a number has no consumer"
        used = [*self._names, *self._free]
        assert len({*used}) == len(used) and max(used, default=-1) < self._end, "a number is used twice"
