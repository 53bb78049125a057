"""One region of a world: production code on a disk that can fail, under a clock that can lie.

A machine may be down, paused or full. Its log is synced when the node asks for it, when the world's second hand comes
round, and under `fsync = always` soon after each turn: `sync_wait_ms` of 0 is the runtime's way, more leaves a moment
in which something is appended and not yet durable, which the node's contract allows and power losses aim at.

A command of a client is `Unanswered` until its reply is out; a client waits for it before it asks again.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import pairwise
from random import Random

from crdtstream.config import ALWAYS, Config
from crdtstream.core.causality import Dot, VersionVector, region_of
from crdtstream.core.effects import Batch
from crdtstream.node import Ready
from crdtstream.protocols import codec
from crdtstream.storage.disk import DiskFull
from crdtstream.storage.segment import HEADER_BYTES, Window, first_of, scan, segment_name, segment_names
from simulations.cluster import CLIENT, SALT, Region
from simulations.oracle import Oracle

ROOM_BYTES = 1 << 12
CLIENTS = tuple(range(CLIENT, CLIENT + 8))


class Unanswered:
    """A command that has no reply yet: what it saw before, the last own dot after it, the creates of its group."""

    __slots__ = ("argv", "creates", "dot", "seen")

    def __init__(self, argv: list[bytes], seen: VersionVector, creates: list[Dot]) -> None:
        self.argv = argv
        self.seen = seen
        self.creates = creates
        self.dot: Dot = (0, 0)


class Machine(Region):
    """A region's process and what it runs on; `logged` are this turn's batches, and what joined states brought.
    `happened` counts what is no fault: states that were joined, keys that were deleted for their expiry.
    """

    def __init__(self, config: Config, oracle: Oracle, now_ms: int, sync_wait_ms: int, sync_interval_ms: int) -> None:
        self.oracle = oracle
        self.up = True
        self.paused = False
        self.skew_ms = 0
        self.sync_wait_ms = sync_wait_ms
        self.sync_interval_ms = sync_interval_ms
        self.sync_planned = False
        self.vouched = 0
        self.flipped: set[str] = set()
        self.unanswered: dict[int, Unanswered] = {}
        self.logged: list[Batch | VersionVector] = []
        self.happened: Counter[str] = Counter()
        super().__init__(config, now_ms)

    def start(self, now_ms: int) -> None:
        self.unanswered.clear()
        self.logged.clear()
        self.sync_planned = False
        self._expired_keys = 0
        self.sync_policy = self.config.fsync == ALWAYS and not self.sync_wait_ms
        super().start(now_ms)
        for client_id in CLIENTS[1:]:
            self.connect(client_id, now_ms)

    @property
    def wants_sync(self) -> bool:
        """Under `always`: something is appended and not durable yet."""
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
        """What the runtime asks before each turn."""
        room = self.log.has_room(ROOM_BYTES)
        if room != self.node.context.writable:
            self.node.writable(room)

    def idle_client(self) -> int | None:
        return next((client_id for client_id in CLIENTS if client_id not in self.unanswered), None)

    # Checkpoints

    def save(self, units: int) -> bool:
        """A step of a checkpoint; true when it is complete or was given up."""
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
        """Flip one bit of what is certainly durable; returns where, or nothing when nothing is."""
        return self._flip(rng, self._checkpoint_files() + self._log_ranges())

    def rot_old(self, rng: Random) -> str:
        """The same in the last of the segments that are kept for peers alone: a start reads them no more."""
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
        """Frames that a later frame vouches for: nothing else can be told from a torn tail."""
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
    """Every region logs the same bytes, and nobody changes what they say."""
    return codec.decode_batch(payload)
