"""Batches from all links: applied at once, or kept until what they lack is there: other batches, room, or spilled
blocks that they open (core/deferred_work.py). A batch that waits for blocks is not acknowledged and its link
stays; later batches of its origin, and those that depend on it, wait behind it, and others go on.

What is kept is bounded, and none of the bounds costs a correct peer its link. Beyond `inbox_bytes_max`, to which the
windows of many peers may add up, everything is dropped that came over the link that brought most; while the region
lacks room (holding.py), what exceeds a smaller bound is not kept. A peer is asked again for what was dropped once there
is room, or what waits may wait for that (retry_rounds.py), as after a change of its direct origins (`Links.restart`).
Of batches that wait for blocks alone, as much is kept besides, or one that is larger: were it dropped, what is read for
it would be gone when it comes again.
"""

from __future__ import annotations

from functools import partial

from crdtstream.core.deferred_work import DeferredWork
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import BatchHeader, CodecError
from crdtstream.replication.exchange.retry_rounds import Asking
from crdtstream.replication.links.session import Refusal, Session
from crdtstream.replication.log.holding import Holding
from crdtstream.replication.log.inbox import Inbox, InboxError
from crdtstream.replication.log.screening import ForgottenContext
from crdtstream.replication.log.turn import Turn
from crdtstream.settings.live import Settings
from crdtstream.status.availability import Standing
from crdtstream.status.events import Notice


class Arrivals:
    """What the links of a region bring; `links` are its sessions, by link."""

    __slots__ = (
        "_applied",
        "_asking",
        "_links",
        "_news",
        "_replica",
        "_settings",
        "_turn",
        "deferred_work",
        "drops",
        "holding",
        "inbox",
    )

    def __init__(
        self,
        settings: Settings,
        standing: Standing,
        replica: Replica,
        turn: Turn,
        links: dict[int, Session],
        news: list[Notice],
    ) -> None:
        self._settings = settings
        self._replica = replica
        self._applied = replica.applied
        self.deferred_work = DeferredWork(replica)
        self._turn = turn
        self._links = links
        self._news = news
        self._asking = Asking()
        self.inbox = Inbox()
        # How often something was dropped.
        self.drops = 0
        self.holding = Holding(settings, standing, news)

    def accept(self, header: BatchHeader, payload: bytes, link: int) -> bool:
        """Apply the batch if nothing is missing; otherwise keep it until its dependencies arrive, or room is there.
        False for one of this region's own that it never made.
        """
        own = self._applied
        if header.origin == own.origin and not own.vector.contains(header.origin, header.last):
            return False
        if self.holding.lack.lacking:
            self._hold(header, payload, link)
        # An empty inbox is the rule, and has only the gates of the vector.
        elif (
            self.inbox.passes(header, own.vector)
            if self.inbox.waiting_count
            else own.vector.admits(header.origin, header.first, header.context)
        ):
            self._apply(header, payload, [link])
        else:
            self._offer(header, payload, link)
        if self.inbox.waiting_count:
            self.apply_passing()
            self._bound_waiting()
        return True

    def _hold(self, header: BatchHeader, payload: bytes, link: int) -> None:
        if header.last <= self._applied.vector.get(header.origin):
            return
        session = self._links.get(link)
        if self.inbox.passes(header, self._applied.vector) and self._is_light(header, payload):
            self._apply(header, payload, [link])
        elif self.inbox.held_bytes + len(payload) <= self.holding.kept_bytes_max:
            self._offer(header, payload, link)
        elif session is not None:
            self._drop(session)

    def _is_light(self, header: BatchHeader, payload: bytes) -> bool:
        return self.holding.passes(self.holding.judge(header, payload), len(payload))

    def _offer(self, header: BatchHeader, payload: bytes, link: int) -> None:
        try:
            self.inbox.offer(header, payload, self._applied.vector, link)
        except InboxError as error:
            raise Refusal(str(error)) from None

    def apply_passing(self, bytes_max: int | None = None) -> None:
        """Apply what waits and lacks nothing any more; with a limit, until about so many bytes are applied."""
        gate = self.holding if self.holding.lacking else None
        waits = self.deferred_work.awaits if len(self.deferred_work) else None
        arrival = self.inbox.next(self._applied.vector, gate, waits)
        while arrival is not None:
            self._apply(*arrival)
            if bytes_max is not None:
                bytes_max -= len(arrival[1])
                if bytes_max <= 0:
                    return
            waits = self.deferred_work.awaits if len(self.deferred_work) else None
            arrival = self.inbox.next(self._applied.vector, gate, waits)

    def _apply(self, header: BatchHeader, payload: bytes, links: list[int]) -> None:
        """Apply a batch that passed the gates. It may have waited, so if it is invalid, the links that delivered it are
        closed and not the one whose message is being handled.
        """
        try:
            if not self._replica.reads.on:
                self._turn.apply(header, payload)
            elif not self.deferred_work.run(
                header.origin, partial(self._turn.apply, header, payload), self.apply_passing
            ):
                # Nothing of it was applied.
                self.inbox.put_back(header, payload, links, self._settings.limits.inbox_bytes_max)
        except ForgottenContext:
            self._need_state(header, links)
        except CodecError as error:
            self._refuse(links, str(error))

    def _run(self, header: BatchHeader, payload: bytes) -> bool:
        """Apply a batch that may need spilled blocks; false if it waits for them."""
        return self.deferred_work.run(header.origin, partial(self._turn.apply, header, payload), self.apply_passing)

    def _need_state(self, header: BatchHeader, links: list[int]) -> None:
        """Fetch a full state: the batch comes from an origin that ended long ago, out of a directory that was away. Its
        context is a difference to one that was forgotten here (`Replica.forget_contexts`), so the batch cannot be
        applied.
        """
        for session in [self._links[link] for link in links if link in self._links]:
            session.handover.need(VersionVector({header.origin: header.last}))

    def _refuse(self, links: list[int], reason: str) -> None:
        for link in links:
            session = self._links.get(link)
            if session is not None:
                session.refuse(reason)

    def _bound_waiting(self) -> None:
        """Shed waiting batches above `inbox_bytes_max`. Shedding one link may not suffice, since batches that other
        links delivered too are kept.
        """
        limit = self._settings.limits.inbox_bytes_max
        while self.inbox.held_bytes - self.inbox.spared_bytes > limit:
            session = self._links.get(self.inbox.shed())
            if session is not None:
                self._drop(session)

    def _drop(self, session: Session) -> None:
        session.intake.drop()
        self.drops += 1

    # Time

    def forget(self) -> None:
        """The state was replaced: what waits is sent again over new links."""
        self.inbox = Inbox()
        self.deferred_work = DeferredWork(self._replica, self.deferred_work.block_reads)

    def tick(self, now_ms: int) -> None:
        """Go on with what waited for room, a slice at a time, and ask for what was dropped."""
        limits = self._settings.limits
        self.holding.observe(now_ms)
        self.deferred_work.tick()
        if self.inbox.waiting_count:
            self.apply_passing(limits.message_bytes_max)
        self.holding.report(now_ms)
        if not self.holding.lacking:
            self._ask_again(now_ms)
        for session in self._links.values():
            self._report_lack(session, now_ms)

    def _ask_again(self, now_ms: int) -> None:
        dropped = [session.intake for session in self._links.values() if session.intake.dropped]
        if not dropped:
            self._asking.end()
        elif self._asking.is_due(self.inbox.held_bytes, self._applied.vector.total(), self._settings.limits, now_ms):
            for intake in dropped:
                intake.ask_again()

    def _report_lack(self, session: Session, now_ms: int) -> None:
        """Report that a peer lacks room, and that it has room again."""
        due = session.peer_lack.due(now_ms)
        peer = f"region {session.peer_name} ({session.peer_region})"
        if due:
            self._news.append(Notice("peer-lacks-room", f"{peer} lacks {due}: batches for it wait"))
        elif due is not None:
            self._news.append(Notice("peer-has-room", f"{peer} has room: it takes batches"))

    def check(self) -> None:
        self.inbox.check()
