"""Handing over what this region has before it stops or leaves: no client writes any more, and peers take the rest.

What has to be handed over is fixed when draining begins, so that regions that go on writing do not prolong it. Effects
that this region still makes after that, such as acknowledgements that follow from those of others, other regions can
make as well.
"""

from __future__ import annotations

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector
from crdtstream.replication.exchange.exchange import Exchange
from crdtstream.status.availability import Standing

# The name of a region, its number, and how many effects it still lacks.
Lacking = tuple[str, int, int]


class Draining:
    """For a stop and for a leave: sets `standing.departing`, and knows who lacks how much of what this region had when
    that was set.
    """

    __slots__ = ("_exchange", "_replica", "_standing", "target")

    def __init__(self, replica: Replica, exchange: Exchange) -> None:
        self._replica = replica
        self._exchange = exchange
        self._standing: Standing = exchange.standing
        self.target = VersionVector()

    def begin(self, text: str) -> None:
        """From now on clients that write are told this text, and what there is has to be handed over."""
        self._standing.departing = text
        self.aim()

    def aim(self) -> None:
        """What there is now has to be handed over."""
        self._replica.acknowledge_all()
        self.target = self._replica.applied.vector.copy()

    def end(self) -> None:
        """Take writes again."""
        self._standing.departing = ""

    def is_draining(self) -> bool:
        return self._standing.departing != ""

    def is_linked(self) -> bool:
        """True while a peer that has greeted is linked."""
        return bool(self._exchange.greeted())

    def linked_lack(self) -> list[Lacking]:
        """The linked peers that have not said to have applied everything."""
        found: list[Lacking] = []
        for session in self._exchange.sessions():
            left = lacking(self.target, self._exchange.progress.applied_of(session.peer_origin))
            if session.is_open and left:
                found.append((session.peer_name, session.peer_region, left))
        return found


def lacking(target: VersionVector, other: VersionVector) -> int:
    """How many effects of the target the other vector does not cover."""
    return sum([counter - other.get(origin) for origin, counter in target.items() if counter > other.get(origin)])
