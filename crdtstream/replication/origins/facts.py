"""What regions say of themselves, by number, also regions that this process never met: names, addresses, and the
highest format of batches that they read.

A region says it with its Hello, and passes on what others said with the births of their origins. It is logged, because
after a start nobody else may be there to repeat it: an operator evicts a region that is gone by its name, and a region
whose only configured peer is down dials the others at the addresses that it remembers. What needs a later format is not
written before all members read that format, because batches are relayed as they were logged: a region that cannot read
one can neither apply nor skip it.

A fact belongs to the region's newest origin, as a region may start under another one. Of two facts for one count, which
two processes of one region may give, the greater one stays, so that regions agree.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

T = TypeVar("T")

# Names of listeners ("redis", "http", "replication", ...) and the HOST:PORT at which others reach them, by name.
Addresses = tuple[tuple[str, str], ...]
REPLICATION: Final = "replication"


def address_at(addresses: Addresses, listener: str) -> str:
    """The address of one listener; empty if it was not announced."""
    return dict(addresses).get(listener, "")


class RegionDescription:
    """What a region says of itself; an empty name, no addresses and the format 0 say nothing."""

    __slots__ = ("addresses", "format_version", "name")

    def __init__(self, name: str = "", addresses: Addresses = (), format_version: int = 0) -> None:
        self.name = name
        self.addresses = addresses
        self.format_version = format_version


UNDESCRIBED: Final = RegionDescription()


class RegionFacts(Generic[T]):
    """One fact about each region that was heard of, with the count of the origin that it belongs to; a fact that equals
    `nothing` says nothing.
    """

    __slots__ = ("_known", "_nothing")

    def __init__(self, nothing: T) -> None:
        self._nothing = nothing
        self._known: dict[int, tuple[int, T]] = {}

    def record(self, region: int, count: int, fact: T) -> bool:
        """Keep a fact if it is newer; true if it says something else than before."""
        known = self.newest(region)
        if fact == self._nothing or (count, fact) <= known:
            return False
        self._known[region] = (count, fact)
        return fact != known[1]

    def newest(self, region: int) -> tuple[int, T]:
        """The count and the fact; -1 and `nothing` if it is not known."""
        return self._known.get(region, (-1, self._nothing))

    def of(self, region: int) -> T:
        return self.newest(region)[1]

    def rows(self) -> list[tuple[int, int, T]]:
        """Region, count and fact of all that are known."""
        return [(region, *self._known[region]) for region in sorted(self._known)]
