"""Which new regions found a cluster: those that have met all the others.

Nobody admits a founder before it does something, so everyone must count it by its birth. Hence no region founds before
it knows the births of all that may. A new region waits for all its configured peers; once it is born it tells which
regions they are, its neighbours, and passes on what others tell. These rows close when every region that a row names
has a row that names it back: then they are the whole cluster, and all of it is born. From there births travel ahead of
progress (session.py): whoever hears how far a founder is knows every birth that it knew.

A region that only one side configures closes no rows: it is admitted by that side. What was told before a restart is
told again; a row of a region's later origin replaces the earlier one's.

Reference: link-state flooding, as in OSPF (RFC 2328), which also uses no link that only one side has told.
"""

from __future__ import annotations

from collections.abc import Iterable

from crdtstream.core.causality import region_of

NeighbourRow = tuple[int, tuple[int, ...]]


class Founding:
    """Rows of (slot of an origin, regions of its configured peers); `changes` grows with every change."""

    __slots__ = ("_rows", "changes")

    def __init__(self) -> None:
        self._rows: dict[int, NeighbourRow] = {}
        self.changes = 0

    def tell(self, slot: int, regions: Iterable[int]) -> None:
        """This origin, born, has these neighbours."""
        region = region_of(slot)
        row = (slot, tuple(sorted(regions)))
        if row > self._rows.get(region, (0, ())):
            self._rows[region] = row
            self.changes += 1

    def rows(self) -> list[NeighbourRow]:
        return sorted(self._rows.values())

    def missing(self, region: int) -> list[int]:
        """The regions of the cluster around this one, as far as it is known, whose rows it lacks or that do not name
        back who names them; none when the rows have closed.
        """
        missing: dict[int, None] = {}
        near = [region]
        for one in near:
            if one not in self._rows:
                missing[one] = None
                continue
            for other in self._rows[one][1]:
                if other not in near:
                    near.append(other)
                if other in self._rows and one not in self._rows[other][1]:
                    missing[other] = None
        return sorted(missing)
