"""One region, pure: commands, messages and ticks go in; records, replies and messages come out.

    in :  execute(client, argv, now_ms)   receive(link, message, now_ms)   tick(now_ms)
          synced(position)   writable(flag, removal_bytes, member_bytes)   reconfigure(config)   follow_shards(map)
    out:  ready() -> Ready | None         outgoing(link, bytes_max, now_ms) -> message | None

The runtime performs a Ready in the order of its fields, and that order is a contract: append the records, then send the
replies. With `fsync = always` the node itself holds replies, even of reads, until `synced` covers everything that they
may have seen. `synced` is the only source of durable progress. Outgoing messages are pulled: no peer makes a queue.

Life cycle: `recover` for each record of the log, then `start`, then turns, then `stop`. An unexpected exception of a
command that prepared nothing is an error for its client, and added to `notices`. After something was prepared, memory
and log may differ, so it leaves the node, and the next start rebuilds the state from the log.
"""

from __future__ import annotations

from crdtstream.bulk.stages import Stages
from crdtstream.connections.client import Client
from crdtstream.connections.cluster import ClusterPorts
from crdtstream.connections.context import Context
from crdtstream.connections.outputs import Messages, Outputs, Replies
from crdtstream.connections.saving import Backup
from crdtstream.connections.shards import ShardMap
from crdtstream.connections.statistics import Stopwatch
from crdtstream.core.effects import Key
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.members import Members
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.partitions.streams import PartitionedStreams
from crdtstream.protocols import codec
from crdtstream.protocols.log_port import LogReader, NewRecord
from crdtstream.protocols.manifest import Manifest, Milestone
from crdtstream.protocols.state_rows import StreamImage, capture_stream
from crdtstream.region.acknowledging import acknowledge_all
from crdtstream.region.checkpointing import manifest_at
from crdtstream.region.delivering import Delivering
from crdtstream.region.held_work import HeldWork
from crdtstream.region.peers import Neighbours
from crdtstream.region.retaining import Retaining
from crdtstream.region.serving import Serving
from crdtstream.replication.exchange.draining import Draining
from crdtstream.replication.exchange.exchange import Exchange
from crdtstream.replication.log.collecting import Collecting
from crdtstream.replication.log.history import History
from crdtstream.replication.log.turn import Turn
from crdtstream.replication.membership.contacts import Contacts
from crdtstream.replication.membership.leaving import Leaving
from crdtstream.replication.membership.lifecycle import Life
from crdtstream.replication.membership.lifecycle_events import Chronicle
from crdtstream.replication.membership.membership import Membership
from crdtstream.replication.membership.start_over import StartOver
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.values.states import ASKED
from crdtstream.replication.wire_pb2 import Hello, Message
from crdtstream.settings.config import ALWAYS, Config, Limits
from crdtstream.settings.live import Settings
from crdtstream.status.availability import Standing


class Ready:
    """What the runtime must do, in this order: append `records`, send `replies`, close the connections in `closing`.
    If `urgent`, a region waits for these records to be durable, so sync at once, whatever the policy. What was
    `published` here (channel, message) goes to the other shards of this region; none in a region of one shard.
    """

    __slots__ = ("closing", "published", "records", "replies", "urgent")

    def __init__(
        self, records: list[NewRecord], replies: Replies, closing: list[int], urgent: bool, published: Messages
    ) -> None:
        self.records = records
        self.replies = replies
        self.closing = closing
        self.urgent = urgent
        self.published = published


class Node:
    """The state machine of one region."""

    def __init__(self, config: Config, now_ms: int) -> None:
        self.settings = Settings(config)
        self.standing = Standing()
        self.replica = Replica(0)
        self.history = History()
        self.turn = Turn(self.replica, self.history)
        self.birth = Birth(config, self.replica)
        self.exchange = Exchange(self.settings, self.standing, self.replica, self.turn, self.history, self.birth)
        self.draining = Draining(self.replica, self.exchange)
        self.collecting = Collecting(self.replica.keyspace, self.turn)
        self.membership = Membership(self.replica, self.turn, self.birth, self.exchange)
        self.start_over = StartOver(self.replica, self.turn, self.birth, self.exchange, self.membership)
        self.leaving = Leaving(self.replica, self.birth, self.exchange, self.membership, self.draining)
        self.life = Life(
            self.replica.applied, self.standing, self.birth, self.membership, self.start_over, self.leaving
        )
        self.neighbours = Neighbours(self.exchange, self.birth, Contacts(config.peers, now_ms))
        self.notices = self.exchange.notices
        self.context = Context(self.settings, self.standing, self.replica, self._ports(), self.notices, now_ms)
        self.turn.witness = self.context.notifications
        self.held_work = HeldWork(self.context, self.exchange)
        self.outputs = Outputs(config.fsync == ALWAYS)
        self.serving = Serving(self.context, self.replica, self.outputs, self.notices)
        self.stages = Stages()
        self.partitions = PartitionedStreams(self.context, self.exchange)
        self.context.cluster.homes = self.partitions
        self.context.cluster.delivery = self.delivering = Delivering(self.exchange, self.context)
        self.retaining = Retaining(self.context, self.exchange, self.membership, self.delivering.hearing)
        self.saving = self.context.saving
        self.statistics = self.context.statistics
        self.clients = self.context.clients
        self.news = self.exchange.news
        self._synced = self._member_changes = 0

    def _ports(self) -> ClusterPorts:
        """What commands may ask of replication."""
        ports = ClusterPorts(self.exchange.progress, self.neighbours)
        ports.admission = self.membership
        ports.retention = self.neighbours
        ports.audit = self.exchange.audit
        ports.start_over = self.start_over
        ports.leaving = self.leaving
        return ports

    # Life cycle

    def recover(self, position: int, kind: int, payload: bytes) -> None:
        """Replay one record of the log, in order."""
        self.turn.last_position = position
        if kind == codec.BATCH:
            batch = codec.decode_batch(payload)
            self.replica.apply_batch(batch, position)
            self.history.record(position, batch.origin, batch.last, self.replica.applied.vector)
        elif kind == codec.LOCAL:
            facts, through = codec.decode_facts(payload)
            self.replica.applied.replay_facts(facts, through, position)
        elif kind == codec.STABLE:
            self.collecting.replay(payload)
        elif kind == codec.STAGED:
            self.exchange.fetching.restage(payload)
        elif kind == codec.JOINED:
            self.exchange.rejoin(payload, position)
        elif kind == codec.STARTED_OVER:
            self.start_over.replay(position, payload)
        elif kind == codec.HANDED_OVER:
            self.start_over.replay_handed_over(payload)
        else:
            self.replica.applied.drop_waiting_facts()
            self.birth.recover(kind, payload)

    @property
    def open_blocks(self) -> OpenBlockCache:
        return self.context.packing.open_blocks

    def restore(self, manifest: Manifest) -> None:
        """Load what a checkpoint has besides its keys, before `recover`; the keys go to `restore_key`."""
        self.turn.last_position = manifest.begun
        self.replica.applied.load(manifest.vector, manifest.contexts, Members.of_rows(manifest.members))
        self.history.restore(manifest.milestones)
        for kind, payload in manifest.records:
            if kind == codec.GAP:
                self.history.restore_gap(*codec.decode_gap(payload))
            elif kind == codec.BEGINNING:
                self.history.beginning = codec.decode_number(payload, "beginning")
            else:
                self.birth.recover(kind, payload)
        self.saving.saved(manifest.saved_ms, manifest.vector.total())

    def start(self, log: LogReader, seed: int, now_ms: int) -> None:
        """Call after the last record of the log: begin as a new origin, whose number is derived from the seed, and log
        that. Peers are served from `log`.
        """
        self.replica.applied.end_replay()
        self.exchange.end_replay()
        self.history.open(log, self.turn.last_position, self.replica.applied.vector)
        self.membership.start(seed, now_ms)
        self.start_over.resume()
        self._live()

    def drain(self, text: str) -> None:
        """Refuse writes of clients with this text from now on; `draining` knows what peers still lack."""
        self.draining.begin(text)
        self.context.pause.end()
        self.serving.wake_all()

    def stop(self) -> Ready:
        """The last turn: everything pending, and the mark of a clean stop, which the runtime syncs."""
        self._close_turn()
        self.turn.cut()
        self.turn.add(codec.STOP, b"")
        published = self.context.pubsub.drain_published()
        return Ready(self.turn.end(), self.outputs.drain(), sorted(self.context.clients), False, published)

    # Checkpoints

    def can_describe(self) -> bool:
        """True if a checkpoint may begin: staged chunks, and groups still to be handed over, are in the log alone."""
        return self.exchange.fetching.staging is None and not self.start_over.is_pending()

    def describe(self, segment_firsts: list[int]) -> Manifest:
        """What a checkpoint that begins now keeps besides its keys and files; call it between turns."""
        self.saving.describe(self.replica.applied.changes())
        begun = self.turn.last_position
        return manifest_at(begun, self.replica.applied, self.birth.records(), self.history, segment_firsts)

    def checkpoint_ended(self, saved_ms: int, failure: str) -> None:
        """A checkpoint is on disk, or it failed; the clients that wait for it are told."""
        self.saving.end(saved_ms, failure)
        self.serving.wake_keyless()

    def backup_ended(self, backup: Backup, failure: str = "") -> None:
        """A backup is whole, or it failed; the client that waits for it is told."""
        backup.failure, backup.done = failure, True
        self.serving.wake_keyless()

    @property
    def last_position(self) -> int:
        """The last log position, including all that turns have made so far."""
        return self.turn.last_position

    def is_settled(self) -> bool:
        return self.replica.is_settled()

    def awaits_blocks(self) -> bool:
        return bool(self.replica.changed.dirty) and self.replica.reads.on

    def names(self) -> list[tuple[int, list[bytes]]]:
        """The names of all keys, by database."""
        return [(number, list(database)) for number, database in enumerate(self.replica.keyspace.databases) if database]

    def image(self, key: Key) -> StreamImage:
        """Capture the key as it is now."""
        return capture_stream(key, self.replica.keyspace.databases[key[0]].get(key[1]), self.turn.last_position)

    def restore_key(self, key: Key, stream: Stream | None, position: int) -> None:
        self.replica.applied.restore(key, stream, position)

    def needed_position(self, milestones: list[Milestone], yields: bool = False) -> int:
        """The last of these milestones that every member has passed durably, or every one that is not long away."""
        replicated = self.neighbours.near() if yields else self.exchange.replicated()
        return max([position for position, vector in milestones if replicated.descends(vector)], default=0)

    def held_position(self) -> int:
        """The first log position still needed by peers that are receiving a state, or else the next position."""
        sent = self.exchange.transfers.first_position()
        return 1 + (self.turn.last_position if sent is None else sent)

    # Clients

    def connect(self, client_id: int, address: str, now_ms: int) -> Client:
        return self.serving.connect(client_id, address, now_ms)

    def disconnect(self, client_id: int) -> None:
        self.serving.disconnect(client_id)

    def execute(self, client_id: int, argv: list[bytes], now_ms: int) -> None:
        """Run one request; its reply comes with a later Ready, after those of the client's earlier requests."""
        self.execute_all(client_id, [argv], now_ms)

    def execute_all(self, client_id: int, requests: list[list[bytes]], now_ms: int, continues: bool = False) -> None:
        """Run requests that arrived together, in order; `continues`: `execute_bytes` has run those before them."""
        self.set_clock(now_ms)
        self.serving.execute(client_id, requests, continues)

    def execute_bytes(self, client_id: int, data: bytes, now_ms: int) -> int:
        """Run the requests at the beginning of these bytes that need not be parsed; returns where they end. The rest
        goes to a parser, and what that returns to `execute_all`. An earlier request must not have its end in the bytes.
        """
        self.set_clock(now_ms)
        return self.serving.execute_bytes(client_id, data)

    def is_behind(self) -> bool:
        """True if the next turn already has work."""
        return self.serving.is_behind()

    def behind_bytes(self) -> int:
        """The size of the requests that wait for the next turn."""
        return self.serving.behind_bytes()

    def refuse(self, client_id: int, reply: bytes) -> None:
        """Close the connection of a client that violated the protocol, after this reply."""
        self.serving.refuse(client_id, reply)

    def ended(self, client_id: int) -> None:
        """The client will send nothing more; it may still read replies that are due."""
        self.serving.end(client_id)

    # The bulk port

    def begin_slice(self, now_ms: int) -> None:
        """Call before a slice of work of the bulk port, which runs between two commands."""
        self.set_clock(now_ms)
        if self.replica.keyspace.deadlines.are_due(now_ms):
            self.serving.expire()

    def end_slice(self) -> None:
        """Call after a slice: clients that wait for a key or watch it learn of its change before the next command."""
        if self.context.parking.waiters or self.context.watches.by_key:
            self.serving.wake()

    # Questions of the runtime

    @property
    def limits(self) -> Limits:
        return self.settings.limits

    @property
    def chronicle(self) -> Chronicle:
        return self.life.chronicle

    def is_serving(self) -> bool:
        return self.membership.serving()

    def is_staging(self) -> bool:
        return self.exchange.fetching.staging is not None

    def welcomes(self, hello: Hello) -> bool:
        return self.exchange.welcomes(hello)

    # Reports from the runtime

    def time_with(self, stopwatch: Stopwatch) -> None:
        self.context.stopwatch = stopwatch

    def observe(self, memory_bytes: int, cpu_user_s: float, cpu_system_s: float) -> None:
        self.context.observe(memory_bytes, cpu_user_s, cpu_system_s)

    def reconfigure(self, config: Config) -> None:
        """The settings are these from now on; those that cannot change while a region runs are as before."""
        self.context.reconfigure(config)

    def follow_shards(self, shard_map: ShardMap) -> None:
        """Call before `start` in a region of several shards, and whenever the epoch of their map has risen."""
        self.context.shards = shard_map

    def receive_published(self, channel: bytes, message: bytes) -> None:
        """A client of another shard of this region published this; it goes out when the turn ends."""
        self.context.pubsub.publish(channel, message)

    def config_rewritten(self, failure: str) -> None:
        """The settings were written to their file, or the reason why not; the clients that wait for it are told."""
        self.context.requests.rewritten(failure)
        self.serving.wake_keyless()

    # Links

    def link_opened(self, link_id: int, dialled: bool, now_ms: int) -> None:  # noqa: ARG002 - of the LinkNode protocol
        self.exchange.open(link_id, now_ms)

    def peer_met(self, address: str, region: int) -> None:
        """A region answered at an address that is dialled; it greets on the link that is opened next."""
        self.membership.met(address, region)
        self.neighbours.contacts.record_answer(address, region)

    def peer_failed(self, address: str, reason: str) -> None:
        """A dial to that configured peer failed, or the link that it opened was closed, for this reason."""
        self.neighbours.contacts.record_failure(address, reason)

    def link_closed(self, link_id: int, reason: str, now_ms: int) -> None:
        region = self.exchange.close(link_id)
        if region:
            self.neighbours.contacts.record_end(region, reason, now_ms)
        self.neighbours.observe(now_ms)

    def link_verdict(self, link_id: int) -> str | None:
        return self.exchange.verdict(link_id)

    def receive(self, link_id: int, message: Message, now_ms: int) -> None:
        self.set_clock(now_ms)
        self.exchange.receive(link_id, message, now_ms)
        self._live()
        if self.replica.keyspace.named.met:
            self.serving.expire()
        if self.exchange.forwarding.arrived or self.partitions.held:
            self.partitions.serve_arrived()
        if self.context.parking.waiters:
            self.serving.wake()
            self.serving.wake_keyless()

    def outgoing(self, link_id: int, bytes_max: int, now_ms: int, apart: list[bytes] | None = None) -> Message | None:
        return self.exchange.outgoing(link_id, bytes_max, now_ms, apart)

    def _live(self) -> None:
        """Advance membership and starting over."""
        if self.life.advance(self.replica.keyspace.now_ms) and self.context.parking.waiters:
            self.serving.wake_keyless()

    # Turns

    def set_clock(self, now_ms: int) -> None:
        """Set the time if it is another; deadlines move with a clock that was set back, so nobody waits longer."""
        if now_ms < self.replica.keyspace.now_ms:
            self.context.set_back(now_ms)
        if now_ms != self.replica.keyspace.now_ms:
            self.context.clock.advance(now_ms)

    def reseed(self, seed: int) -> None:
        """Derive the number of the next origin, if there will be one, from this seed."""
        self.birth.reseed(seed)

    def tick(self, now_ms: int) -> None:
        """Advance time: deadlines, heartbeats, silent peers."""
        context = self.context
        self.set_clock(now_ms)
        context.statistics.sample(now_ms)
        limits = self.settings.limits
        if limits.client_idle_s_max:
            self.serving.close_idle(limits.client_idle_s_max * 1000)
        self.stages.sweep(now_ms, limits.bulk_stage_idle_s_max * 1000)
        self.exchange.tick(now_ms)
        self.partitions.tick(now_ms)
        self.delivering.tick(not self.standing.refusal(True, False))
        # What a checkpoint covers is not needed from a damaged log any more.
        self.saving.cover([f"{damage.file}:{damage.offset}" for damage in self.history.damages()])
        self._live()
        # After `_live`: a region that has just become ready deletes its expired keys before it serves anything.
        self.serving.expire()
        self.retaining.tick()
        self.held_work.tick()
        self.serving.expire_waiting()
        if self.membership.admitted:
            self._forget_stable(now_ms)
        elif self.replica.keyspace.collection.waiting or self.replica.keyspace.named.held:
            # Only an admitted origin may forget tombstones and names, so ask for the admission.
            self.membership.want()
        self.neighbours.tick(now_ms)

    def _forget_stable(self, now_ms: int) -> None:
        stable = self.exchange.stable()
        self.collecting.tick(now_ms, stable, self.settings.limits, self.standing.may_remove())
        self.replica.applied.members.forget(stable)
        self.replica.applied.forget_contexts(stable)

    def next_deadline_ms(self) -> int | None:
        return self.context.next_deadline_ms()

    def writable(self, flag: bool, removal_bytes: int = 0, member_bytes: int = 0) -> None:
        """False: the disk is full, so of what needs a log record only so much of what frees room is accepted."""
        standing = self.standing
        standing.writable, standing.removal_bytes, standing.member_bytes = flag, removal_bytes, member_bytes

    def ready(self) -> Ready | None:
        """End the turn; returns what to do, or None. The runtime yields to other work while `is_behind()`."""
        if self.membership.own.demand == ASKED:
            self._live()
            self.membership.own.end_turn()
            self.serving.wake_keyless()
        self._close_turn()
        records = self.turn.end()
        if self.exchange.forwarding.answers:
            self.exchange.forwarding.end_turn(self.turn.last_position)
        if self.exchange.transfers.wanted and not records:
            self.exchange.capture_snapshots()
        if records and not self.outputs.holds:
            self.exchange.view.served_position = self.turn.last_position
        replies = self.outputs.due(self.turn.last_position, self._synced)
        closing = self.serving.drain_closing() if self.context.leaving else []
        published = self.context.pubsub.drain_published() if self.context.shards is not None else []
        if not records and not replies and not closing and not published and not self.serving.is_behind():
            return None
        # An admission waits until the state that was replaced, or the members that changed, are durable.
        replaced, self.start_over.replaced = self.start_over.replaced, False
        changes, self._member_changes = self._member_changes, self.replica.applied.members.changes
        return Ready(records, replies, closing, replaced or changes != self._member_changes, published)

    def _close_turn(self) -> None:
        calls = self.delivering.calls
        if (calls.arrived or calls.waiting or calls.asked) and calls.advance():
            self.serving.wake_keyless()
        if self.context.parking.waiters:
            self.serving.wake()
        elif self.context.watches.by_key:
            self.context.drain_changes()
        else:
            self.replica.changed.drain_touched()
        self.serving.resume()
        if self.replica.changed.dirty:
            acknowledge_all(self.replica, self.context.deferred_work)

    def synced(self, position: int) -> None:
        """The log is durable up to this position."""
        if position <= self._synced:
            return
        self._synced = position
        if self.outputs.holds:
            self.exchange.view.served_position = position
        self.exchange.record_synced(position)
        self._live()

    def check(self) -> None:
        """Check the invariants of all parts; for tests and the simulator."""
        self.replica.check()
        assert self.replica.applied.vector.descends(self.exchange.view.durable_vector), "more is durable than applied"
        self.exchange.check()
        self.serving.check()
        self.stages.check()
        self.partitions.check()
