"""Holders: the consumers that hold pending entries, as numbers, so that the columns of spans stay narrow."""

from __future__ import annotations

from array import array
from operator import itemgetter
from typing import Final

# As many consumers that hold nothing keep their numbers in any case; more do while they are a minority.
IDLE_MIN: Final = 64


class Holder:
    """A consumer with a number, and how many entries it holds."""

    __slots__ = ("count", "name", "number")

    def __init__(self, name: bytes, number: int) -> None:
        self.name = name
        self.number = number
        self.count = 0


class Holders:
    """The consumers that hold something, or lately did.

    A consumer that holds nothing keeps its number for a while, because it will usually receive the next entry soon.
    Nobody else sees that: `with_counts` and `numbered` leave such consumers out.

    Invariant: both dictionaries have the same holders, each under its own name and number; any other number below
    `_end` is free; `_idle` of the holders hold nothing.
    """

    __slots__ = ("_end", "_free", "_idle", "_named", "_numbered")

    def __init__(self) -> None:
        self._named: dict[bytes, Holder] = {}
        self._numbered: dict[int, Holder] = {}
        self._free: list[int] = []
        # All numbers in use are below this one.
        self._end = 0
        self._idle = 0

    def take(self, name: bytes, count: int) -> int:
        """Record that the consumer holds `count` more entries; returns its number."""
        holder = self._named.get(name)
        if holder is None:
            holder = self._add(name)
        if holder.count == 0:
            self._idle -= 1
        holder.count += count
        return holder.number

    def _add(self, name: bytes) -> Holder:
        if self._free:
            number = self._free.pop()
        else:
            number = self._end
            self._end += 1
        holder = self._numbered[number] = self._named[name] = Holder(name, number)
        self._idle += 1
        return holder

    def release(self, number: int, count: int) -> None:
        holder = self._numbered[number]
        holder.count -= count
        if holder.count == 0:
            self._idle += 1
            if self._idle > IDLE_MIN and 2 * self._idle > len(self._named):
                self._free_idle()

    def _free_idle(self) -> None:
        for holder in list(self._named.values()):
            if holder.count == 0:
                del self._named[holder.name], self._numbered[holder.number]
                self._free.append(holder.number)
        self._idle = 0

    def number_of(self, name: bytes) -> int | None:
        holder = self._named.get(name)
        return holder.number if holder is not None and holder.count else None

    def name_of(self, number: int) -> bytes:
        return self._numbered[number].name

    def count_of(self, name: bytes) -> int:
        holder = self._named.get(name)
        return 0 if holder is None else holder.count

    def with_counts(self) -> list[tuple[bytes, int]]:
        return [(name, self._numbered[number].count) for number, name in sorted(self.numbered(), key=itemgetter(1))]

    # Checkpoints

    def numbered(self) -> list[tuple[int, bytes]]:
        return [(holder.number, holder.name) for holder in self._named.values() if holder.count]

    def restore(self, names: dict[int, bytes], columns: list[array[int]]) -> None:
        """Load these numbers with the counts found in the columns; KeyError for a number that has no name."""
        self._numbered = {number: Holder(name, number) for number, name in names.items()}
        self._named = {holder.name: holder for holder in self._numbered.values()}
        for column in columns:
            for number in sorted({*column}):
                self._numbered[number].count += column.count(number)
        self._end = max(names, default=-1) + 1
        self._idle = len([holder for holder in self._named.values() if not holder.count])

    def check(self) -> None:
        for name, holder in self._named.items():
            assert holder.name == name and self._numbered[holder.number] is holder, f"{name!r} has no number of its own"
            assert holder.count >= 0, f"{name!r} holds {holder.count}"
        idle = [holder for holder in self._named.values() if holder.count == 0]
        assert len(idle) == self._idle, "the consumers that hold nothing are miscounted"
        assert len(self._named) == len(self._numbered), "a number has no consumer"
        used = [*self._numbered, *self._free]
        assert len({*used}) == len(used) and max(used, default=-1) < self._end, "a number is used twice"
