"""One simulated machine: the production code of a region on a disk that can fail, under a clock that can be wrong.

A machine may be down, paused or full. It performs what the node asks for in the order that is the contract: the log
first, then the replies. The log is synced when the node asks for it, under `fsync = always` after each turn, and when
`sync` is called, as `everysec` does each second. A `sync_wait_ms` of 0 is what the runtime does; a larger value leaves
a moment in which something is appended and not yet durable, which the node's contract permits and power losses target.

A client command is `Unanswered` until its reply is out.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from random import Random
from zlib import crc32

from crdtstream.connections.shards import ShardMap
from crdtstream.core.effects import Batch
from crdtstream.core.values.causality import Dot, VersionVector, region_of
from crdtstream.protocols import codec
from crdtstream.protocols.log_port import NewRecord, joined
from crdtstream.region.node import Node, Ready
from crdtstream.settings.config import ALWAYS, Config
from crdtstream.storage.checkpoint import BLOCKS_PREFIX, Capture
from crdtstream.storage.disk import DiskFull
from crdtstream.storage.disk_room import DiskRoom
from crdtstream.storage.log import Log
from crdtstream.storage.restore import open_storage
from crdtstream.storage.segment import HEADER_BYTES, Window, first_of, scan, segment_name, segment_names
from crdtstream.storage.staged_blocks import StagedBlocks
from simulations.disk import Misses, SimulatedDisk
from simulations.oracle import Oracle

CLIENT = 1
SALT = 0x5EED
ROOM_BYTES = 1 << 12
FULL_ODDS = 0.2


class Unanswered:
    """A command without a reply yet: the vector before it, the last own dot after it, and the creates of its group."""

    __slots__ = ("argv", "creates", "dot", "seen")

    def __init__(self, argv: list[bytes], seen: VersionVector, creates: list[Dot]) -> None:
        self.argv = argv
        self.seen = seen
        self.creates = creates
        self.dot: Dot = (0, 0)


class Machine:
    """A region's process and what it runs on. A second machine of one region has a number of its own.

    With an `oracle` the machine tells it each batch that its region makes, `logged` holds this turn's batches and the
    vectors of joined states, and `happened` counts events that are no faults: joined states, and keys deleted because
    they expired. The origins of a `busy` machine are in no order, and it has several clients, each with one command at
    a time. `shards` is the map of its region; None if that has one shard.
    """

    def __init__(
        self,
        config: Config,
        now_ms: int,
        disk: SimulatedDisk | None = None,
        starts: int = 0,
        *,
        number: int = 0,
        oracle: Oracle | None = None,
        sync_wait_ms: int = 0,
        sync_interval_ms: int = 1000,
        busy: bool = False,
        shards: ShardMap | None = None,
    ) -> None:
        self.config = config
        self.number = number or config.region
        self.disk = disk or SimulatedDisk()
        self.starts = starts
        self.oracle = oracle
        self.clients = range(CLIENT, CLIENT + (8 if busy else 1))
        self.busy = busy
        self.shards = shards
        self.up = False
        self.paused = False
        self.skew_ms = 0
        self.sync_wait_ms = sync_wait_ms
        self.sync_interval_ms = sync_interval_ms
        self.sync_policy = False
        self.sync_planned = False
        # What this region may use of memory for what it holds; None for as much as it likes.
        self.memory_bytes_max: int | None = None
        # False while the disk does not answer, or answers at times of its own.
        self.reads_blocks = True
        # What open files do not have at once, in worlds that spill.
        self.misses: Misses | None = None
        # Whether checkpoints work out the sums of entries (runtime/saver.py).
        self.sums = True
        self.vouched = 0
        self.volume_bytes: int | None = None
        self.flipped: set[str] = set()
        self.copied: SimulatedDisk | None = None
        self._copied_flipped: set[str] = set()
        self.replies: dict[int, list[bytes]] = {}
        self.unanswered: dict[int, list[Unanswered]] = {}
        # Commands that wait for blocks, by client.
        self.put_off: dict[int, Unanswered] = {}
        self.logged: list[Batch | VersionVector] = []
        self.happened: Counter[str] = Counter()
        self.start(now_ms)

    def start(self, now_ms: int) -> None:
        """Recover from the disk, as a new process does."""
        self.starts += 1
        self.replies.clear()
        self.unanswered.clear()
        self.put_off.clear()
        self.logged.clear()
        self.disk.misses = self.misses
        self.sync_planned = False
        self._expired_keys = 0
        self.sync_policy = self.config.fsync == ALWAYS and not self.sync_wait_ms
        self.node = Node(self.config, now_ms)
        if self.shards is not None:
            self.node.follow_shards(self.shards)
        staged = self.node.exchange.fetching.blocks = StagedBlocks(self.disk, self.node.open_blocks, self.hot_bytes_max)
        staged.end()
        self.log: Log
        self.log, self.checkpointer = open_storage(
            self.disk, self.node, salt=SALT, segment_bytes_max=self.config.limits.segment_bytes_max
        )
        limits = self.config.limits
        self.room = DiskRoom(
            self.disk, self.log, self.checkpointer, limits.disk_reserve_bytes, limits.segment_bytes_max
        )
        self.node.start(self.log, self.seed(), now_ms)
        self.perform()
        self.sync()
        for client_id in self.clients:
            self.connect(client_id, now_ms)
        self.up = True

    def follow_shards(self, shards: ShardMap) -> None:
        """Give the region another map of its shards, as its supervisor does."""
        self.shards = shards
        if self.up:
            self.node.follow_shards(shards)

    def hot_bytes_max(self) -> int:
        return self.node.limits.hot_bytes_max

    def seed(self) -> int:
        """Return the seed of the next origin: the first origin of a region is its number, and each start adds 256,
        unless the machine is busy.
        """
        first = self.starts == 1 and self.number == self.config.region
        return crc32(b"%d %d" % (self.number, self.starts)) if self.busy and not first else self.starts - 1

    def connect(self, client_id: int, now_ms: int) -> None:
        self.node.connect(client_id, "127.0.0.1:0", now_ms)

    def cloned(self) -> Machine:
        """Clone the running process, as a snapshot of a virtual machine does; a generator cannot be copied and starts
        again.
        """
        audit, tree = self.node.exchange.audit, self.node.exchange.audit.tree
        audit.tree = None
        cloned = copy.deepcopy(self, {id(self.log.sync_lock): threading.Lock(), id(self.oracle): self.oracle})
        audit.tree = tree
        return cloned

    # Turns

    @property
    def wants_sync(self) -> bool:
        """Return whether, under `always`, something is appended and not durable yet."""
        return self.config.fsync == ALWAYS and self.log.synced_position < self.log.last_position

    def perform(self) -> None:
        """Perform what the node asks for until it asks for nothing."""
        self._perform_turns()
        while self.reads_blocks and self.read_blocks():
            self._perform_turns()

    def read_blocks(self) -> bool:
        """Read the spilled blocks that something waits for; false if nothing does."""
        wanted = self.node.context.block_reads.drain()
        for block_read in wanted:
            block_read.finish(block_read.read())
        return bool(wanted)

    def waits_for_blocks(self, client_id: int) -> bool:
        """Return whether a request of this client waits for blocks, and so has done nothing yet."""
        context = self.node.context
        return context.block_reads.awaits(client_id) and client_id not in context.parking.waiters

    def _perform_turns(self) -> None:
        ready = self.node.ready()
        while ready is not None:
            self._perform_one(ready)
            if (ready.urgent or self.sync_policy) and self.log.synced_position < self.log.last_position:
                self.node.synced(self.log.sync())
            ready = self.node.ready()

    def _perform_one(self, ready: Ready) -> None:
        if self.oracle is not None:
            self._record(ready.records, self.oracle)
        if ready.records:
            self.vouched = self.log.synced_position
            self.log.append(ready.records)
        for client_id, reply in ready.replies:
            self.replies.setdefault(client_id, []).append(reply)
        for client_id in ready.closing:
            self.node.disconnect(client_id)

    def _record(self, records: list[NewRecord], oracle: Oracle) -> None:
        for kind, pieces in records:
            payload = joined(pieces)
            if kind == codec.JOINED:
                self.logged.append(codec.decode_joined(payload)[1])
                self.happened["transfer"] += 1
            elif kind == codec.BATCH:
                batch = batch_of(payload)
                self.logged.append(batch)
                if region_of(batch.origin) == self.config.region:
                    oracle.record(batch, self.node.context.now_ms)
        expired_keys = self.node.replica.expired_keys
        if expired_keys > self._expired_keys:
            self.happened["expiry"] += expired_keys - self._expired_keys
            self._expired_keys = expired_keys

    def sync(self) -> None:
        """Sync the log, as `everysec` does each second."""
        self.node.synced(self.log.sync())
        self.perform()

    def stop(self) -> None:
        """Stop cleanly."""
        self._perform_one(self.node.stop())
        self.log.sync()

    def execute(self, argv: list[bytes], now_ms: int, client_id: int = CLIENT) -> bytes | None:
        """Run a command; return its reply, or None if the client must wait."""
        self.node.execute(client_id, argv, now_ms)
        self.perform()
        return self.pop_reply(client_id)

    def pop_reply(self, client_id: int = CLIENT) -> bytes | None:
        replies = self.replies.pop(client_id, [])
        return b"".join(replies) if replies else None

    def idle_client(self) -> int | None:
        return next((client_id for client_id in self.clients if client_id not in self.unanswered), None)

    def dot_after(self, argv: list[bytes]) -> Dot:
        """Return the own origin's last dot; after an XADD that of its entry, which a trim may follow. An add by name
        that leaves no own entry is a repeat, before which acknowledgements may have taken a dot: it has dot 0, which
        was seen before.
        """
        applied = self.node.replica.applied
        stream = self.node.replica.keyspace.known((0, argv[1])) if argv[0] == b"XADD" else None
        tree = None if stream is None else stream.trees.get(applied.origin)
        last_id = None if tree is None else tree.last_id()
        if tree is None or last_id is None:
            return (applied.origin, 0 if argv[0] == b"XADD" and b"IDMP" in argv else applied.counter())
        return (applied.origin, tree.counter_of(last_id))

    def creates_of(self, argv: list[bytes]) -> list[Dot]:
        """Return the create dots under which a read or acknowledgement is made, unless its key is due to expire."""
        name = argv[0]
        if name not in (b"XREADGROUP", b"XACK", b"XACKDEL"):
            return []
        key, group_name = (argv[-2], argv[2]) if name == b"XREADGROUP" else (argv[1], argv[2])
        stream = self.node.replica.keyspace.known((0, key))
        group = None if stream is None else stream.groups.get(group_name)
        return [] if group is None else sorted(group.creates)

    def rest(self, rng: Random) -> None:
        """Pack unread blocks, as the runtime does while it is idle. Worlds add few entries, so some blocks are sealed
        early here.
        """
        context = self.node.context
        self.seal_some(rng, FULL_ODDS)
        context.packing.step(rng.choice([1, 100, 5_000]), context.limits.cold_after_ms)
        context.packing.check()

    def seal_some(self, rng: Random, odds: float) -> None:
        for _, stream in self.node.replica.keyspace.streams():
            for tree in stream.trees.values():
                if tree.tail.count and rng.random() < odds:
                    tree.tail.seal()

    # The disk

    def look_for_room(self) -> None:
        """Check for disk space and for memory, as the runtime does before each turn."""
        if self.memory_bytes_max is not None or self.node.context.standing.memory_short:
            self.measure()
        if self.room.has_room(ROOM_BYTES):
            if not self.node.standing.writable:
                self.node.writable(True)
        else:
            self.node.writable(False, self.room.removal_bytes(), self.room.member_bytes())

    def shorten_log(self) -> None:
        """Drop what peers no longer need, as the runtime does while space is low."""
        if self.room.is_low():
            self.log.delete(self.checkpointer.release() or self.checkpointer.release(yields=self.room.full))

    def measure(self) -> None:
        """Let the node compare what it uses with its limit."""
        above = 0 if self.memory_bytes_max is None else self.used_bytes() - self.memory_bytes_max
        self.node.observe(self.config.limits.memory_bytes_max + above, 0.0, 0.0)

    def used_bytes(self) -> int:
        """The memory of entries, and of what came from peers and waits."""
        exchange = self.node.exchange
        streams = [stream for _, stream in self.node.replica.keyspace.streams()]
        entries = sum(tree.byte_count for stream in streams for tree in stream.trees.values())
        staging = exchange.fetching.staging
        staged = 0 if staging is None else staging.byte_count
        return entries + exchange.arrivals.inbox.held_bytes + exchange.fetching.waiting_bytes + staged

    def lose_disk(self) -> None:
        self.disk = SimulatedDisk(self.volume_bytes)
        self.flipped.clear()

    def keep_copy(self) -> None:
        """Keep a copy of the directory as it is now."""
        self.copied = self.disk.copy()
        self._copied_flipped = set(self.flipped)

    def put_back(self) -> None:
        """Replace the directory by the copy, as `cp` or a rename would."""
        assert self.copied is not None
        self.disk = self.copied.copy()
        self.disk.capacity_bytes = self.volume_bytes
        self.flipped = set(self._copied_flipped)

    def start_from_copy(self, other: Machine) -> None:
        """Begin with a copy of another machine's directory, with its flipped bits."""
        self.disk = other.disk.copy()
        self.flipped = set(other.flipped)

    # Checkpoints

    def checkpoint_step(self, units: int) -> bool:
        """Continue a checkpoint, or begin one if that is possible now; True if none is running afterwards."""
        self.perform()
        checkpointer = self.checkpointer
        capture = checkpointer.capture
        if capture is None and not self.node.can_describe():
            return True
        if capture is None:
            self.node.context.saving.begin()
            self.room.prepare()
            capture = checkpointer.begin()
        capture.step(units)
        self._write(capture)
        if not capture.done:
            return False
        checkpointer.commit(self.node.context.now_ms)
        self.node.synced(self.log.synced_position)
        self.log.delete(checkpointer.conclude())
        while checkpointer.lay():
            pass
        checkpointer.clean()
        self.node.checkpoint_ended(self.node.context.now_ms, "")
        self.room.restore()
        self.perform()
        return True

    def _write(self, capture: Capture) -> None:
        if self.misses is not None:
            self.misses.on_thread = True
        try:
            self.checkpointer.write(capture.drain_output(), sums=self.sums)
        finally:
            if self.misses is not None:
                self.misses.on_thread = False

    def save(self, units: int) -> bool:
        """Continue a checkpoint; True when it is complete or was abandoned."""
        try:
            return self.checkpoint_step(units)
        except DiskFull as error:
            self.checkpointer.abort()
            self.room.restore()
            self.node.checkpoint_ended(self.node.context.now_ms, f"no room: {error}")
            return True

    def checkpoint(self) -> None:
        while not self.checkpoint_step(1_000):
            pass

    def cut_log(self) -> None:
        """Keep no more of the log than a restart needs, even if peers need the rest; keep all of it while a state
        arrives.
        """
        if not self.node.can_describe():
            return
        # A segment of its own, however little is in the one before: `has_room` would let that one grow.
        begun = self.log.last_position + 1
        self.log.roll()
        self.node.turn.add(codec.START, codec.encode_start(self.node.birth.origin, self.node.birth.count))
        self.perform()
        self.checkpoint()
        self.sync()
        self.log.truncate_before(self.log.last_position)
        assert self.log.first_position >= begun, "the log was not cut"

    # Rot

    def rot(self, rng: Random) -> str:
        """Flip one bit of data that is certainly durable; return where, or an empty text if there is none."""
        return self._flip(rng, self._checkpoint_files() + self._log_ranges())

    def rot_old(self, rng: Random) -> str:
        """Do the same in the last segment that is kept for peers only: a start no longer reads it. The next segment has
        a record that is on the disk, so that a power loss leaves it there.
        """
        needed = 0 if self.checkpointer.manifest is None else self.checkpointer.manifest.begun + 1
        needed = min(needed, self.log.synced_position)
        firsts = self.log.segment_firsts()
        old = {segment_name(first) for first, after in pairwise(firsts) if after <= needed}
        places = [(name, 0, high) for name, _, high in self._log_ranges() if name in old]
        return self._flip(rng, places[-1:])

    def _flip(self, rng: Random, places: list[tuple[str, int, int]]) -> str:
        if not places:
            return ""
        name, low, high = rng.choice(places)
        offset = rng.randrange(low, high)
        self.disk.flip_bit(name, offset, rng.randrange(8))
        self.flipped.add(name)
        return f"{name} at byte {offset}"

    def _checkpoint_files(self) -> list[tuple[str, int, int]]:
        logs = set(segment_names(self.disk))
        # What happens to rotten blocks that no start reads is tried by a checker.
        spared = "" if self.misses is None else BLOCKS_PREFIX
        names = [name for name in self.disk.names() if name not in logs and not (spared and name.startswith(spared))]
        return [(name, 0, self.disk.size(name)) for name in names if self.disk.size(name)]

    def _log_ranges(self) -> list[tuple[str, int, int]]:
        """Return the frames that a later frame vouches for: damage in any other cannot be told from a torn tail."""
        ranges: list[tuple[str, int, int]] = []
        for name in segment_names(self.disk):
            end = HEADER_BYTES
            window = Window(self.disk, name, self.disk.size(name))
            for number, _, _, frame_end in scan(window, HEADER_BYTES, first_of(name), SALT):
                if number <= self.vouched:
                    end = frame_end
            if end > HEADER_BYTES:
                ranges.append((name, HEADER_BYTES, end))
        return ranges


@lru_cache(maxsize=1 << 10)
def batch_of(payload: bytes) -> Batch:
    """Decode a batch, cached: every region logs the same bytes, and the decoded value is never changed."""
    return codec.decode_batch(payload)
