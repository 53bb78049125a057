"""The life of a region in its cluster: advances membership and starting over, and tells waiting clients the result.

Both depend on each other: a region that starts over seeks no admission meanwhile, and hands over groups once it is
admitted. So they are advanced together, after everything that may have changed what is due: a message, a tick, a sync.
"""

from __future__ import annotations

from crdtstream.core.applying import Applied
from crdtstream.replication.membership.leaving import Leaving
from crdtstream.replication.membership.lifecycle_events import Chronicle
from crdtstream.replication.membership.membership import Membership
from crdtstream.replication.membership.start_over import StartOver
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.values.states import IDLE, STAYING
from crdtstream.status.availability import Standing


class Life:
    """Keeps `standing.loading`, and `chronicle`, of which the runtime takes the events."""

    __slots__ = ("_applied", "_birth", "_fitted", "_leaving", "_membership", "_standing", "_start_over", "chronicle")

    def __init__(
        self,
        applied: Applied,
        standing: Standing,
        birth: Birth,
        membership: Membership,
        start_over: StartOver,
        leaving: Leaving,
    ) -> None:
        self._applied = applied
        self._standing = standing
        self._birth = birth
        self._membership = membership
        self._start_over = start_over
        self._leaving = leaving
        self.chronicle = Chronicle()
        self._fitted = -1

    def advance(self, now_ms: int) -> bool:
        """Do what is due; commands are rejected until this region has an origin and is ready. True if the origin was
        admitted just now.
        """
        # Both only grow.
        changes = self._birth.changes + self._applied.members.changes
        if changes != self._fitted:
            self._fitted = changes
            self._birth.bounds.fit(self._birth.counts)
        membership, start_over = self._membership, self._start_over
        if start_over.step == IDLE and self._leaving.step == STAYING and membership.is_settled():
            return False
        self._leaving.advance()
        before = membership.admitted
        start_over.advance(now_ms)
        membership.advance(now_ms)
        self._standing.loading = membership.waiting_for() or start_over.waiting_for()
        origin, is_ready = self._applied.origin, not self._standing.loading
        founds = origin in self._birth.founders
        self.chronicle.observe(origin, self._applied.members, founds, membership.admitted, is_ready)
        return membership.admitted and not before
