"""The names of other regions, by number, also of those that this process never met.

A region tells its own with its Hello, and passes on those of others with the births of their origins. They are logged,
because after a start nobody else may be there to tell them: an operator evicts a region that is gone by its name.

A name belongs to the region's newest origin, as a region may start under another one. Of two names for one count, which
two processes of one region may give, the greater one stays, so that regions agree.
"""

from __future__ import annotations


class RegionNames:
    """The name of each region that was heard of, with the count of the origin that has it."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, str]] = {}

    def hear(self, region: int, count: int, name: str) -> bool:
        """Note a name; true if that is news. An empty one says nothing."""
        known = self._known.get(region, (-1, ""))
        if not name or (count, name) <= known:
            return False
        self._known[region] = (count, name)
        return name != known[1]

    def of(self, region: int) -> str:
        """Empty if it is not known."""
        return self._known.get(region, (-1, ""))[1]

    def rows(self) -> list[tuple[int, int, str]]:
        """Region, count and name of all that are known."""
        return [(region, *self._known[region]) for region in sorted(self._known)]
