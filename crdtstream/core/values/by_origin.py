"""What a stream has of each origin, by origin.

Most streams have one origin, and a dictionary of one takes four times the memory of this: the first origin is kept
beside the dictionary of the others, which is made with the second one. Iteration keeps the order of insertion, as a
dictionary does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from crdtstream.core.values.causality import NO_ORIGIN

T = TypeVar("T")


class ByOrigin(Generic[T]):
    """A dictionary origin -> part that is small while it has one; `make` makes the part of an origin that has none."""

    __slots__ = ("_first", "_make", "_origin", "_others")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        # Of the first origin; there are others only if there is a first one.
        self._origin = NO_ORIGIN
        self._first: T | None = None
        self._others: dict[int, T] | None = None

    @staticmethod
    def of_dict(make: Callable[[], T], parts: dict[int, T]) -> ByOrigin[T]:
        made = ByOrigin(make)
        for origin, part in parts.items():
            made[origin] = part
        return made

    def as_dict(self) -> dict[int, T]:
        return dict(self.items())

    def get(self, origin: int) -> T | None:
        if origin == self._origin:
            return self._first
        others = self._others
        return None if others is None else others.get(origin)

    def of(self, origin: int) -> T:
        """The part of this origin, made if necessary."""
        first = self._first
        if origin == self._origin and first is not None:
            return first
        others = self._others
        found = None if others is None else others.get(origin)
        if found is None:
            found = self._make()
            self[origin] = found
        return found

    def __getitem__(self, origin: int) -> T:
        found = self.get(origin)
        if found is None:
            raise KeyError(origin)
        return found

    def __setitem__(self, origin: int, part: T) -> None:
        if origin == self._origin or self._origin == NO_ORIGIN:
            self._origin, self._first = origin, part
            return
        others = self._others
        if others is None:
            others = {}
            self._others = others
        others[origin] = part

    def __delitem__(self, origin: int) -> None:
        others = self._others
        if origin != self._origin:
            if others is None:
                raise KeyError(origin)
            del others[origin]
        elif others:
            self._origin = next(iter(others))
            self._first = others.pop(self._origin)
        else:
            self._origin, self._first = NO_ORIGIN, None

    def __contains__(self, origin: int) -> bool:
        return self.get(origin) is not None

    def __len__(self) -> int:
        others = self._others
        return 0 if self._origin == NO_ORIGIN else 1 if others is None else 1 + len(others)

    def __iter__(self) -> Iterator[int]:
        return iter([origin for origin, _ in self.items()])

    def items(self) -> list[tuple[int, T]]:
        """The origins and their parts, as of now."""
        first, others = self._first, self._others
        if first is None:
            return []
        return [(self._origin, first)] if others is None else [(self._origin, first), *others.items()]

    def values(self) -> list[T]:
        """The parts, as of now."""
        first, others = self._first, self._others
        if first is None:
            return []
        return [first] if others is None else [first, *others.values()]
