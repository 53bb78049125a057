"""What links have reported about members until membership has acted on it: each report is recorded here and drained
once.
"""

from __future__ import annotations

from crdtstream.core.values.causality import REGION_MAX
from crdtstream.replication.transfer.staging import Staging
from crdtstream.settings.config import NAME_CHARACTERS_MAX


class PeerReports:
    """Reports about this region's origin, about origins that leave, and a complete state."""

    __slots__ = ("_complete_state", "_deferrals", "_is_shared", "_leaving", "changes")

    def __init__(self) -> None:
        # Counts what membership may have to act on: it compares this number instead of asking for each report.
        self.changes = 0
        self._is_shared = False
        self._leaving: dict[int, int] = {}
        # Regions that defer the admission of this region's origin, with the origin whose signs of life they name.
        self._deferrals: dict[str, int] = {}
        self._complete_state: Staging | None = None

    def are_pending(self) -> bool:
        """True if membership has to act: an origin that two processes use, or origins that leave."""
        return self._is_shared or bool(self._leaving)

    def record_greeting(self) -> None:
        """Record that a peer greeted or left."""
        self.changes += 1

    # A peer sent effects of this region's origin that this process never made

    def record_shared(self) -> None:
        self._is_shared = True
        self.changes += 1

    def is_shared(self) -> bool:
        return self._is_shared

    def clear_shared(self) -> None:
        """Forget it: the region continues as another origin."""
        self._is_shared = False

    # Linked origins that leave, and the counter that this region must hold of each before it ends it

    def record_leaving(self, origin: int, through: int) -> None:
        self._leaving[origin] = through
        self.changes += 1

    def any_leaving(self) -> bool:
        return bool(self._leaving)

    def leaving_through(self, origin: int) -> int | None:
        """The counter up to which its effects must be here, 0 if it has made none; None if it does not leave."""
        return self._leaving.get(origin)

    def drop_leaving(self, origin: int) -> None:
        self._leaving.pop(origin, None)

    # Deferred admission

    def record_deferral(self, told_by: str, other: int) -> None:
        """Record that a peer defers the admission of this region's origin because of another one; with 0, no longer."""
        name = told_by[:NAME_CHARACTERS_MAX]
        self._deferrals.pop(name, None)
        if other and len(self._deferrals) <= REGION_MAX:
            self._deferrals[name] = other

    def deferrals(self) -> list[tuple[str, int]]:
        """The regions that defer the admission, by name, and the origin that each names."""
        return sorted(self._deferrals.items())

    # The complete state that is about to replace this region's state (membership/start_over.py)

    def record_state(self, state: Staging) -> None:
        self._complete_state = state

    def complete_state(self) -> Staging | None:
        return self._complete_state

    def drop_state(self) -> None:
        self._complete_state = None
