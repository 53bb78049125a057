"""What a stream has of each origin, by slot.

Most streams have one origin, and a dictionary of one takes four times the memory of this: the first origin is kept
beside the dictionary of the others, which is made with the second one. Iteration keeps the order of insertion, as a
dictionary does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from crdtstream.core.causality import NO_SLOT

T = TypeVar("T")


class ByOrigin(Generic[T]):
    """A dictionary slot -> part that is small while it has one; `make` makes the part of an origin that has none."""

    __slots__ = ("_first", "_make", "_others", "_slot")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        # Of the first origin; there are others only if there is a first one.
        self._slot = NO_SLOT
        self._first: T | None = None
        self._others: dict[int, T] | None = None

    @staticmethod
    def of_dict(make: Callable[[], T], parts: dict[int, T]) -> ByOrigin[T]:
        made = ByOrigin(make)
        for slot, part in parts.items():
            made[slot] = part
        return made

    def as_dict(self) -> dict[int, T]:
        return dict(self.items())

    def get(self, slot: int) -> T | None:
        if slot == self._slot:
            return self._first
        others = self._others
        return None if others is None else others.get(slot)

    def of(self, slot: int) -> T:
        """The part of this origin, made if necessary."""
        first = self._first
        if slot == self._slot and first is not None:
            return first
        others = self._others
        found = None if others is None else others.get(slot)
        if found is None:
            found = self._make()
            self[slot] = found
        return found

    def __getitem__(self, slot: int) -> T:
        found = self.get(slot)
        if found is None:
            raise KeyError(slot)
        return found

    def __setitem__(self, slot: int, part: T) -> None:
        if slot == self._slot or self._slot == NO_SLOT:
            self._slot, self._first = slot, part
            return
        others = self._others
        if others is None:
            others = {}
            self._others = others
        others[slot] = part

    def __delitem__(self, slot: int) -> None:
        others = self._others
        if slot != self._slot:
            if others is None:
                raise KeyError(slot)
            del others[slot]
        elif others:
            self._slot = next(iter(others))
            self._first = others.pop(self._slot)
        else:
            self._slot, self._first = NO_SLOT, None

    def __contains__(self, slot: int) -> bool:
        return self.get(slot) is not None

    def __len__(self) -> int:
        others = self._others
        return 0 if self._slot == NO_SLOT else 1 if others is None else 1 + len(others)

    def __iter__(self) -> Iterator[int]:
        return iter([slot for slot, _ in self.items()])

    def items(self) -> list[tuple[int, T]]:
        """The slots and their parts, as of now."""
        first, others = self._first, self._others
        if first is None:
            return []
        return [(self._slot, first)] if others is None else [(self._slot, first), *others.items()]

    def values(self) -> list[T]:
        """The parts, as of now."""
        first, others = self._first, self._others
        if first is None:
            return []
        return [first] if others is None else [first, *others.values()]
