"""The order in which SCAN visits keys: by a hash of the name, so that a cursor keeps its meaning for ever.

The cursor is the place of the next key to visit (0 starts a scan, and ends it), so a scan needs no state: not here, not
after a restart, not in another region. A key that is present from the first call to the last is returned, because its
place never changes. Names with equal hashes are returned together.

Invariant: a `KeyOrder` holds the names of one database, sorted by place and name, in pages of at most `PAGE_NAMES_MAX`
(more only if all have one place). `_firsts` are lower bounds of the pages' places; the first is 0. A page that grows
too large is split, and two neighbours that together hold less than half a page are merged. So adding, removing and
reading touch one or two pages, and move pointers of one page or of the list of pages.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

HASH_BYTES: Final = 6
PAGE_NAMES_MAX: Final = 128


def place_of(name: bytes) -> int:
    """The place of a name; places start at 1, because cursor 0 means the beginning."""
    return int.from_bytes(blake2b(name, digest_size=HASH_BYTES).digest(), "big") + 1


class Page:
    """Names and their places, sorted by place."""

    __slots__ = ("names", "places")

    def __init__(self, places: array[int], names: list[bytes]) -> None:
        self.places = places
        self.names = names


class KeyOrder:
    """The names of one database, sorted by place."""

    __slots__ = ("_count", "_firsts", "_pages")

    def __init__(self) -> None:
        self._pages = [Page(array("Q"), [])]
        self._firsts = [0]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    # Changes

    def add(self, name: bytes) -> None:
        """Add a name that is not in the order yet."""
        place = place_of(name)
        number = self._page_at(place)
        page = self._pages[number]
        low, high = bisect_left(page.places, place), bisect_right(page.places, place)
        at = low if low == high else bisect_left(page.names, name, low, high)
        page.places.insert(at, place)
        page.names.insert(at, name)
        self._count += 1
        if len(page.names) > PAGE_NAMES_MAX:
            self._split(number)

    def remove(self, name: bytes) -> None:
        """Remove a name that is in the order."""
        place = place_of(name)
        number = self._page_at(place)
        page = self._pages[number]
        at = page.names.index(name, bisect_left(page.places, place))
        del page.places[at], page.names[at]
        self._count -= 1
        self._merge_around(number)

    def _page_at(self, place: int) -> int:
        return bisect_right(self._firsts, place) - 1

    def _split(self, number: int) -> None:
        """Split a page in the middle, but never between names of one place."""
        page = self._pages[number]
        places, names = page.places, page.names
        at = bisect_left(places, places[len(places) // 2])
        if at == 0:
            at = bisect_right(places, places[0])
        if at < len(places):
            self._firsts.insert(number + 1, places[at])
            self._pages.insert(number + 1, Page(places[at:], names[at:]))
            del places[at:], names[at:]

    def _merge_around(self, number: int) -> None:
        """Merge a page with the next one, or else with the previous one, if both together are small."""
        for left in (number, number - 1):
            if 0 <= left < len(self._pages) - 1:
                page, other = self._pages[left], self._pages[left + 1]
                if len(page.names) + len(other.names) < PAGE_NAMES_MAX // 2:
                    page.places += other.places
                    page.names += other.names
                    del self._pages[left + 1], self._firsts[left + 1]
                    return

    # Reading

    def names(self) -> list[bytes]:
        """All names in order: the same sequence in every region that has the same names."""
        found: list[bytes] = []
        for page in self._pages:
            found += page.names
        return found

    def read(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """About `count` names from the cursor on, and the next cursor: 0 at the end."""
        found: list[bytes] = []
        number = self._page_at(cursor)
        low = bisect_left(self._pages[number].places, cursor)
        while number < len(self._pages):
            page = self._pages[number]
            high = end_of(page.places, low + count - len(found))
            found += page.names[low:high]
            if high < len(page.places):
                return page.places[high], found
            number, low = number + 1, 0
        return 0, found

    def drawn(self, number: int) -> bytes | None:
        """The name that a large random number selects, every name with equal probability; None: draw again.

        At most three of four draws fail, because two neighbouring pages together hold at least half a page.
        """
        if len(self._pages) == 1:
            return self._pages[0].names[number % self._count] if self._count else None
        number, at = divmod(number, PAGE_NAMES_MAX)
        names = self._pages[number % len(self._pages)].names
        return names[at] if at < len(names) else None

    def check(self, names: Iterable[bytes]) -> None:
        places = [place for page in self._pages for place in page.places]
        known = [name for page in self._pages for name in page.names]
        assert places == [place_of(name) for name in known], "names are not at their places"
        pairs = list(zip(places, known, strict=True))
        assert pairs == sorted(pairs), "names are not sorted"
        assert sorted(known) == sorted(names), "the order and the database hold different names"
        assert self._count == len(known), "the count of names is wrong"
        for first, page, end in zip(self._firsts, self._pages, [*self._firsts[1:], 1 << 64], strict=True):
            assert all(first <= place < end for place in page.places), "a name is in the wrong page"
            assert len(page.names) <= PAGE_NAMES_MAX or len(set(page.places)) == 1, "a page is too large"


def end_of(places: array[int], high: int) -> int:
    """`high`, moved to the end of the names that share the place of the name before it."""
    if not 0 < high < len(places):
        return min(max(high, 0), len(places))
    return bisect_right(places, places[high - 1]) if places[high] == places[high - 1] else high
