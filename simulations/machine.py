"""One region of a world: production code on a disk that can fail, under a clock that can be wrong.

A machine may be down, paused or full. Its log is synced when the node asks for it, at the intervals of `everysec`, and
under `fsync = always` soon after each turn. A `sync_wait_ms` of 0 is what the runtime does; a larger value leaves a
moment in which something is appended and not yet durable, which the node's contract permits and power losses target.

A client command is `Unanswered` until its reply is out; a client sends the next command only after that.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import pairwise
from random import Random
from zlib import crc32

from crdtstream.config import ALWAYS, Config
from crdtstream.core.causality import Dot, VersionVector, region_of
from crdtstream.core.effects import Batch
from crdtstream.node import Ready
from crdtstream.protocols import codec
from crdtstream.storage.disk import DiskFull
from crdtstream.storage.segment import HEADER_BYTES, Window, first_of, scan, segment_name, segment_names
from simulations.cluster import CLIENT, SALT, Region
from simulations.disk import SimulatedDisk
from simulations.oracle import Oracle

ROOM_BYTES = 1 << 12
CLIENTS = tuple(range(CLIENT, CLIENT + 8))


class Unanswered:
    """A command without a reply yet: the vector before it, the last own dot after it, and the creates of its group."""

    __slots__ = ("argv", "creates", "dot", "seen")

    def __init__(self, argv: list[bytes], seen: VersionVector, creates: list[Dot]) -> None:
        self.argv = argv
        self.seen = seen
        self.creates = creates
        self.dot: Dot = (0, 0)


class Machine(Region):
    """A region's process and what it runs on. `logged` holds this turn's batches and the vectors of joined states.
    `happened` counts events that are no faults: joined states, and keys deleted because they expired.
    """

    def __init__(
        self,
        config: Config,
        oracle: Oracle,
        now_ms: int,
        sync_wait_ms: int,
        sync_interval_ms: int,
        number: int = 0,
        disk: SimulatedDisk | None = None,
        starts: int = 0,
    ) -> None:
        self.oracle = oracle
        self.number = number or config.region
        self.up = True
        self.paused = False
        self.skew_ms = 0
        self.sync_wait_ms = sync_wait_ms
        self.sync_interval_ms = sync_interval_ms
        self.sync_planned = False
        self.vouched = 0
        self.flipped: set[str] = set()
        self.copied: SimulatedDisk | None = None
        self.unanswered: dict[int, Unanswered] = {}
        self.logged: list[Batch | VersionVector] = []
        self.happened: Counter[str] = Counter()
        super().__init__(config, now_ms, disk, starts)

    def start(self, now_ms: int) -> None:
        self.unanswered.clear()
        self.logged.clear()
        self.sync_planned = False
        self._expired_keys = 0
        self.sync_policy = self.config.fsync == ALWAYS and not self.sync_wait_ms
        super().start(now_ms)
        for client_id in CLIENTS[1:]:
            self.connect(client_id, now_ms)

    def not_cloned(self) -> dict[int, object]:
        return {**super().not_cloned(), id(self.oracle): self.oracle}

    def seed(self) -> int:
        """Return the seed of the next origin: the first origin of a region is its number, all others are in
        no order.
        """
        first = self.starts == 1 and self.number == self.config.region
        return 0 if first else crc32(b"%d %d" % (self.number, self.starts))

    @property
    def wants_sync(self) -> bool:
        """Return whether, under `always`, something is appended and not durable yet."""
        return self.config.fsync == ALWAYS and self.log.synced_position < self.log.last_position

    def _perform_one(self, ready: Ready) -> None:
        if ready.records:
            self.vouched = self.log.synced_position
        for kind, payload in ready.records:
            if kind == codec.JOINED:
                self.logged.append(codec.decode_joined(payload)[1])
                self.happened["transfer"] += 1
            elif kind == codec.BATCH:
                batch = batch_of(payload)
                self.logged.append(batch)
                if region_of(batch.slot) == self.config.region:
                    self.oracle.note(batch, self.node.context.now_ms)
        self._count_expired()
        super()._perform_one(ready)

    def _count_expired(self) -> None:
        expired_keys = self.node.replica.expired_keys
        if expired_keys > self._expired_keys:
            self.happened["expiry"] += expired_keys - self._expired_keys
            self._expired_keys = expired_keys

    def look_for_room(self) -> None:
        """Check for disk space, as the runtime does before each turn."""
        room = self.log.has_room(ROOM_BYTES)
        if room != self.node.context.standing.writable:
            self.node.writable(room)

    def idle_client(self) -> int | None:
        return next((client_id for client_id in CLIENTS if client_id not in self.unanswered), None)

    # Copies

    def keep_copy(self) -> None:
        """Keep a copy of the directory as it is now."""
        self.copied = self.disk.copy()

    def put_back(self) -> None:
        """Replace the directory by the copy, as `cp` or a rename would."""
        assert self.copied is not None
        self.disk = self.copied.copy()
        self.flipped.clear()

    # Checkpoints

    def save(self, units: int) -> bool:
        """Continue a checkpoint; True when it is complete or was abandoned."""
        try:
            return self.checkpoint_step(units)
        except DiskFull as error:
            self.checkpointer.abort()
            self.node.checkpoint_ended(self.node.context.now_ms, f"no room: {error}")
            return True

    # Rot

    def lose_disk(self) -> None:
        super().lose_disk()
        self.flipped.clear()

    def rot(self, rng: Random) -> str:
        """Flip one bit of data that is certainly durable; return where, or an empty text if there is none."""
        return self._flip(rng, self._checkpoint_files() + self._log_ranges())

    def rot_old(self, rng: Random) -> str:
        """Do the same in the last segment that is kept for peers only: a start no longer reads it."""
        needed = 0 if self.checkpointer.manifest is None else self.checkpointer.manifest.begun + 1
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
        names = [name for name in self.disk.names() if name not in logs]
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
    """Decode a batch, cached: every region logs the same bytes, and nobody changes the decoded value."""
    return codec.decode_batch(payload)
