"""The partitioned streams of one region: which there are, which region is their home, and calls to them.

Every partition of a stream has the same home. A call that numbers messages or concerns a group is carried out there;
other regions forward it and read messages themselves. A process that becomes the home raises an epoch before it does
anything else: after a restart, at a takeover, and when a client has written higher IDs by Redis commands.

While the home cannot be reached, calls are refused and may be repeated. A region takes over when an operator says so,
or when it gets a call and has not been linked to the home for `takeover_ms`. What the former home numbered without
knowing of that is numbered again when it arrives.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from crdtstream.connections.cluster import Home
from crdtstream.connections.context import Context
from crdtstream.partitions.calls import (
    CallUnknown,
    HomeCall,
    HomeReply,
    LocateCall,
    LocateReply,
    PutCall,
    PutReply,
    RefusalReply,
    pack_call,
    pack_reply,
    refusal_of,
    unpack_call,
)
from crdtstream.partitions.coordinator import GroupMembership
from crdtstream.partitions.documents import Documents
from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.keys import stream_of, streams_key
from crdtstream.partitions.locating import epoch_of
from crdtstream.partitions.order import (
    BEHIND,
    Forwarded,
    HeldCall,
    HeldReply,
    OrderPeer,
    Unplaced,
    is_placed,
    must_wait,
    origins_of,
    told_vector_of,
)
from crdtstream.partitions.partition import Partition
from crdtstream.partitions.performing import (
    coordinate,
    fitting,
    partitions_of,
    put,
    require_answerable,
    require_batch_fit,
)
from crdtstream.partitions.refusing import require_removing, require_writable
from crdtstream.partitions.registers import Registers
from crdtstream.partitions.renumbering import ALIVE_MS, Share, known_regions
from crdtstream.partitions.served import Served
from crdtstream.partitions.shapes import CallMalformed
from crdtstream.partitions.specs import require_valid
from crdtstream.partitions.state import StreamState
from crdtstream.partitions.values import (
    INVALID,
    MOVED,
    UNKNOWN_STREAM,
    Ahead,
    PartitionMessage,
    Refused,
    StreamSpec,
)
from crdtstream.replication.links.forwarding import Forwarding
from crdtstream.replication.values.bounds import MESSAGE_BYTES_MAX
from crdtstream.replication.values.progress import ProgressTable

UPKEEP_MS: Final = 1_000
UPKEEPS_AWAITED: Final = 2


class Links(Protocol):
    """What is asked of the exchange."""

    forwarding: Forwarding
    progress: ProgressTable

    def ask(self, region: int, payload: bytes, now_ms: int) -> int: ...

    def counted(self) -> list[int]: ...

    def unlinked_ms(self, region: int) -> int: ...

    def sessions(self) -> Sequence[OrderPeer]: ...


class PartitionedStreams:
    """All partitioned streams of the region. `submit` carries out a call or forwards it, and `drain_replies` has what
    came of it.
    """

    __slots__ = (
        "_began_ms",
        "_context",
        "_forwarded",
        "_index",
        "_links",
        "_replica",
        "_replies",
        "_served",
        "_swept",
        "_unfinished",
        "_upkept_ms",
        "ahead",
        "documents",
        "held",
        "renumbered",
    )

    def __init__(self, context: Context, links: Links) -> None:
        self._context = context
        self._replica = context.replica
        self._links = links
        self._index = Registers(context.replica, streams_key())
        self.documents = Documents(context)
        self._served: dict[str, Served] = {}
        self._replies: list[tuple[int, HomeReply]] = []
        self._began_ms = 0
        self._upkept_ms = 0
        self.ahead = Ahead()
        self._swept = False
        # Calls that wait until the home may have them: see order.py.
        self.held: list[HeldCall] = []
        self._forwarded = Forwarded()
        # Streams in which the last turn has left stale messages to the next one, or retention waits for blocks.
        self._unfinished: set[str] = set()
        # Messages that this process has numbered again.
        self.renumbered = 0

    @property
    def _now_ms(self) -> int:
        return self._replica.keyspace.now_ms

    @property
    def _elapsed_ms(self) -> int:
        return self._context.clock.elapsed_ms

    # Streams

    def ids(self) -> list[str]:
        return sorted([name.decode() for name in self._index.names() if self._index.values(name)])

    def spec(self, stream_id: str) -> StreamSpec | None:
        found = self._index.latest(stream_id.encode())
        if found is None:
            return None
        partitions, _, retention_ms = found.partition(b" ")
        return StreamSpec(stream_id, int(partitions), int(retention_ms))

    def create(self, spec: StreamSpec) -> None:
        """Create the stream with this process as its home."""
        require_writable(self._context.standing)
        require_valid(spec)
        if self.spec(spec.id) is not None:
            raise Refused(INVALID, f"the stream {spec.id!r} exists already: choose another ID")
        self._index.write(spec.id.encode(), b"%d %d" % (spec.partitions, spec.retention_ms))
        self._served_of(spec.id).state.raise_epoch()

    def delete(self, stream_id: str) -> None:
        """Remove the stream, its messages and its groups."""
        require_removing(self._context.standing)
        served = self._served_of(stream_id)
        self._index.drop(stream_id.encode())
        served.state.clear()

    def take_over(self, stream_id: str) -> None:
        """Make this process the home, whichever process is."""
        require_writable(self._context.standing)
        self._served_of(stream_id).state.raise_epoch()

    def move_here(self, stream: bytes) -> str:
        """As `take_over`, for CRDT.TAKEOVER: returns why that is not possible, or an empty text."""
        try:
            self.take_over(stream.decode(errors="replace"))
        except Refused as refused:
            return refused.text
        return ""

    def home(self, stream_id: str) -> int:
        """The region that is the home; 0 while no epoch has arrived here."""
        return self._served_of(stream_id).state.home()

    def rows(self) -> list[Home]:
        return [self._row(stream_id) for stream_id in self.ids()]

    def _row(self, stream_id: str) -> Home:
        state = self._served_of(stream_id).state
        return Home(stream_id, state.spec.partitions, state.home(), state.epochs.current()[0])

    def _served_of(self, stream_id: str) -> Served:
        spec = self.spec(stream_id)
        if spec is None:
            # What was lost with a disk may still arrive.
            if self._context.standing.loading:
                require_writable(self._context.standing)
            raise Refused(UNKNOWN_STREAM, f"Unknown stream {stream_id}.")
        found = self._served.get(stream_id)
        if found is None:
            found = self._served[stream_id] = Served(self._replica, spec, self.ahead)
        return found

    # Reading, in any region

    def epoch(self, stream_id: str) -> Epoch:
        return self._served_of(stream_id).state.epochs.current()

    def knows(self, stream_id: str, epoch: Epoch) -> bool:
        """True if that epoch has arrived here."""
        return self._served_of(stream_id).state.epochs.knows(epoch)

    def state(self, stream_id: str) -> StreamState:
        """What is replicated of the stream besides its messages."""
        return self._served_of(stream_id).state

    def memberships(self, stream_id: str) -> dict[str, GroupMembership]:
        """The groups that this process has coordinated, by name; for checks."""
        served = self._served.get(stream_id)
        return {} if served is None else served.coordinator.memberships

    def clamp_offset(self, stream_id: str, partition: int, next_offset: int, epoch: Epoch) -> int:
        return self._served_of(stream_id).state.epochs.clamp_offset(partition, next_offset, epoch)

    def partition(self, stream_id: str, number: int) -> Partition:
        partitions = self._served_of(stream_id).state.partitions()
        if not 0 <= number < len(partitions):
            text = f"the stream {stream_id} has no partition {number}: use 0 to {len(partitions) - 1}"
            raise Refused(INVALID, text)
        return partitions[number]

    def read(
        self, stream_id: str, number: int, first: int, epoch: Epoch, count_max: int, bytes_max: int
    ) -> tuple[list[PartitionMessage], Epoch]:
        """The messages from this next offset on, which was reached under `epoch`, and the epoch that they were read
        under. Nothing while that epoch has not arrived here: at its offsets there may be messages that do not count.
        """
        partition, epochs = self.partition(stream_id, number), self._served_of(stream_id).state.epochs
        current = epochs.current()
        if current < epoch:
            return [], epoch
        return partition.read(epochs.clamp_offset(number, first, epoch), count_max, bytes_max), current

    # Calls

    def submit(self, call: HomeCall) -> int:
        """Carry out this call here, or forward it; returns its number, under which the reply will be."""
        number = self._links.forwarding.next_number()
        self._route(HeldCall(number, call, self._elapsed_ms + self._context.limits.forward_timeout_ms))
        return number

    def _route(self, held: HeldCall) -> None:
        """Carry it out, forward it, or keep it until it may be forwarded."""
        served = self._served_of(held.call.stream)
        home = served.state.home()
        is_question = isinstance(held.call, LocateCall)
        if home in (0, self._context.settings.config.region) or (not is_question and self._takes_over(home)):
            self._carry_out(served, held)
            return
        if not self._must_wait(served, home, held.call):
            self._forward(home, held)
        elif self._elapsed_ms < held.until_ms:
            self.held.append(held)
        else:
            self._replies.append((held.number, BEHIND))

    def _forward(self, home: int, held: HeldCall) -> None:
        payload = pack_call(held.call)
        bytes_max = self._links.forwarding.payload_max(home, self._context.limits.message_bytes_max)
        if len(payload) > bytes_max:
            text = f"a call to the home region is limited to {bytes_max} bytes: send fewer messages at once"
            raise Refused(INVALID, text)
        self._forwarded.record(self._links.ask(home, payload, self._now_ms), held)

    def _carry_out(self, served: Served, held: HeldCall) -> None:
        try:
            self._replies.append((held.number, self._perform(served, held.call)))
        except Unplaced:
            if self._elapsed_ms >= held.until_ms:
                raise
            self.held.append(held)

    def _must_wait(self, served: Served, home: int, call: HomeCall) -> bool:
        homes, vector = origins_of(self._links.sessions(), home), self._replica.applied.vector
        return must_wait(served.state, call, homes, self._links.progress, vector, served.homes_heard)

    def _release(self) -> None:
        """Look again at the calls that wait."""
        waiting, self.held = self.held, []
        for held in waiting:
            try:
                self._route(held)
            except Refused as refused:
                self._replies.append((held.number, refusal_of(refused)))

    def _takes_over(self, home: int) -> bool:
        """True if the home has been silent for so long that this region becomes the home."""
        after_ms = self._context.limits.takeover_ms
        silent_ms = min(self._links.unlinked_ms(home), self._elapsed_ms)
        return after_ms > 0 and self._began_ms > 0 and silent_ms > after_ms

    def drain_replies(self) -> list[tuple[int, HomeReply]]:
        """The replies that came since the last call of this method, each with the number of its call."""
        found = self._replies
        self._replies = []
        for asked, payload in self._links.forwarding.drain_replies():
            self._forwarded.receive(asked, payload)
        return found + self._forwarded.drain(self._elapsed_ms, self._is_here)

    def _is_here(self, reply: HeldReply) -> bool:
        """True if this region has the messages that the reply tells of, and none is to be numbered again."""
        stream_id = reply.held.call.stream
        if self.spec(stream_id) is None:
            return True
        partitions = self._served_of(stream_id).state.partitions()
        applied = self._replica.applied.vector.contains(*reply.told.dot)
        return applied and is_placed(reply.told, reply.reply.stamps, partitions)

    def serve_arrived(self) -> None:
        """Carry out the calls that other regions have forwarded here, and forward those that have waited."""
        if self.held:
            self._release()
        forwarding = self._links.forwarding
        for call in forwarding.drain_arrived():
            bytes_max = forwarding.reply_max(call.link, self._context.limits.message_bytes_max)
            forwarding.answer(call, fitting(pack_reply(self._serve(call.payload, bytes_max)), bytes_max))
            self._replica.budget.ease()

    def _serve(self, payload: bytes, bytes_max: int = MESSAGE_BYTES_MAX) -> HomeReply:
        """What another region gets for this call; it may send anything."""
        try:
            return self._answer(unpack_call(payload), bytes_max)
        except Refused as refused:
            return refusal_of(refused)
        except CallUnknown as unknown:
            return RefusalReply(INVALID, f"the home region does not know the call {unknown}: it runs another version")
        except CallMalformed as malformed:
            return RefusalReply(INVALID, f"the home region cannot read the call: {malformed}")

    def _answer(self, call: HomeCall, bytes_max: int) -> HomeReply:
        served = self._served_of(call.stream)
        if served.state.home() != self._context.settings.config.region:
            raise Refused(MOVED, f"the home of the stream is region {served.state.home()} now: try again")
        require_answerable(call, bytes_max)
        reply = self._perform(served, call)
        if isinstance(reply, PutReply):
            return PutReply(reply.stamps, told_vector_of(self._replica, served.state.epochs.current()[0]))
        return reply

    def misses_regions(self) -> bool:
        """True if a region is known and not linked: it may have what is not known here."""
        known = known_regions(self._replica, self._links.counted())
        return not known <= {one.peer_region for one in self._links.sessions() if one.is_open}

    def _perform(self, served: Served, call: HomeCall) -> HomeReply:
        if isinstance(call, LocateCall):
            partition = self.partition(call.stream, call.partition)
            return LocateReply(epoch_of(served.state, partition.number, call.offset, not self.misses_regions()))
        require_writable(self._context.standing)
        if not served.state.is_numbering():
            served.state.raise_epoch()
        if isinstance(call, PutCall):
            self._place(served, partitions_of(served.state, call.messages))
            require_batch_fit(self._replica.budget, call.messages)
            return PutReply(put(served.state, call.messages), None)
        return coordinate(served.coordinator, call)

    def _place(self, served: Served, partitions: list[Partition]) -> None:
        """Number again what a change of the line made stale, before anything else is numbered in these partitions."""
        epochs, share = served.state.epochs, Share()
        for one in [one for one in partitions if served.placed.get(one.number) is not epochs]:
            if one.has_unplaced() and not self._renumber_some(served, one, share):
                self._unfinished.add(served.state.spec.id)
                raise Unplaced
            served.placed[one.number] = epochs

    def _renumber_some(self, served: Served, partition: Partition, share: Share) -> bool:
        before = share.messages_left
        finished = served.renumber(partition, share, self._began_ms, self._links)
        self.renumbered += before - share.messages_left
        return finished

    # Upkeep

    def tick(self, now_ms: int) -> None:
        """At the home: number stale messages again, remove what is older than the retention, drop unused groups. While
        the disk is full, only remove; while clients are paused, nothing.
        """
        self._began_ms = min(self._began_ms or now_ms, now_ms)
        self._upkept_ms = min(self._upkept_ms, now_ms)
        if self.held:
            self._release()
        standing = self._context.standing
        if not standing.may_remove() or standing.loading or standing.paused:
            return
        if now_ms - self._upkept_ms >= UPKEEP_MS:
            self._upkept_ms = now_ms
            self._keep_all_up(now_ms, self.ids())
            self._clear_deleted()
        elif self._unfinished:
            self._keep_all_up(now_ms, [one for one in self.ids() if one in self._unfinished])

    def _keep_all_up(self, now_ms: int, ids: list[str]) -> None:
        if not self._swept:
            self._sweep()
        self._unfinished = set()
        share = Share()
        for stream_id in ids:
            served = self._served_of(stream_id)
            if served.state.home() == self._context.settings.config.region:
                if self._context.standing.writable:
                    self._keep_up(served, share)
                self._retire(served, now_ms)

    def _keep_up(self, served: Served, share: Share) -> None:
        state = served.state
        awaits = False
        for partition in state.partitions():
            # Another line of epochs makes messages stale without touching them: one is raised, or a region that knew
            # nothing of its messages has forgotten it.
            if served.looked.get(partition.number) != (state.epochs.counted(), partition.stamp()):
                if partition.has_stale() and not self._renumber(served, partition.number, share):
                    awaits = not share.is_spent()
                    continue
                stamp = state.partitions()[partition.number].stamp()
                served.looked[partition.number] = (state.epochs.counted(), stamp)
        served.awaited = served.awaited + 1 if awaits else 0

    def _retire(self, served: Served, now_ms: int) -> None:
        state, retention_ms = served.state, served.state.spec.retention_ms
        for partition in state.partitions():
            trim = partial(partition.trim_older, now_ms + self.ahead.ms - retention_ms)
            if not self._context.deferred_work.run(("partition", state.spec.id, partition.number), trim):
                self._unfinished.add(state.spec.id)
        if state.is_numbering():
            served.coordinator.drop_unused(retention_ms)
            if len(state.epochs.rows) > 1 and served.is_agreed(self._began_ms, self._links):
                state.forget_epochs()

    def _renumber(self, served: Served, number: int, share: Share) -> bool:
        """Number the stale messages of this partition again; false if some have to wait. What another process of this
        region has numbered last is usually its former life. If it is alive, it does this itself, or both would make
        stale what the other one does, for ever.
        """
        if not served.state.is_numbering():
            if served.awaited < UPKEEPS_AWAITED or self._is_alive(served) or not served.state.can_raise():
                return False
            served.state.raise_epoch()
        finished = self._renumber_some(served, served.state.partitions()[number], share)
        if not finished:
            self._unfinished.add(served.state.spec.id)
        return finished

    def _is_alive(self, served: Served) -> bool:
        """True if another process of this region is the home, and was heard of a short while ago."""
        origin = served.state.epochs.current()[1]
        sign_ms = self._links.progress.sign_ms(origin)
        return origin != self._replica.applied.origin and sign_ms > 0 and self._now_ms - sign_ms < ALIVE_MS

    def _clear_deleted(self) -> None:
        """Remove what other regions wrote to a stream while they did not know that it was deleted."""
        for stream_id in [one for one in sorted(self._served) if self.spec(one) is None]:
            state = self._served[stream_id].state
            if state.is_empty():
                del self._served[stream_id]
            else:
                state.clear()

    def _sweep(self) -> None:
        """Once after a start: remove what was left of streams that were deleted. A stream is known before anything of
        it, so one that is not known was deleted.
        """
        self._swept = True
        known = set(self.ids())
        for name in list(self._replica.keyspace.databases[0]):
            if (stream_of(name) or "") not in known and stream_of(name) is not None:
                self._replica.delete_stream((0, name))

    def check(self) -> None:
        for stream_id in self.ids():
            served = self._served_of(stream_id)
            served.state.check()
            served.coordinator.check()
