"""Consumer numbers: the consumers that hold pending entries, as numbers, so that the columns of spans stay narrow."""

from __future__ import annotations

from array import array
from operator import itemgetter
from typing import Final

# As many consumers that hold nothing keep their numbers in any case; more do while they are a minority.
IDLE_MIN: Final = 64


class NumberedConsumer:
    """A consumer with a number, and how many entries it holds."""

    __slots__ = ("count", "name", "number")

    def __init__(self, name: bytes, number: int) -> None:
        self.name = name
        self.number = number
        self.count = 0


class ConsumerNumbers:
    """The consumers that hold something, or lately did.

    A consumer that holds nothing keeps its number for a while, because it will usually receive the next entry soon.
    Nobody else sees that: `with_counts` and `numbered` leave such consumers out.

    Invariant: both dictionaries have the same consumers, each under its own name and number; any other number below
    `_end` is free; `_idle` of the consumers hold nothing.
    """

    __slots__ = ("_end", "_free", "_idle", "_named", "_numbered")

    def __init__(self) -> None:
        self._named: dict[bytes, NumberedConsumer] = {}
        self._numbered: dict[int, NumberedConsumer] = {}
        self._free: list[int] = []
        # All numbers in use are below this one.
        self._end = 0
        self._idle = 0

    def hold(self, name: bytes, count: int) -> int:
        """Record that the consumer holds `count` more entries; returns its number."""
        consumer = self._named.get(name)
        if consumer is None:
            consumer = self._add(name)
        if consumer.count == 0:
            self._idle -= 1
        consumer.count += count
        return consumer.number

    def _add(self, name: bytes) -> NumberedConsumer:
        if self._free:
            number = self._free.pop()
        else:
            number = self._end
            self._end += 1
        consumer = self._numbered[number] = self._named[name] = NumberedConsumer(name, number)
        self._idle += 1
        return consumer

    def release(self, number: int, count: int) -> None:
        consumer = self._numbered[number]
        consumer.count -= count
        if consumer.count == 0:
            self._idle += 1
            if self._idle > IDLE_MIN and 2 * self._idle > len(self._named):
                self._free_idle()

    def _free_idle(self) -> None:
        for consumer in list(self._named.values()):
            if consumer.count == 0:
                del self._named[consumer.name], self._numbered[consumer.number]
                self._free.append(consumer.number)
        self._idle = 0

    def number_of(self, name: bytes) -> int | None:
        consumer = self._named.get(name)
        return consumer.number if consumer is not None and consumer.count else None

    def name_of(self, number: int) -> bytes:
        return self._numbered[number].name

    def count_of(self, name: bytes) -> int:
        consumer = self._named.get(name)
        return 0 if consumer is None else consumer.count

    def with_counts(self) -> list[tuple[bytes, int]]:
        return [(name, self._numbered[number].count) for number, name in sorted(self.numbered(), key=itemgetter(1))]

    # Checkpoints

    def numbered(self) -> list[tuple[int, bytes]]:
        return [(consumer.number, consumer.name) for consumer in self._named.values() if consumer.count]

    def restore(self, names: dict[int, bytes], columns: list[array[int]]) -> None:
        """Load these numbers with the counts found in the columns; KeyError for a number that has no name."""
        self._numbered = {number: NumberedConsumer(name, number) for number, name in names.items()}
        self._named = {consumer.name: consumer for consumer in self._numbered.values()}
        for column in columns:
            for number in sorted({*column}):
                self._numbered[number].count += column.count(number)
        self._end = max(names, default=-1) + 1
        self._idle = len([consumer for consumer in self._named.values() if not consumer.count])

    def check(self) -> None:
        for name, consumer in self._named.items():
            assert consumer.name == name and self._numbered[consumer.number] is consumer, (
                f"{name!r} has no number of its own"
            )
            assert consumer.count >= 0, f"{name!r} holds {consumer.count}"
        idle = [consumer for consumer in self._named.values() if consumer.count == 0]
        assert len(idle) == self._idle, "the consumers that hold nothing are miscounted"
        assert len(self._named) == len(self._numbered), "a number has no consumer"
        used = [*self._numbered, *self._free]
        assert len({*used}) == len(used) and max(used, default=-1) < self._end, "a number is used twice"
