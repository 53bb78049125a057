"""The order in which SCAN visits keys: by a hash of the name, so that a cursor means the same place for ever.

The cursor is the hash of the next key to visit (0 begins, and ends), so a scan needs no state: not here, not after a
restart, not in another region. A key that is present from the first call to the last is returned, because its place
never moves; names of equal hash are returned together.

A `ScanOrder` keeps the sorted names of one database. Names of a replica are only ever added at the end of their dict,
which is how new ones are found; when the name that was last is not where it was, something left, and the order is
built anew.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice

from crdtstream.core.stream import Stream

Place = tuple[int, bytes]

HASH_BYTES = 6
INSERTED_MAX = 64


def place_of(name: bytes) -> Place:
    """Hashes begin at 1: cursor 0 is the beginning."""
    return (int.from_bytes(blake2b(name, digest_size=HASH_BYTES).digest(), "big") + 1, name)


class ScanOrder:
    """The names of one database, sorted by their places."""

    __slots__ = ("_last", "_places")

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._last = b""

    def follow(self, names: dict[bytes, Stream]) -> None:
        """Take in what was added to `names` since the last call."""
        fresh = len(names) - len(self._places)
        if fresh < 0 or (self._places and next(islice(reversed(names), fresh, None), None) != self._last):
            self._places = []
            fresh = len(names)
        if fresh:
            self._add(list(islice(reversed(names), fresh)))

    def _add(self, names: list[bytes]) -> None:
        """`names` are the newest first."""
        self._last = names[0]
        fresh = [place_of(name) for name in names]
        if len(fresh) <= INSERTED_MAX:
            for place in fresh:
                insort(self._places, place)
        else:
            self._places += fresh
            self._places.sort()

    def name_at(self, index: int) -> bytes:
        return self._places[index][1]

    def __len__(self) -> int:
        return len(self._places)

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        return page_of(self._places, cursor, count)

    def check(self, names: Iterable[bytes]) -> None:
        assert self._places == sorted(self._places), "places are not sorted"
        assert {name for _, name in self._places} == set(names), "the order lacks names, or knows names that left"


def page_of(places: list[Place], cursor: int, count: int) -> tuple[int, list[bytes]]:
    """About `count` names from the cursor on, and the next cursor: 0 when that was the end."""
    low = bisect_left(places, (cursor, b""))
    high = min(low + count, len(places))
    while 0 < high < len(places) and places[high][0] == places[high - 1][0]:
        high += 1
    following = places[high][0] if high < len(places) else 0
    return following, [name for _, name in places[low:high]]
