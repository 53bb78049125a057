"""Leaving the cluster: this region hands over what it has, and a peer ends its membership; then the process stops.

    staying     it is a member
    draining    it refuses writes of clients; every member must have on its disk what was here when this began
    ending      a linked peer is asked to end the membership
    left        a peer has done so, and has that on its disk: nobody waits for this region any more

A region does not evict itself. An eviction says up to which counter the creates of groups are valid, and who forgets
tombstones from then on without the evicted origin; both must be so for the evictor, and a region that comes back waits
for its evictor for that reason. So it asks a peer, and the peer needs no trust: it ends the origin that asks and no
other, once it holds all effects that the request names.

The membership of a region that stops in between does not end: it comes back as a new origin, and may leave again.

states.py has the events. Invariant: what the peer is asked to hold covers every group that this region created,
because none is created outside `staying`.
"""

from __future__ import annotations

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import region_of
from crdtstream.replication.exchange.draining import Draining, Lacking, lacking
from crdtstream.replication.exchange.exchange import Exchange
from crdtstream.replication.links.session import Session
from crdtstream.replication.membership.membership import Membership
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.values.states import (
    ABORTS,
    DRAINED,
    DRAINING,
    ENDED,
    ENDING,
    LEAVE,
    LEAVES,
    LEFT,
    STAYING,
    after,
)
from crdtstream.status.events import Notice

PROTOCOL = 3


class Leaving:
    """The leave of this region, whose state is `step`, and the end of peers that leave."""

    __slots__ = ("_birth", "_draining", "_ended_at", "_exchange", "_membership", "_replica", "step")

    def __init__(
        self, replica: Replica, birth: Birth, exchange: Exchange, membership: Membership, draining: Draining
    ) -> None:
        self._replica = replica
        self._birth = birth
        self._exchange = exchange
        self._membership = membership
        self._draining = draining
        # The evictor, and its counter when its eviction was here.
        self._ended_at = (0, 0)
        self.step = STAYING

    # Requests

    def begin(self) -> str:
        """Begin to leave; returns why that is impossible, or an empty text. A repetition changes nothing."""
        config = self._exchange.view.settings.config
        if self.step != STAYING:
            return ""
        if self._draining.is_draining():
            return f"region {config.name} is stopping: leave the cluster once it is back"
        if not self._membership.admitted:
            return f"region {config.name} is not admitted, so it has no membership to end: see CRDT.MEMBERS"
        if not self._helpers():
            return (
                f"no linked region can end the membership of region {config.name}: link it to a member that runs this"
                " release or a newer one; CRDT.REGIONS shows why peers are not linked"
            )
        self._pass(LEAVES)
        self._draining.begin(f"region {config.name} is leaving the cluster and takes no writes: use another region")
        self._report("begins to leave the cluster: it refuses writes")
        return ""

    def abort(self) -> str:
        """Stay after all; returns why that is impossible, or an empty text."""
        name = self._exchange.view.settings.config.name
        if self.step == STAYING:
            return f"region {name} is not leaving"
        if self.step != DRAINING:
            return f"a peer ends the membership of region {name} already: start the region again, and it comes back"
        self._pass(ABORTS)
        self._draining.end()
        self._report("stays in the cluster: it takes writes")
        return ""

    def lack(self) -> list[Lacking]:
        """The members that are not known to have everything on disk; a region whose name is not known has none."""
        if self.step != DRAINING:
            return []
        names = {session.peer_region: session.peer_name for session in self._exchange.sessions()}
        found: list[Lacking] = []
        for origin in self._others():
            region = region_of(origin)
            left = lacking(self._draining.target, self._exchange.progress.told_of(origin))
            if left:
                found.append((names.get(region) or self._exchange.name_of(region), region, left))
        return found

    # Steps

    def advance(self) -> None:
        """Do whatever is due."""
        if self._exchange.reports.any_leaving():
            self._end_leavers()
        if self.step == DRAINING and not self.lack() and self._helpers():
            self._pass(DRAINED)
            self._membership.leaves = True
            self._report("asks a peer to end its membership")
        if self.step == ENDING:
            self._ask()
            self._follow_end()

    def _end_leavers(self) -> None:
        """End the membership of linked origins that ask for it, and of earlier ones of their directories, once their
        effects are here: so none of their group creates is void.
        """
        if not self._membership.admitted or not self._exchange.standing.may_change_members():
            return
        members, vector = self._replica.applied.members, self._replica.applied.vector
        for session in self._exchange.sessions():
            origin = session.peer_origin
            through = self._exchange.reports.leaving_through(origin)
            if through is None or not session.is_open or not vector.contains(origin, through):
                continue
            self._exchange.reports.drop_leaving(origin)
            self._membership.say_admitted()
            for one in [*session.predecessors, origin]:
                if not members.is_evicted(one):
                    self._replica.evict_member(one)

    def _ask(self) -> None:
        """Ask a linked peer, and another one if it is lost."""
        helpers = [session.peer_origin for session in self._helpers()]
        own = self._birth.origin
        asked = self._exchange.view.leaving[0]
        if asked not in helpers and helpers:
            self._exchange.view.leaving = (helpers[0], self._draining.target.get(own))

    def _follow_end(self) -> None:
        members, own = self._replica.applied.members, self._birth.origin
        if not members.is_evicted(own):
            return
        if not self._ended_at[0]:
            evictor = members.evictors_of(own)[0]
            self._ended_at = (evictor, self._replica.applied.vector.get(evictor))
        evictor, counter = self._ended_at
        if any(self._exchange.progress.told_of(origin).contains(evictor, counter) for origin in self._others()):
            self._pass(ENDED)
            self._report("has left the cluster")

    def _helpers(self) -> list[Session]:
        """The linked peers that can end a membership."""
        members, founders = self._replica.applied.members, self._birth.founders
        found: list[Session] = []
        for session in self._exchange.sessions():
            origin = session.peer_origin
            admitted = origin in founders or members.is_admitted(origin) or members.sponsor_of(origin) is not None
            if session.is_open and session.protocol >= PROTOCOL and admitted and not members.has_ended(origin):
                found.append(session)
        return found

    def _others(self) -> list[int]:
        """The members of other regions."""
        own = self._birth.origin
        counted = self._replica.applied.members.counted(own, self._birth.founders_left())
        return [origin for origin in counted if region_of(origin) != region_of(own)]

    def _report(self, what: str) -> None:
        text = f"region {self._exchange.view.settings.config.name} {what}"
        self._exchange.news.append(Notice("leave", text))

    def _pass(self, event: str) -> None:
        """Every change of the step."""
        self.step = after(LEAVE, self.step, event)

    def has_left(self) -> bool:
        return self.step == LEFT
