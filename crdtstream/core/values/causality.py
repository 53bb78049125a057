"""Origins, dots and version vectors.

An *origin* is one run of a region's process: every start of a process creates a new origin. It is a single number: the
region number in the lowest byte, and 53 random bits above it. So it is unique without coordination: even when
directories are copied or restored, or a region number is mistyped, every dot has exactly one author.

A *dot* `(origin, counter)` names one entry or one other effect. An origin's counters are contiguous from 1 and never
reused.

A *version vector* maps origin -> highest contiguous counter, **inclusive**: `vector.get(origin) == 5` covers counters 1
to 5, and an absent origin stands for 0. Counters are 64-bit.

A vector has two uses here with one type: what a region has applied, and what an effect had seen when it was prepared
(its causal context).

Reference: Preguiça et al., "Dotted version vectors" (2010).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

REGION_MAX: Final = 255
RANDOM_BITS: Final = 53
ORIGIN_MAX: Final = (1 << (RANDOM_BITS + 8)) - 1

# The origin of no origin.
NO_ORIGIN: Final = -1

Dot = tuple[int, int]


def origin_of(region: int, random_bits: int) -> int:
    """The origin of this region with these random bits; bits beyond `RANDOM_BITS` are dropped."""
    if not 1 <= region <= REGION_MAX:
        raise ValueError(f"region {region} is outside 1..{REGION_MAX}")
    return region + 256 * (random_bits % (1 << RANDOM_BITS))


def region_of(origin: int) -> int:
    return origin % 256


def is_origin(number: int) -> bool:
    return 0 < number <= ORIGIN_MAX and number % 256 != 0


def no_origins(numbers: Iterable[int]) -> list[int]:
    """Those of the numbers that are no origins."""
    return [number for number in numbers if not is_origin(number)]


def origin_name(origin: int) -> str:
    """The form for people and logs, `region.random`: the region number, then the random bits in hexadecimal."""
    return f"{region_of(origin)}.{origin >> 8:x}"


class VersionVector:
    """origin -> highest contiguous counter, inclusive.

    The component that was raised last is raised and asked for most, so it is kept outside the dictionary; inside it,
    each step would box two numbers, hash one and compare. A copy keeps nothing outside, so another thread may read it.
    """

    __slots__ = ("_ahead", "_counter", "_counters", "_origin")

    def __init__(self, counters: dict[int, int] | None = None) -> None:
        # Use `_all()`: the component of `_origin` may have been raised to `_counter`.
        self._counters: dict[int, int] = {} if counters is None else {s: c for s, c in counters.items() if c > 0}
        self._origin = NO_ORIGIN
        self._counter = 0
        self._ahead = False

    def _all(self) -> dict[int, int]:
        if self._ahead:
            self._counters[self._origin] = self._counter
            self._ahead = False
        return self._counters

    def get(self, origin: int) -> int:
        return self._counter if origin == self._origin else self._counters.get(origin, 0)

    def contains(self, origin: int, counter: int) -> bool:
        return counter <= self.get(origin)

    def advance(self, origin: int, counter: int) -> None:
        """Raise one component; a lower counter changes nothing."""
        if counter > self.get(origin):
            self._raise(origin, counter)

    def next(self, origin: int) -> int:
        """Take and return the next counter of this origin."""
        counter = self.get(origin) + 1
        self._raise(origin, counter)
        return counter

    def _raise(self, origin: int, counter: int) -> None:
        if origin != self._origin:
            self._all()
            self._origin = origin
        self._counter = counter
        self._ahead = True

    def drop(self, origin: int) -> None:
        self._all().pop(origin, None)
        self._origin, self._counter = NO_ORIGIN, 0

    def descends(self, other: VersionVector) -> bool:
        """True if this vector covers everything that `other` covers (>=)."""
        mine = self._all()
        for origin, counter in other._all().items():  # noqa: SIM110 (a generator takes three times as long)
            if mine.get(origin, 0) < counter:
                return False
        return True

    def admits(self, origin: int, first: int, context: VersionVector) -> bool:
        """True if a batch that starts at this counter is the origin's next one and its context is covered."""
        return first == self.get(origin) + 1 and self.descends(context)

    def merge(self, other: VersionVector) -> None:
        """Become the least upper bound of both vectors."""
        for origin, counter in other._all().items():
            if counter > self.get(origin):
                self._raise(origin, counter)

    def meet(self, other: VersionVector) -> VersionVector:
        """The greatest lower bound of both vectors."""
        return VersionVector({s: min(c, other.get(s)) for s, c in self._all().items()})

    def beyond(self, other: VersionVector) -> VersionVector:
        """The components of this vector that exceed the other's."""
        theirs = other._all()
        return VersionVector({s: c for s, c in self._all().items() if c > theirs.get(s, 0)})

    def copy(self) -> VersionVector:
        twin = VersionVector()
        twin._counters = self._all().copy()
        return twin

    def items(self) -> Iterator[tuple[int, int]]:
        """(origin, counter) with origins ascending, so that nothing built from a vector depends on arrival order."""
        return iter(sorted(self._all().items()))

    def origin_count(self) -> int:
        return len(self._all())

    def origins_beyond(self, other: VersionVector) -> int:
        """How many origins this vector names and `other` does not."""
        return len(self._all().keys() - other._all().keys())

    def total(self) -> int:
        """The sum of all counters; it grows along every causal chain, so it orders causally related events."""
        return sum(self._all().values())

    def as_dict(self) -> dict[int, int]:
        return dict(sorted(self._all().items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VersionVector) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._all().items())))

    def __repr__(self) -> str:
        return f"VersionVector({self.as_dict()})"

    def check(self) -> None:
        assert self._origin == NO_ORIGIN or self._all()[self._origin] == self._counter, "the kept component is stale"
        for origin, counter in self._all().items():
            assert is_origin(origin), f"{origin} is not an origin"
            assert counter > 0, f"origin {origin} holds counter {counter}"
