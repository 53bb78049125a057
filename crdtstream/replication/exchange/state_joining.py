"""Joins a state once all of it has arrived: founders first, then all of its keys at once.

Where blocks are spilled, the state is compared with what is here first, a few blocks between two turns
(core/comparing.py), so that the join itself has few to read. Meanwhile the region goes on, without the link too over
which the state came; batches that follow the state wait in the inbox. After a stop the state is fetched again.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.comparing import StateComparison
from crdtstream.protocols.codec import CodecError
from crdtstream.replication.exchange.arrivals import Arrivals
from crdtstream.replication.exchange.peer_reports import PeerReports
from crdtstream.replication.links.handover import Handover
from crdtstream.replication.links.session import Refusal, Session
from crdtstream.replication.links.view import View
from crdtstream.replication.log.screening import screen_state
from crdtstream.replication.log.turn import Turn
from crdtstream.replication.transfer.staging import Staging
from crdtstream.status.events import Notice

COMPARES: Final = "comparison"


class StateJoining:
    """The joins of one region; `links` are its sessions, by link."""

    __slots__ = ("_arrivals", "_handover", "_link", "_links", "_news", "_reports", "_turn", "_view")

    def __init__(
        self,
        view: View,
        turn: Turn,
        arrivals: Arrivals,
        reports: PeerReports,
        links: dict[int, Session],
        news: list[Notice],
    ) -> None:
        self._view = view
        self._turn = turn
        self._arrivals = arrivals
        self._reports = reports
        self._links = links
        self._news = news
        # Of the state that is compared: its session's, and its link.
        self._handover: Handover | None = None
        self._link = 0

    def session(self) -> Session | None:
        """The session that brought the state which is compared, while its link is open."""
        return None if self._view.fetching.comparison is None else self._links.get(self._link)

    def begin(self, staging: Staging, handover: Handover) -> None:
        """Join this complete state, or compare it first."""
        view = self._view
        if not view.replica.reads.on:
            self._join(staging, handover)
            return
        self._handover, self._link = handover, view.fetching.link or 0
        view.fetching.compare(StateComparison(staging.state, view.replica.applied))
        self.go_on()

    def go_on(self) -> None:
        """Go on with the comparison, unless it waits for blocks; then join."""
        comparison, deferred_work = self._view.fetching.comparison, self._arrivals.deferred_work
        if comparison is None or deferred_work.awaits(COMPARES):
            return
        if comparison.done:
            # As the last chunk, it waits for room, and is given up if that lasts.
            if not self._arrivals.holding.lacking:
                self._join_compared()
        elif deferred_work.run(COMPARES, comparison.step, self.go_on):
            deferred_work.put_off(COMPARES, self.go_on)

    def _join_compared(self) -> None:
        staging, handover = self._view.fetching.staging, self._handover
        assert staging is not None and handover is not None
        self._handover = None
        session = self._links.get(self._link)
        self._arrivals.deferred_work.forget(COMPARES)
        try:
            self._join(staging, handover)
        except CodecError as error:
            self._view.fetching.abandon(str(error))
            if session is not None:
                session.refuse(str(error))
        except Refusal as refused:
            if session is not None:
                session.refuse(str(refused))

    def _join(self, staging: Staging, handover: Handover) -> None:
        view, state = self._view, staging.state
        applied, fetching = view.replica.applied, view.fetching
        screen_state(state, view.replica)
        for origin in state.founders:
            view.birth.found(origin, self._turn)
        if not applied.vector.contains(applied.origin, state.vector.get(applied.origin)):
            self._reports.record_shared()
            fetching.abandon("it holds effects of this origin that this process never made")
            name = view.settings.config.name
            raise Refusal(f"region {name} received a state with effects of its own origin that it never made")
        brought = self._turn.join(staging.transfer, state)
        size = f"{len(state.streams)} keys in {staging.next} chunks, {staging.byte_count} bytes"
        news = "" if brought else ", nothing new"
        text = f"the state transfer from region {staging.region} is joined: {size}{news}"
        self._news.append(Notice("state-transfer-joined", text))
        fetching.end()
        handover.record_joined(state.vector)
        self._arrivals.apply_passing()
