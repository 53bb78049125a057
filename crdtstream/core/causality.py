"""Origins, dots and version vectors.

An *origin* is one incarnation of a region's data directory. Its *slot*, `region + 256 * incarnation`, is its short name
and the key of every vector; a slot is never used twice, and the handshake refuses a slot that another nonce holds.

A *dot* `(slot, counter)` names one entry or one other effect. An origin's counters are contiguous from 1 and never
reused.

A *version vector* maps slot -> highest contiguous counter, **inclusive**: `vector.get(slot) == 5` covers counters 1 to
5; a slot that is absent stands for 0. Counters are 64-bit.

Reference: Preguiça et al., "Dotted version vectors" (2010); the two uses of a vector here, what is known and what an
effect had seen (its causal context), are the same type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

REGION_MAX: Final = 255
INCARNATION_MAX: Final = 255
SLOTS: Final = 65536

Dot = tuple[int, int]


class Origin:
    """One incarnation of a region's data directory; the nonce tells two that claim one slot apart."""

    __slots__ = ("incarnation", "nonce", "region", "slot")

    def __init__(self, region: int, incarnation: int, nonce: int) -> None:
        if not 1 <= region <= REGION_MAX:
            raise ValueError(f"region {region} is outside 1..{REGION_MAX}")
        if not 0 <= incarnation <= INCARNATION_MAX:
            raise ValueError(f"incarnation {incarnation} of region {region} is outside 0..{INCARNATION_MAX}")
        self.region = region
        self.incarnation = incarnation
        self.nonce = nonce
        self.slot = region + 256 * incarnation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin) and self.slot == other.slot and self.nonce == other.nonce

    def __hash__(self) -> int:
        return hash((self.slot, self.nonce))

    def __repr__(self) -> str:
        return f"Origin(region={self.region}, incarnation={self.incarnation}, nonce={self.nonce:#x})"


def region_of(slot: int) -> int:
    return slot % 256


def incarnation_of(slot: int) -> int:
    return slot // 256


class VersionVector:
    """slot -> highest contiguous counter, inclusive."""

    __slots__ = ("_counters",)

    def __init__(self, counters: dict[int, int] | None = None) -> None:
        self._counters: dict[int, int] = {} if counters is None else {s: c for s, c in counters.items() if c > 0}

    def get(self, slot: int) -> int:
        return self._counters.get(slot, 0)

    def contains(self, slot: int, counter: int) -> bool:
        return counter <= self._counters.get(slot, 0)

    def advance(self, slot: int, counter: int) -> None:
        """Raise one component; a lower counter changes nothing."""
        if counter > self._counters.get(slot, 0):
            self._counters[slot] = counter

    def next(self, slot: int) -> int:
        """Take the next counter of this slot."""
        counter = self._counters.get(slot, 0) + 1
        self._counters[slot] = counter
        return counter

    def descends(self, other: VersionVector) -> bool:
        """True when this vector covers all that the other covers (>=)."""
        mine = self._counters
        return all(mine.get(slot, 0) >= counter for slot, counter in other._counters.items())

    def merge(self, other: VersionVector) -> None:
        """Become the least upper bound of both."""
        for slot, counter in other._counters.items():
            self.advance(slot, counter)

    def meet(self, other: VersionVector) -> VersionVector:
        """The greatest lower bound of both."""
        return VersionVector({s: min(c, other.get(s)) for s, c in self._counters.items()})

    def copy(self) -> VersionVector:
        return VersionVector(self._counters)

    def items(self) -> Iterator[tuple[int, int]]:
        """(slot, counter) in slot order, so that nothing built from a vector depends on arrival order."""
        return iter(sorted(self._counters.items()))

    def slot_count(self) -> int:
        return len(self._counters)

    def slots_beyond(self, other: VersionVector) -> int:
        """How many slots the other does not name."""
        return len(self._counters.keys() - other._counters.keys())

    def total(self) -> int:
        """The sum of all counters: grows along every causal chain."""
        return sum(self._counters.values())

    def as_dict(self) -> dict[int, int]:
        return dict(sorted(self._counters.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VersionVector) and self._counters == other._counters

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._counters.items())))

    def __repr__(self) -> str:
        return f"VersionVector({self.as_dict()})"

    def check(self) -> None:
        for slot, counter in self._counters.items():
            assert 0 < slot < SLOTS, f"slot {slot} out of range"
            assert counter > 0, f"slot {slot} holds counter {counter}"
