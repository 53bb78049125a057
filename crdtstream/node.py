"""One region, pure: commands, messages and ticks go in; records, replies and messages come out.

    in :  execute(client, argv, now_ms)   receive(link, message, now_ms)   tick(now_ms)
          synced(position)   writable(flag)
    out:  ready() -> Ready | None         outgoing(link, bytes_max, now_ms) -> message | None

The runtime performs a Ready in the order of its fields, and that order is the law: append the records, then send the
replies. Under `fsync = always` the node itself holds replies, of reads too, until `synced` covers what they may have
seen. `synced` is the only source of durable progress. Outgoing messages are pulled, so a slow peer costs no queue.

A life: `recover` for each record of the log, then `start`, then turns, then `stop`.

A command that raises what it should not is answered with an error and told of in `notices`, as long as it had prepared
nothing. Where it had, memory and log may differ, so the exception leaves the node: the runtime appends nothing more,
and the next start rebuilds the state from the log.
"""

from __future__ import annotations

from collections import deque

from crdtstream.commands.context import Client, Context, Peer, TransferShown
from crdtstream.commands.outputs import Outputs, Replies
from crdtstream.commands.regions import LINK_TRANSFER
from crdtstream.commands.serving import Serving
from crdtstream.config import ALWAYS, Config
from crdtstream.core.causality import VersionVector, region_of
from crdtstream.core.members import Members
from crdtstream.core.replica import Replica
from crdtstream.protocols import codec
from crdtstream.protocols.manifest import Manifest, Milestone
from crdtstream.replication.birth import Birth
from crdtstream.replication.exchange import Exchange
from crdtstream.replication.history import History, LogReader
from crdtstream.replication.membership import Membership
from crdtstream.replication.session import Session
from crdtstream.replication.turn import Record, Turn
from crdtstream.replication.wire_pb2 import Message

NOT_LINKED = "none"


class Ready:
    """What a turn wants done, in this order: append `records`, send `replies`, close the connections in `closing`.

    `urgent`: somebody waits for these records to be durable, whatever the policy, so sync now.
    """

    __slots__ = ("closing", "records", "replies", "urgent")

    def __init__(self, records: list[Record], replies: Replies, closing: list[int], urgent: bool = False) -> None:
        self.records = records
        self.replies = replies
        self.closing = closing
        self.urgent = urgent


class Node:
    """One region's state machine."""

    def __init__(self, config: Config, now_ms: int) -> None:
        self.config = config
        self.replica = Replica(0)
        self.history = History()
        self.turn = Turn(self.replica, self.history)
        self.birth = Birth(config)
        self.exchange = Exchange(config, self.replica, self.turn, self.history, self.birth)
        self.membership = Membership(self.replica, self.turn, self.birth, self.exchange)
        self.context = Context(config.limits, self.replica, self.exchange.progress, now_ms)
        self.context.configure(config)
        self.context.retention = self.membership
        self.context.audit = self.exchange.audit
        self.notices = self.exchange.notices
        self.outputs = Outputs(config.fsync == ALWAYS)
        self.serving = Serving(self.context, self.replica, self.outputs, self.notices)
        self._marks: deque[tuple[int, VersionVector]] = deque()
        self._synced = 0
        self._effects_saving = 0

    # A life

    def recover(self, position: int, kind: int, payload: bytes) -> None:
        """One record of the log, in order."""
        self.turn.last_position = position
        if kind == codec.BATCH:
            self.replica.apply_batch(codec.decode_batch(payload), position)
            self.history.note(position, self.replica.vector)
        elif kind == codec.LOCAL:
            facts, through = codec.decode_facts(payload)
            self.replica.replay_facts(facts, through, position)
        elif kind == codec.STAGED:
            self.exchange.restage(payload)
        elif kind == codec.JOINED:
            self.exchange.rejoin(payload, position)
        else:
            self.replica.drop_waiting_facts()
            self.birth.recover(kind, payload)
            self.replica.slot = self.birth.slot()

    def restore(self, manifest: Manifest) -> None:
        """Before `recover`: what a checkpoint knows besides the keys, which go to the replica."""
        self.turn.last_position = manifest.begun
        self.replica.vector = manifest.vector
        self.replica.members = Members.of_rows(manifest.members)
        self.history.restore(manifest.milestones)
        for kind, payload in manifest.records:
            if kind == codec.GAP:
                self.history.restore_gap(*codec.decode_gap(payload))
            else:
                self.birth.recover(kind, payload)
        self.replica.slot = self.birth.slot()
        self.context.saving.saved(manifest.saved_ms)
        self.context.effects_saved = manifest.vector.total()

    def start(self, log: LogReader, boot_id: bytes, nonce: int, now_ms: int) -> None:
        """After the log's last record: decide which origin this is, and log that it starts; peers are served from
        `log`.
        """
        self.history.log = log
        self.replica.end_replay()
        self.exchange.end_replay()
        self._marks.append((self.turn.last_position, self.replica.vector.copy()))
        self.context.durable = self.exchange.durable_vector
        self.birth.start(boot_id, nonce, self.turn, self.membership.served())
        self._tell_birth()

    def stop(self) -> Ready:
        """The last turn: everything pending, and the mark of a clean stop, which the runtime syncs."""
        self._close_turn()
        self.turn.add(codec.STOP, b"")
        return Ready(self.turn.take(), self.outputs.take(), sorted(self.context.clients))

    # Checkpoints

    def can_describe(self) -> bool:
        """Chunks of a state that is not joined yet are in the log alone: a checkpoint would lose them."""
        return self.exchange.staging is None

    def describe(self, segment_firsts: list[int]) -> Manifest:
        """Between turns: what a checkpoint that begins now keeps besides the keys and its files."""
        begun = self.turn.last_position
        manifest = Manifest(begun, self.replica.vector.copy())
        self._effects_saving = manifest.vector.total()
        manifest.members = self.replica.members.rows()
        manifest.records = self.birth.records()
        manifest.records += [(codec.GAP, codec.encode_gap(position, gap)) for position, gap in self.history.gaps()]
        self.history.mark(begun + 1, manifest.vector)
        manifest.milestones = self.history.milestones_at([*segment_firsts, begun + 1])
        return manifest

    def checkpoint_ended(self, saved_ms: int, failure: str) -> None:
        """A checkpoint is on disk, or it failed; who waits for it is told."""
        self.context.saving.end(saved_ms, failure)
        if not failure:
            self.context.effects_saved = self._effects_saving
        self.serving.wake_keyless()

    def needed_position(self, milestones: list[Milestone]) -> int:
        """The last of these milestones that every member has passed durably: nobody needs what lies before it."""
        stable = self.exchange.stable()
        return max([position for position, vector in milestones if stable.descends(vector)], default=0)

    def held_position(self) -> int:
        """From here on the log is needed by peers that take a state just now; else where the next record goes."""
        sent = self.exchange.transfers.first_position()
        return 1 + (self.turn.last_position if sent is None else sent)

    # Clients

    def connect(self, client_id: int, address: str, now_ms: int) -> Client:
        return self.serving.connect(client_id, address, now_ms)

    def disconnect(self, client_id: int) -> None:
        self.serving.disconnect(client_id)

    def execute(self, client_id: int, argv: list[bytes], now_ms: int) -> None:
        """One request; its reply comes with a later Ready. Requests behind a parked one wait for it, those behind one
        that closes the connection are not heard.
        """
        self.execute_all(client_id, [argv], now_ms)

    def execute_all(self, client_id: int, requests: list[list[bytes]], now_ms: int) -> None:
        """Requests that came at once, one after the other."""
        self._set_clock(now_ms)
        self.serving.execute(client_id, requests)

    def refuse(self, client_id: int, reply: bytes) -> None:
        """A last reply to a client that broke the protocol; its connection closes behind it."""
        self.serving.refuse(client_id, reply)

    def ended(self, client_id: int) -> None:
        """The client will say nothing more; it may still read what it asked for."""
        self.serving.end(client_id)

    # What the runtime tells

    def observe(self, memory_bytes: int, cpu_user_s: float, cpu_system_s: float) -> None:
        """What the process uses now."""
        about = self.context.about
        about.memory_bytes = memory_bytes
        about.cpu_user_s, about.cpu_system_s = cpu_user_s, cpu_system_s
        self.context.measure_memory()

    def config_rewritten(self, failure: str) -> None:
        """The settings are in their file, or why not; who waits for it is told."""
        self.context.rewrite_wanted = False
        self.context.rewrite_failure = failure
        self.serving.wake_keyless()

    # Links

    def link_opened(self, link_id: int, dialled: bool, now_ms: int) -> None:
        self.exchange.open(link_id, now_ms)

    def peer_met(self, address: str, region: int) -> None:
        """That region greets from a configured peer's address."""
        self.birth.met(address, region)
        self._tell_birth()

    def link_closed(self, link_id: int, reason: str, now_ms: int) -> None:
        self.exchange.close(link_id)
        self._show_peers(now_ms)

    def link_verdict(self, link_id: int) -> str | None:
        """Why the link must be closed, or None."""
        return self.exchange.verdict(link_id)

    def receive(self, link_id: int, message: Message, now_ms: int) -> None:
        self._set_clock(now_ms)
        self.membership.hear(message)
        self.exchange.receive(link_id, message, now_ms)
        self._tell_birth()
        if len(self.context.parking):
            self.serving.wake()
            self.serving.wake_keyless()

    def outgoing(self, link_id: int, bytes_max: int, now_ms: int) -> Message | None:
        return self.exchange.outgoing(link_id, bytes_max, now_ms)

    def _tell_birth(self) -> None:
        """Once this region has an origin, it writes under that origin's slot; until then commands are refused."""
        self.membership.advance()
        self.context.loading = self.birth.waiting_for()
        self.context.applicant = self.membership.applies()
        self.context.origin = self.birth.origin

    def _show_peers(self, now_ms: int) -> None:
        linked = [linked_peer(session, now_ms) for session in self.exchange.sessions()]
        unlinked = [(region_of(slot), slot) for slot in self.exchange.unlinked()]
        named = [Peer(region, self.exchange.name_of(region), "", NOT_LINKED, 0, slot) for region, slot in unlinked]
        self.context.peers = sorted(linked + named, key=lambda peer: peer.region)

    # Turns

    def _set_clock(self, now_ms: int) -> None:
        """When the clock was set back, who waits goes on waiting no longer than it asked for."""
        if now_ms < self.context.now_ms:
            self.context.parking.shift(now_ms - self.context.now_ms)
            self.context.set_back_ms = now_ms
        self.context.now_ms = self.replica.now_ms = now_ms

    def tick(self, now_ms: int) -> None:
        """Time passes: deadlines, heartbeats, peers that went silent."""
        context = self.context
        self._set_clock(now_ms)
        context.statistics.sample(now_ms)
        self.exchange.config = context.config
        if context.limits.client_idle_s_max:
            self.serving.close_idle(context.limits.client_idle_s_max * 1000)
        self.serving.expire()
        self.serving.expire_waiting()
        self.exchange.tick(now_ms)
        self._heed_damage()
        self._tell_birth()
        if self.replica.collection.waiting and not context.loading:
            self.replica.collect(self.exchange.stable(), context.limits.collected_keys_max)
        self._show_peers(now_ms)

    def _heed_damage(self) -> None:
        """What a checkpoint holds is needed from the log no more, by a start and by peers that take a state."""
        known, damages = self.context.damages, self.history.damages()
        if len(known) < len(damages):
            known += [f"{damage.file}:{damage.offset}" for damage in damages[len(known) :]]
            self.context.saving.request()

    def next_deadline_ms(self) -> int | None:
        return self.context.parking.next_deadline_ms()

    def writable(self, flag: bool) -> None:
        """False: the disk has no room, so nothing that needs a record is taken, from clients or peers."""
        self.context.writable = flag
        self.exchange.writable = flag

    def ready(self) -> Ready | None:
        """What there is to do now; None when nothing is."""
        self._close_turn()
        records = self.turn.take()
        if self.exchange.transfers.wanted and not records:
            self.exchange.take_snapshots()
        if records:
            self._marks.append((self.turn.last_position, self.replica.vector.copy()))
            if not self.outputs.holds:
                self.exchange.served_position = self.turn.last_position
        replies = self.outputs.due(self.turn.last_position, self._synced)
        closing = self.serving.take_closing()
        if not records and not replies and not closing:
            return None
        return Ready(records, replies, closing, self.exchange.awaits_births() or self.birth.unsynced())

    def _close_turn(self) -> None:
        if len(self.context.parking):
            self.serving.wake()
            self.serving.resume()
        else:
            self.context.take_changes()
        self.replica.acknowledge_all()
        self.turn.cut()

    def synced(self, position: int) -> None:
        """The log is durable up to this position."""
        if position <= self._synced:
            return
        self._synced = position
        durable: VersionVector | None = None
        while self._marks and self._marks[0][0] <= position:
            durable = self._marks.popleft()[1]
        if self.outputs.holds:
            self.exchange.served_position = position
        self.birth.synced(position)
        self.exchange.synced(position, durable)
        self._tell_birth()

    def check(self) -> None:
        """All invariants of all parts; for tests and the simulator."""
        self.replica.check()
        self.exchange.check()
        self.context.parking.check()
        self.context.watches.check()


def linked_peer(session: Session, now_ms: int) -> Peer:
    slot = 0 if session.peer_origin is None else session.peer_origin.slot
    shown = session.handover.shown()
    link = session.state if shown is None else LINK_TRANSFER
    peer = Peer(session.peer_region, session.peer_name, "", link, session.silent_ms(now_ms), slot)
    peer.sent_bytes = session.sent_bytes
    if shown is not None:
        peer.transfer = TransferShown(*shown)
    return peer
