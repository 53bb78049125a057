"""All links of one region: a session for each, and what they share.

The sessions' batches meet in one inbox; what passes its gates is applied in the turn that is under way. Direct slots
are the current origins of the peers with an open session: their batches need no relay.

Two links between one pair of regions are the transport's to sort out; here each is a session of its own, and a batch
that comes twice is dropped.
"""

from __future__ import annotations

from crdtstream.config import Config
from crdtstream.core.causality import Origin, VersionVector, region_of
from crdtstream.core.entry_id import U64_MAX
from crdtstream.core.replica import Replica
from crdtstream.protocols import codec
from crdtstream.protocols.codec import BatchHeader, CodecError
from crdtstream.replication.audit import Audit
from crdtstream.replication.birth import Birth
from crdtstream.replication.founding import Founding
from crdtstream.replication.greeting import WireError, check_hello, make_hello, origin_of, refusal
from crdtstream.replication.handover import Handover
from crdtstream.replication.history import History
from crdtstream.replication.inbox import Inbox, InboxError
from crdtstream.replication.progress import ProgressTable
from crdtstream.replication.screening import screen_state
from crdtstream.replication.session import Session
from crdtstream.replication.snapshot import Snapshot
from crdtstream.replication.staging import Staging
from crdtstream.replication.transfer import Transfer, Transfers
from crdtstream.replication.turn import Turn
from crdtstream.replication.wire_pb2 import Audit as AuditMessage
from crdtstream.replication.wire_pb2 import Chunk, Hello, Message


class Exchange:
    """What the sessions of a region speak for."""

    def __init__(self, config: Config, replica: Replica, turn: Turn, history: History, birth: Birth) -> None:
        self.config = config
        self.history = history
        self.progress = ProgressTable()
        self.durable_vector = VersionVector()
        self.served_position = 0
        self.writable = True
        self._replica = replica
        self._turn = turn
        self._birth = birth
        self._inbox = Inbox()
        self._links: dict[int, Session] = {}
        self._names: dict[int, str] = {}
        self._unsynced_births: dict[int, int] = {}
        self._synced = 0
        self._ticked_ms = 0
        self.transfers = Transfers()
        self.staging: Staging | None = None
        self.notices: list[tuple[str, Exception | None]] = []
        self.audit = Audit(config.name, replica, self.notices)
        self._fetcher: Handover | None = None
        self._idle_ms = 0
        self._snapshots = 0

    # What a session asks of its region

    @property
    def origin(self) -> Origin | None:
        return self._birth.synced_origin()

    @property
    def vector(self) -> VersionVector:
        return self._replica.vector

    def origins(self) -> list[Origin]:
        """Every known birth but an own one that is not on disk yet."""
        own = self._birth.origin
        hidden = own is not None and self.origin is None
        return [origin for _, origin in sorted(self._birth.known.items()) if not (hidden and origin is own)]

    def direct_slots(self) -> list[int]:
        open_links = [session for session in self._links.values() if session.is_open]
        return sorted({session.peer_origin.slot for session in open_links if session.peer_origin is not None})

    def accept_birth(self, origin: Origin) -> str | None:
        conflict = self._birth.conflict(origin)
        if conflict is None:
            position = self._birth.accept(origin, self._turn)
            if position:
                self._unsynced_births[origin.slot] = position
        return conflict

    def awaits_births(self) -> bool:
        """A peer waits until the birth of its origin is on disk here."""
        return bool(self._unsynced_births)

    def birth_synced(self, slot: int) -> bool:
        return self._unsynced_births.get(slot, 0) <= self._synced

    def births_known(self) -> int:
        """How many are known; grows with each."""
        return len(self._birth.known)

    @property
    def founding(self) -> Founding:
        return self._birth.founding

    def confirm_birth(self, region: int, slot: int) -> None:
        self._birth.confirmed(region, slot)

    def hear_audit(self, region: int, name: str, heard: AuditMessage) -> None:
        self.audit.hear(region, name, heard)

    def due_audit(self, region: int) -> AuditMessage | None:
        return self.audit.due(region)

    def accept_batch(self, header: BatchHeader, payload: bytes, link: int) -> str | None:
        """Offer a batch to the inbox, and apply what passes."""
        if not self.writable:
            return f"region {self.config.name} has no room on its disk: it takes no batches until there is"
        if header.slot not in self._birth.known:
            return f"a batch of slot {header.slot} came from an origin that region {self.config.name} has not met"
        if self._birth.known[header.slot].nonce != header.nonce:
            return self._birth.conflict(origin_of(header.slot, header.nonce))
        if header.slot == self._birth.slot() and not self._replica.vector.contains(header.slot, header.last):
            return f"a batch of region {self.config.name} that it never made"
        try:
            self._inbox.offer(header, payload, self._replica.vector, link)
        except InboxError as error:
            return str(error)
        self._apply_passing()
        self._bound_waiting()
        return None

    def _bound_waiting(self) -> None:
        """Who brought most of what waits brought more than a sound peer's window, and begins anew by the vector."""
        limit = self.config.limits.inbox_bytes_max
        while self._inbox.held_bytes > limit:
            self._refuse([self._inbox.shed()], f"more than inbox_bytes_max = {limit} bytes wait for what they follow")

    def _apply_passing(self) -> None:
        """A batch may have waited, so what is wrong with it is the fault of the links that brought it, not of this."""
        arrival = self._inbox.next(self._replica.vector)
        while arrival is not None:
            try:
                self._turn.apply(arrival[1])
            except CodecError as error:
                self._refuse(arrival[2], str(error))
            arrival = self._inbox.next(self._replica.vector)

    def _refuse(self, links: list[int], reason: str) -> None:
        for link in links:
            session = self._links.get(link)
            if session is not None:
                session.refuse(reason)

    def bound_unfinished(self) -> str | None:
        """What all links put together by now may be too much."""
        limit = self.config.limits.batch_bytes_max
        if sum([session.unfinished_bytes for session in self._links.values()]) > limit:
            return f"more than batch_bytes_max = {limit} bytes of batches that are not whole"
        return None

    # States that are sent

    def take_snapshots(self) -> None:
        """Between turns, for the peers that wait for one: of what may be served, no less and no more."""
        last, log = self._turn.last_position, self.history.log
        if log is None or min(log.last_position, self.served_position) < last or not self._replica.is_settled():
            return
        for region in sorted(self.transfers.wanted):
            self._snapshots += 1
            snapshot = Snapshot(self._replica, self.origins())
            number = (self._birth.nonce() ^ (last << 8 | self._snapshots & 0xFF)) & U64_MAX
            self.transfers.begin(region, Transfer(number, last, snapshot))
            self._tell(f"a state transfer to region {region} begins")

    # A state that is fetched

    def claim_fetch(self, handover: Handover) -> bool:
        elsewhere = self.staging is not None and self.staging.region != handover.region
        if self.origin is None or not self.writable or elsewhere or self._fetcher is not None:
            return False
        self._fetcher = handover
        self._idle_ms = 0
        return True

    def is_fetching(self, handover: Handover) -> bool:
        return self._fetcher is handover

    def release_fetch(self, handover: Handover) -> None:
        if self._fetcher is handover:
            self._drop_staging("it is needed no more")

    def _drop_staging(self, reason: str) -> None:
        if self.staging is not None:
            self._tell(f"the state transfer from region {self.staging.region} is given up: {reason}")
        self.staging = None
        self._fetcher = None

    def staged(self) -> tuple[int, int]:
        return (0, 0) if self.staging is None else (self.staging.transfer, self.staging.next)

    def accept_chunk(self, handover: Handover, chunk: Chunk, now_ms: int) -> str | None:
        if not self.writable:
            return f"region {self.config.name} has no room on its disk: it takes no state until there is"
        staging = self.staging
        if chunk.index == 0 and (staging is None or staging.transfer != chunk.transfer):
            staging = self.staging = Staging(handover.region, chunk.transfer)
            self._tell(f"a state transfer from region {handover.region} begins")
        if staging is None or staging.transfer != chunk.transfer:
            return f"a chunk of a state that region {self.config.name} does not fetch"
        self._idle_ms = 0
        try:
            if staging.stage(chunk.index, chunk.payload):
                staged = codec.encode_staged(staging.region, staging.transfer, chunk.index, chunk.payload)
                self._turn.add(codec.STAGED, staged)
        except CodecError as error:
            self._drop_staging(str(error))
            return str(error)
        return self._join(staging, handover) if staging.is_done() else None

    def _join(self, staging: Staging, handover: Handover) -> str | None:
        """All chunks are here: the births first, then the state, as one."""
        state, own_slot = staging.state, self._birth.slot()
        try:
            screen_state(state, self._replica)
        except CodecError as error:
            self._drop_staging(str(error))
            return str(error)
        for origin in state.origins:
            conflict = self.accept_birth(origin)
            if conflict is not None:
                self._drop_staging(conflict)
                return conflict
        if not self._replica.vector.contains(own_slot, state.vector.get(own_slot)):
            self._drop_staging("it holds more of this origin than this region")
            return f"a state with effects of region {self.config.name} that it never made"
        brought = self._turn.join(staging.transfer, state)
        size = f"{len(state.streams)} keys in {staging.next} chunks, {staging.byte_count} bytes"
        news = "" if brought else ", nothing new"
        self._tell(f"the state transfer from region {staging.region} is joined: {size}{news}")
        self.staging = None
        self._fetcher = None
        handover.joined(state.vector)
        self._apply_passing()
        return None

    def _tell(self, text: str) -> None:
        self.notices.append((text, None))

    def restage(self, payload: bytes) -> None:
        """A chunk, from the log."""
        region, transfer, index, chunk = codec.decode_staged(payload)
        if self.staging is None or self.staging.transfer != transfer:
            self.staging = Staging(region, transfer)
        self.staging.stage(index, chunk)

    def rejoin(self, payload: bytes, position: int) -> None:
        """The join of what is staged, from the log."""
        transfer, gap = codec.decode_joined(payload)
        staging = self.staging
        if staging is None or staging.transfer != transfer or not staging.is_done():
            raise CodecError("a state is joined that was not staged")
        self._turn.rejoin(position, gap, staging.state, position)
        self.staging = None

    def end_replay(self) -> None:
        """A state that is whole brought nothing, or the torn tail took its join: who needs one asks anew."""
        if self.staging is not None and self.staging.is_done():
            self._drop_staging("it was not joined before the stop")

    def _tick_states(self, passed_ms: int) -> None:
        """A state that does not go on is let go; who was to send it on an open link begins again with a new one."""
        keep_ms = self.config.limits.transfer_keep_ms
        self.transfers.tick(self.greeted(), passed_ms, keep_ms)
        if self.staging is None and self._fetcher is None:
            return
        self._idle_ms += passed_ms
        if self._idle_ms >= keep_ms:
            reason = f"nothing of a state came for {keep_ms} ms"
            for session in self._links.values():
                if session.handover is self._fetcher:
                    session.closed = session.closed or reason
            self._drop_staging(reason)
            self._idle_ms = 0

    # Links

    def open(self, link_id: int, now_ms: int) -> None:
        self._links[link_id] = Session(self, now_ms, link_id)
        self._ticked_ms = self._ticked_ms or now_ms

    def close(self, link_id: int) -> None:
        session = self._links.pop(link_id, None)
        if session is not None and session.peer_region:
            self._names[session.peer_region] = session.peer_name
        if session is not None:
            self.audit.leave(session.peer_region)
            if session.handover is self._fetcher:
                self._fetcher = None

    def verdict(self, link_id: int) -> str | None:
        """Why a link is to be closed, or None."""
        session = self._links.get(link_id)
        return None if session is None else session.closed

    def end(self, reason: str, slots: list[int] | None = None) -> None:
        """Close the links to these origins, or all of them."""
        for session in self._links.values():
            slot = 0 if session.peer_origin is None else session.peer_origin.slot
            if session.closed is None and (slots is None or slot in slots):
                session.closed = reason

    def welcomes(self, hello: Hello) -> bool:
        """Whether a session with who greets so would open; asked before it takes another one's place."""
        own = make_hello(self.config, self.origin, self.origins(), self.vector, [])
        try:
            check_hello(hello)
            return refusal(own, hello) is None
        except WireError:
            return False

    def receive(self, link_id: int, message: Message, now_ms: int) -> None:
        session = self._links.get(link_id)
        if session is not None:
            session.receive(message, now_ms)
            self.progress.settle(self._replica.vector)

    def outgoing(self, link_id: int, bytes_max: int, now_ms: int) -> Message | None:
        session = self._links.get(link_id)
        return None if session is None else session.outgoing(bytes_max, now_ms)

    def tick(self, now_ms: int) -> None:
        """A turn that took long, or a process that was stopped, says nothing about the peers."""
        stalled_ms = now_ms - self._ticked_ms
        if self._ticked_ms and stalled_ms > self.config.limits.heartbeat_ms:
            for session in self._links.values():
                session.excuse(stalled_ms)
        self._ticked_ms = now_ms
        for session in self._links.values():
            session.tick(now_ms)
        self._tick_states(min(max(0, stalled_ms), self.config.limits.heartbeat_ms))
        self.audit.tick(now_ms, self.config.limits, self._linked_slots(), self.progress)

    def _linked_slots(self) -> dict[int, int]:
        """Region -> slot, of the open links to regions that have an origin."""
        found: dict[int, int] = {}
        for session in self._links.values():
            if session.is_open and session.peer_origin is not None:
                found[session.peer_region] = session.peer_origin.slot
        return found

    def synced(self, position: int, durable: VersionVector | None) -> None:
        """The log is durable up to a position, and with it what this vector covers."""
        self._synced = position
        if durable is not None:
            self.durable_vector.merge(durable)
        for slot in [slot for slot, needed in self._unsynced_births.items() if needed <= position]:
            del self._unsynced_births[slot]

    def stable(self) -> VersionVector:
        """What every member holds durably, this region included; a configured peer not heard of holds nothing."""
        born = self._birth.latest()
        if len([slot for slot in born if region_of(slot) != self.config.region]) < len(self.config.peers):
            return VersionVector()
        members = self._replica.members
        return members.stable(self._birth.slot(), self.durable_vector, born, self.progress.durable_of)

    # Showing

    def greeted(self) -> list[int]:
        """The regions that have said what they know."""
        return sorted({session.peer_region for session in self._links.values() if session.is_open})

    def sessions(self) -> list[Session]:
        """One for each region that has greeted, an open one before a closing one."""
        shown: dict[int, Session] = {}
        for session in self._links.values():
            if session.peer_region and (session.is_open or session.peer_region not in shown):
                shown[session.peer_region] = session
        return [shown[region] for region in sorted(shown)]

    def unlinked(self) -> list[int]:
        """The slots of the regions that are known and have no session here: heard of through others, or gone."""
        linked = {session.peer_region for session in self.sessions()}
        latest = {origin.region: slot for slot, origin in sorted(self._birth.known.items())}
        return [slot for region, slot in sorted(latest.items()) if region not in linked | {self.config.region}]

    def name_of(self, region: int) -> str:
        """What a region called itself on the last link to it that was closed; empty when there was none."""
        return self._names.get(region, "")

    def waiting(self) -> tuple[int, int]:
        """Batches that wait for others, and their bytes."""
        return self._inbox.waiting_count, self._inbox.waiting_bytes

    def check(self) -> None:
        self.progress.check()
        self.history.check()
        self._inbox.check()
        self.transfers.check()
        self.audit.check()
        if self.staging is not None:
            self.staging.check()
        for session in self._links.values():
            session.check()
