"""All links of one region: one session for each, and the state that the sessions share.

The batches of all sessions go through one inbox (arrivals.py). Direct origins are the current origins of the peers with
an open session: their batches need no relay.

If two links connect the same pair of regions, the transport decides which one stays. Here each link is a session of its
own, and a batch that arrives twice is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector, region_of
from crdtstream.core.values.entry_id import U64_MAX
from crdtstream.protocols import codec
from crdtstream.protocols.codec import CodecError
from crdtstream.replication.audit.audit import Audit
from crdtstream.replication.exchange.arrivals import Arrivals
from crdtstream.replication.exchange.dropped_progress import progress_dropped, tick_unheard
from crdtstream.replication.exchange.peer_reports import PeerReports
from crdtstream.replication.exchange.state_joining import StateJoining
from crdtstream.replication.exchange.unfinished_batches import bound_unfinished, tick_unfinished
from crdtstream.replication.links.forwarding import CallReplies
from crdtstream.replication.links.greeting import check_hello, make_hello, outgrown, refusal
from crdtstream.replication.links.handover import Handover
from crdtstream.replication.links.received import Heard
from crdtstream.replication.links.session import Refusal, Session
from crdtstream.replication.links.view import View
from crdtstream.replication.log.history import History
from crdtstream.replication.log.turn import Turn
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.origins.facts import RegionDescription
from crdtstream.replication.transfer.fetching import Fetching
from crdtstream.replication.transfer.sending import Transfer
from crdtstream.replication.transfer.snapshot import Snapshot
from crdtstream.replication.values.wire_values import WireError
from crdtstream.replication.wire_pb2 import BirthRow, Chunk, Hello, Message
from crdtstream.settings.live import Settings
from crdtstream.status.availability import Standing
from crdtstream.status.events import Notice

NEVER_MS: Final = 1 << 62
# A transfer for which there was no room is tried again after `transfer_keep_ms` divided by this.
RESTS: Final = 4


class Exchange:
    """Carries out what the sessions received; `view` is what they see of this region, and others may read it too."""

    def __init__(
        self, settings: Settings, standing: Standing, replica: Replica, turn: Turn, history: History, birth: Birth
    ) -> None:
        self.notices: list[Notice] = []
        self.news: list[Notice] = []
        self.audit = Audit(settings.config.name, replica, self.notices)
        self.fetching = Fetching(self.news)
        self.view = View(settings, replica, history, birth, self.fetching, self.audit)
        self.history = history
        self.birth = birth
        self.progress = self.view.progress
        self.transfers = self.view.transfers
        self.forwarding = self.view.forwarding
        self.standing = standing
        self._settings = settings
        self._replica = replica
        self._applied = replica.applied
        self._turn = turn
        self._life_ms = 0
        self.reports = PeerReports()
        self._links: dict[int, Session] = {}
        self.arrivals = Arrivals(settings, standing, replica, turn, self._links, self.news)
        self.joining = StateJoining(self.view, turn, self.arrivals, self.reports, self._links, self.news)
        # When the last open link to each region was closed.
        self._left_ms: dict[int, int] = {}
        self._ticked_ms = 0
        self._snapshots = 0

    # Heard

    def receive(self, link_id: int, message: Message, now_ms: int) -> None:
        session = self._links.get(link_id)
        if session is None:
            return
        if message.HasField("hello"):
            self.reports.record_greeting()
        if self.arrivals.holding.lack.lacking or not self.standing.writable or self.standing.memory_short:
            self.arrivals.holding.observe(now_ms)
        heard = session.receive(message, self.view, now_ms)
        if heard is None:
            return
        try:
            self._perform(session, link_id, heard, now_ms)
        except Refusal as refused:
            session.refuse(str(refused))
        except (WireError, CodecError) as error:
            session.refuse_unreadable(error, self._settings.config)
        if self.progress.awaiting:
            self.progress.recheck(self._applied.vector)

    def _perform(self, session: Session, link_id: int, heard: Heard, now_ms: int) -> None:
        """Order matters: a birth comes before the effects of that origin, and effects before the progress that covers
        them.
        """
        if heard.has_part:
            bound_unfinished(self._links.values(), self.view, self.arrivals.inbox.held_bytes)
        # Nobody can have more effects of this origin than it has made, unless another process continues as this origin.
        if heard.own_counter and not self._applied.vector.contains(self._applied.origin, heard.own_counter):
            self.reports.record_shared()
        for origin, count, regions in heard.neighbours:
            self.birth.founding.record(origin, count, regions)
        for row in heard.births:
            self._record_birth(row)
        if heard.batches and not self.view.frozen:
            for header, payload in heard.batches:
                if not self.arrivals.accept(header, payload, link_id):
                    self._refuse_own()
        if heard.rows:
            rows_max = self._settings.limits.progress_rows_max
            if self.progress.merge_rows(heard.rows, session.unheard, rows_max, now_ms):
                self.notices.append(progress_dropped(session, rows_max))
        if heard.audit is not None:
            self.audit.receive(session.peer_origin, session.peer_name, heard.audit)
        if heard.leaving is not None:
            self.reports.record_leaving(session.peer_origin, heard.leaving)
        if heard.deferred is not None:
            self.reports.record_deferral(heard.deferred.told_by, heard.deferred.other)
        if heard.chunk is not None:
            self._accept_chunk(session.handover, heard.chunk)
        for call in heard.calls:
            self.forwarding.receive_call(link_id, call.number, call.payload)
        for answer in heard.answers:
            self.forwarding.receive_answer(link_id, answer.number, answer.payload)

    def _record_birth(self, row: BirthRow) -> None:
        described = RegionDescription(row.name, tuple(sorted(row.addresses.items())), row.format_version_max)
        self.birth.receive(row.slot, row.count, self._turn, row.batch_bytes_max, described)
        if row.founder and self._may_found(row.slot):
            self.birth.found(row.slot, self._turn)

    def _may_found(self, origin: int) -> bool:
        """True if no origin of that region is known to be in a cluster; otherwise the founder has forgotten it. Effects
        alone tell of no cluster: a new region may serve at once.
        """
        known = {*self._applied.members.origins(), *self.birth.founders}
        return all(region_of(other) != region_of(origin) for other in known) or origin in self.birth.founding.origins()

    # Batches

    def _refuse_own(self) -> None:
        self.reports.record_shared()
        name = self._settings.config.name
        raise Refusal(f"region {name} received a batch of its own origin that its process never made")

    # States being sent

    def capture_snapshots(self) -> None:
        """Take the requested snapshots, between turns: exactly the state that peers may see, neither less nor more."""
        last, log = self._turn.last_position, self.history.log
        if log is None or min(log.last_position, self.view.served_position) < last or not self._replica.is_settled():
            return
        for peer in sorted(self.transfers.wanted):
            self._snapshots += 1
            snapshot = Snapshot(self._replica, self.birth.founders_left(), self.arrivals.deferred_work)
            # A receiver resumes by this number, so it must differ between origins, log positions and attempts.
            number = (self._applied.origin << 3 ^ (last << 8 | self._snapshots & 0xFF)) & U64_MAX
            self.transfers.begin(peer, Transfer(number, last, snapshot))
            text = f"a state transfer to region {region_of(peer)} begins"
            self.news.append(Notice("state-transfer-sent", text))

    # The state being fetched

    def _may_fetch(self, handover: Handover) -> bool:
        """True if no other link is fetching, and staged chunks of another region are of no further use."""
        fetching = self.fetching
        if self.arrivals.holding.lacking or fetching.rests or fetching.comparison is not None:
            return False
        if fetching.link is not None or self.view.frozen != handover.demanded:
            return False
        if fetching.staging is not None and fetching.staging.region != handover.region:
            if self._may_go_on(fetching.staging.region):
                return False
            fetching.abandon("its region no longer offers it")
        return True

    def _may_go_on(self, region: int) -> bool:
        """True if that region may still complete its staged state: it is away, or has a state that is needed."""
        near = [session for session in self._links.values() if session.is_open and session.peer_region == region]
        return not near or any(session.handover.is_needed for session in near)

    def _accept_chunk(self, handover: Handover, chunk: Chunk) -> None:
        """Stage a chunk, or keep it until there is room."""
        if not self.arrivals.holding.lacking and not self.fetching.waiting:
            self._stage(handover, chunk)
            return
        self.fetching.keep(chunk)
        if self.fetching.waiting_bytes > self._settings.limits.inbox_bytes_max:
            self._give_up_transfer()

    def _stage_waiting(self) -> None:
        """Go on with the chunks that waited for room."""
        session = None if self.fetching.link is None else self._links.get(self.fetching.link)
        while session is not None and session.is_open and self.fetching.link is not None:
            chunk = self.fetching.pop()
            if chunk is None:
                return
            try:
                self._stage(session.handover, chunk)
            except Refusal as refused:
                session.refuse(str(refused))

    def _give_up_transfer(self) -> None:
        """Let a transfer go for which there is no room; its peer is asked for what is missing once there is."""
        session = self.joining.session() if self.fetching.link is None else self._links.get(self.fetching.link)
        if session is not None:
            session.intake.drop()
        lacking = self.arrivals.holding.lacking or "memory for chunks that wait"
        self.fetching.give_up(lacking, self._settings.limits.transfer_keep_ms // RESTS)

    def _stage(self, handover: Handover, chunk: Chunk) -> None:
        fetching = self.fetching
        if not fetching.expects(chunk):
            return  # of a transfer that was abandoned here while this chunk was on its way
        try:
            staged = fetching.stage(handover.region, chunk)
            if staged:
                self._turn.add(codec.STAGED, staged)
            whole = fetching.whole(chunk.transfer)
            if whole is not None and self.view.frozen:
                self.reports.record_state(whole)
            elif whole is not None:
                self.joining.begin(whole, handover)
        except CodecError as error:
            fetching.abandon(str(error))
            raise Refusal(str(error)) from None

    def begin_again(self, position: int) -> None:
        """Start again after the state was replaced; the log describes the new state from this position on."""
        self.history.begin_again(position, self._applied.vector)
        self.view.durable_vector = VersionVector()
        self.fetching.end()
        self.arrivals.forget()
        self.view.assemblies.clear()
        self.transfers.drop_all()

    def rejoin(self, payload: bytes, position: int) -> None:
        """Repeat a join of staged chunks while the log is replayed."""
        transfer, gap = codec.decode_joined(payload)
        staging = self.fetching.whole(transfer)
        if staging is None:
            raise CodecError("a record joins a state that was not staged")
        self._turn.rejoin(position, gap, staging.state, position)
        self.fetching.end()

    def end_replay(self) -> None:
        """Drop a complete but unjoined state: it brought nothing new, or its join record was in the torn tail. If
        needed, the state is requested again.
        """
        staging = self.fetching.staging
        if staging is not None and staging.is_done():
            self.fetching.abandon("it was not joined before the stop")

    def _tick_states(self, passed_ms: int) -> None:
        limits, lacking = self._settings.limits, self.arrivals.holding.lacking
        tick_unfinished(self._links.values(), self.view, passed_ms)
        self.transfers.tick(self.view.direct, passed_ms, limits.transfer_keep_ms)
        self.joining.go_on()
        if self.fetching.waiting and not lacking:
            self._stage_waiting()
        keep_ms = min(limits.transfer_keep_ms, limits.peer_timeout_ms) if lacking else limits.transfer_keep_ms
        if not self.fetching.tick(passed_ms, keep_ms):
            return
        if lacking:
            self._give_up_transfer()
            return
        reason = f"no chunk of the state arrived for {keep_ms} ms"
        session = None if self.fetching.link is None else self._links.get(self.fetching.link)
        if session is not None:
            session.close(reason)
        self.fetching.abandon(reason)

    # Links

    def open(self, link_id: int, now_ms: int) -> None:
        self.listen(now_ms)
        self._links[link_id] = Session(self.view, now_ms, link_id)
        self._ticked_ms = self._ticked_ms or now_ms

    def stir(self, link_id: int, now_ms: int) -> None:
        if link_id in self._links:
            self._links[link_id].stir(now_ms)

    def close(self, link_id: int) -> int:
        """Remove a link; return the region that had greeted on it, or 0."""
        session = self._links.pop(link_id, None)
        self.reports.record_greeting()
        if session is None:
            return 0
        if session.peer_region:
            self._left_ms[session.peer_region] = self._ticked_ms
        self.reports.drop_leaving(session.peer_origin)
        self.audit.leave(session.peer_origin)
        self.fetching.leave(link_id)
        self.forwarding.leave(link_id)
        return session.peer_region

    def verdict(self, link_id: int) -> str | None:
        """Return why this link must be closed, or None if it may stay."""
        session = self._links.get(link_id)
        return None if session is None else session.closed

    def end(self, reason: str) -> None:
        """Close all links; a peer with a pending refusal still receives it first."""
        for session in self._links.values():
            session.leave(reason)

    def welcomes(self, hello: Hello) -> bool:
        """Return whether a session with this Hello would open; asked before the new link replaces an existing one."""
        own = make_hello(self._settings.config, self.birth, VersionVector(), [], self.view.versions)
        try:
            check_hello(hello)
        except WireError:
            return False
        return refusal(own, hello) is None

    def outgoing(self, link_id: int, bytes_max: int, now_ms: int, apart: list[bytes] | None = None) -> Message | None:
        session = self._links.get(link_id)
        if session is None:
            return None
        if self._applied.format_version and session.is_open:
            self._refuse_outgrown(session)
        self.view.direct = self.direct_origins()
        if self.view.lack is not self.arrivals.holding.told:
            self.view.lack = self.arrivals.holding.told
        handover = session.handover
        lacks = session.is_open and handover.is_needed and not handover.is_fetching(self.view)
        if lacks and handover.wants_fetch(self.view, now_ms) and self._may_fetch(handover):
            handover.begin_fetch(self.view)
        return session.outgoing(self.view, bytes_max, now_ms, apart)

    def _refuse_outgrown(self, session: Session) -> None:
        """Batches that the peer cannot read would stop the link without a reason."""
        known = self.birth.format_of(session.peer_region)
        reason = outgrown(session.peer_name, session.peer_region, known, self._applied.format_version)
        if reason is not None:
            session.refuse(reason)

    def direct_origins(self) -> list[int]:
        """The origins of the linked peers, ascending."""
        return sorted({session.peer_origin for session in self._links.values() if session.is_open})

    def tick(self, now_ms: int) -> None:
        """Advance time."""
        passed_ms, self._ticked_ms = now_ms - self._ticked_ms, now_ms
        self.listen(now_ms)
        self._raise_life(now_ms)
        for session in self._links.values():
            session.tick(now_ms, self._settings.limits.peer_timeout_ms)
        rows_max = self._settings.limits.progress_rows_max
        self.notices += tick_unheard(self._links.values(), self.progress, rows_max, now_ms)
        self.arrivals.tick(now_ms)
        self.forwarding.tick(now_ms)
        self.view.direct = self.direct_origins()
        # A stall of this process is not idle time of a transfer: count one heartbeat of it at most.
        self._tick_states(min(max(0, passed_ms), self._settings.limits.heartbeat_ms))
        self.audit.tick(now_ms, self._settings.limits, self.view.direct, self.progress)

    def listen(self, now_ms: int) -> None:
        """After a stall of this region (a long turn, a suspended process) the silence of others proves nothing."""
        stalled_ms = self.progress.listen(now_ms, self._settings.limits.heartbeat_ms)
        if stalled_ms:
            for session in self._links.values():
                session.excuse(stalled_ms)
            self._left_ms = {region: min(left_ms + stalled_ms, now_ms) for region, left_ms in self._left_ms.items()}

    def _raise_life(self, now_ms: int) -> None:
        """Raise this region's sign of life once per heartbeat, and at once if the clock was set back."""
        self.progress.set_back(now_ms)
        if not 0 <= now_ms - self._life_ms < self._settings.limits.heartbeat_ms:
            self._life_ms = now_ms
            self.view.life += 1

    def record_synced(self, position: int) -> None:
        """Record that the log is durable up to this position."""
        self.history.record_synced(position, self.view.durable_vector)

    def stable(self) -> VersionVector:
        """What every member holds durably, this region included; a configured peer never heard from holds nothing."""
        return self._held(self.progress.durable_of)

    def replicated(self) -> VersionVector:
        """The same, but with all that members have told of their disks: so much the log need not keep for them. What a
        member has beyond this region's vector keeps it from being stable, and may wait for room here, which only a
        shorter log may give.
        """
        return self._held(self.progress.told_of)

    def _held(self, durable_of: Callable[[int], VersionVector]) -> VersionVector:
        founders = self.birth.founders_left()
        members = self._applied.members
        # A region that was evicted is known, and no longer counts: its configured address keeps nothing back.
        met = [*founders, *members.joined(), *members.evicted()]
        known = {region_of(origin) for origin in met} | {self._settings.config.region}
        # `known` includes this region: at most as many as peers means that a configured one is missing.
        if len(known) <= len(self._settings.config.peers):
            return VersionVector()
        return members.stable(self._applied.origin, self.view.durable_vector, founders, durable_of)

    # Calls

    def ask(self, region: int, payload: bytes, now_ms: int, more_ms: int = 0, into: CallReplies | None = None) -> int:
        """Ask that region to carry out something, which may take so much longer; returns the number of the call. Its
        reply, None without a link, is for partitions, or goes `into` another list.
        """
        number, replies = self.forwarding.next_number(), self.forwarding.replies if into is None else into
        links = [link for link, one in self._links.items() if one.is_open and one.peer_region == region]
        if links:
            end_ms = now_ms + self._settings.limits.forward_timeout_ms + more_ms
            self.forwarding.ask(number, links[-1], payload, end_ms, replies)
        else:
            replies.append((number, None))
        return number

    # For display

    def greeted(self) -> list[int]:
        """The regions with an open session."""
        return sorted({session.peer_region for session in self._links.values() if session.is_open})

    def is_greeting(self) -> bool:
        """Return whether an open link is still waiting for the peer's Hello."""
        return any(session.is_greeting for session in self._links.values())

    def sessions(self) -> list[Session]:
        """One session for each origin that has greeted, by region; an open one is preferred over a closing one."""
        shown: dict[tuple[int, int], Session] = {}
        for session in self._links.values():
            key = (session.peer_region, session.peer_origin)
            if session.peer_origin and (session.is_open or key not in shown):
                shown[key] = session
        return [shown[key] for key in sorted(shown)]

    def counted(self) -> list[int]:
        """The other member origins: founders count before their Joins are here."""
        return self._applied.members.counted(self._applied.origin, self.birth.founders_left())

    def unlinked(self) -> list[int]:
        """The member origins without a session here; none of them belongs to a linked region."""
        linked = {session.peer_region for session in self.sessions()} | {self._settings.config.region}
        return [origin for origin in self.counted() if region_of(origin) not in linked]

    def unlinked_ms(self, region: int) -> int:
        """For how long that region has not been linked, without the stalls of this one; NEVER_MS if it never was. A
        link that one side keeps refusing counts too.
        """
        if region in self.greeted():
            return 0
        left_ms = self._left_ms.get(region)
        return NEVER_MS if left_ms is None else max(0, self._ticked_ms - left_ms)

    def name_of(self, region: int) -> str:
        """Empty if it is not known."""
        return self.birth.name_of(region)

    def waiting(self) -> tuple[int, int]:
        """The number of batches in the inbox, and their bytes."""
        return self.arrivals.inbox.waiting_count, self.arrivals.inbox.waiting_bytes

    def check(self) -> None:
        self.progress.check()
        self.history.check()
        self.arrivals.check()
        self.view.assemblies.check()
        self.transfers.check()
        self.audit.check()
        self.fetching.check()
        self.forwarding.check()
        for session in self._links.values():
            session.check()
