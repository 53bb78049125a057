"""Which new regions found a cluster: those that have all met each other.

A founder is admitted by nobody before it makes effects, so every other region must count it because of its birth. Hence
no region may found before it knows the births of all other founders. A new region first waits for all its configured
peers, and until it has what they held when they greeted: they may belong to a cluster. Then it publishes their region
numbers, its neighbours, and relays what others publish. The rows are closed when every region named in a row has a row
that names the first one back: then they describe the whole cluster, and none of these regions belongs to another
cluster yet. From then on births are sent ahead of progress (session.py), so a region that holds a founder's vector also
knows every birth that the founder knew.

A region is new while its directory has been in no cluster, whatever it holds: one that served at once (`--incarnation`)
may have written. A new region that hears of a cluster founds none. It publishes a row without neighbours, which never
closes: regions of that cluster that seek admission by all learn from it that the region belongs to no other.

A region that only one side has configured never closes the rows: that side admits it instead. After a restart the rows
are sent again; a row of a region's later origin replaces that of the earlier one.

Reference: link-state flooding, as in OSPF (RFC 2328), which also uses no link that only one side has told.
"""

from __future__ import annotations

from collections.abc import Iterable

from crdtstream.core.values.causality import region_of

# Birth count and number of an origin, and the regions of its configured peers.
NeighbourRow = tuple[int, int, tuple[int, ...]]


class Founding:
    """A row for each region; `changes` counts every change."""

    __slots__ = ("_rows", "changes")

    def __init__(self) -> None:
        self._rows: dict[int, NeighbourRow] = {}
        self.changes = 0

    def record(self, origin: int, count: int, regions: Iterable[int]) -> None:
        """Record the neighbours of this origin."""
        region = region_of(origin)
        row = (count, origin, tuple(sorted(regions)))
        if row > self._rows.get(region, (0, 0, ())):
            self._rows[region] = row
            self.changes += 1

    def rows(self) -> list[NeighbourRow]:
        return sorted(self._rows.values())

    def origins(self) -> list[int]:
        return [origin for _, origin, _ in self.rows()]

    def missing(self, region: int) -> list[int]:
        """Return the regions that keep the rows around this region open: their row is missing, or does not name a
        region that names them. Empty when the rows are closed.
        """
        missing: dict[int, None] = {}
        near = [region]
        # `near` grows inside the loop: a breadth-first walk over the rows.
        for one in near:
            if one not in self._rows:
                missing[one] = None
                continue
            for other in self._rows[one][2]:
                if other not in near:
                    near.append(other)
                if other in self._rows and one not in self._rows[other][2]:
                    missing[other] = None
        return sorted(missing)
