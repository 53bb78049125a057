"""When blocks are spilled (core/spill_walk.py): while they take more memory than `hot_bytes_max`.

Only what a checkpoint has can be spilled, so one is requested as soon as half of what is allowed is in no checkpoint;
after one that failed, again a while later, although nothing more may have been written: writes may be refused by then.
Blocks may take less than is estimated. So where the last walk left less than is allowed, one walk counts them, and
another one spills if that is still too much.
Counted bytes steer, not the resident size, which shrinks later; but a region beyond `memory_bytes_max` spills down to
half of what is allowed otherwise, before it refuses anything else that is not refused already.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.saving import RETRY_MS, Saving
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.keyspace import Keyspace
from crdtstream.core.spill_walk import SpillWalk
from crdtstream.settings.live import Settings
from crdtstream.status.availability import Standing

# A walk spills so much more than it has to, and follows when so much was written again: parts of what is allowed. With
# a sixteenth, walks took 2 % of the time of XADD.
SPARE_PARTS: Final = 4
# Where blocks were left only because they had been read, the next walk follows after so long.
READ_ON_MS: Final = 1_000
# How much longer at most the slices of checkpoints and walks become, beyond what is allowed.
URGENCY_MAX: Final = 50.0
# A checkpoint is requested once this part of what is allowed is in none, and again after as much was written.
UNSAVED_PARTS: Final = 2
# What a region has at most, as a multiple of what is allowed, if a checkpoint begins when it is requested, and ends
# before as much was written again.
USUAL_EXCESS: Final = 1.0 + 2.0 / UNSAVED_PARTS


class Spilling:
    """What one region spills."""

    __slots__ = (
        "_appended_bytes",
        "_asked_bytes",
        "_began_ms",
        "_ended",
        "_failed_ms",
        "_is_beyond",
        "_keyspace",
        "_open_blocks",
        "_rewritten_bytes",
        "_running",
        "_saved",
        "_saving",
        "_settings",
        "_standing",
        "_unasked_bytes",
        "walk",
    )

    def __init__(
        self, settings: Settings, standing: Standing, saving: Saving, keyspace: Keyspace, open_blocks: OpenBlockCache
    ) -> None:
        self.walk = SpillWalk(keyspace, open_blocks)
        self._settings = settings
        self._standing = standing
        self._saving = saving
        self._keyspace = keyspace
        self._open_blocks = open_blocks
        self._began_ms = 0
        self._appended_bytes = 0
        self._rewritten_bytes = 0
        # What blocks have grown by since a checkpoint was requested, or began, last, and before; and the number of that
        # one.
        self._unasked_bytes = 0
        self._asked_bytes = 0
        self._running = 0
        # The last checkpoint that has ended, and when it did if it failed.
        self._ended = 0
        self._failed_ms: int | None = None
        # Whether the last walk has counted more than is allowed.
        self._is_beyond = False
        # How many checkpoints had ended when the last walk began.
        self._saved = -1

    def target_bytes(self) -> int:
        """What blocks may take in memory; 0 if nothing is spilled."""
        allowed_bytes = self._settings.limits.hot_bytes_max
        return allowed_bytes // 2 if self._standing.memory_short else allowed_bytes

    def urgency(self) -> float:
        """How much longer than usual a slice of a checkpoint or a walk is: so a client that never pauses is slowed
        before it has written many times what is allowed, and others are not slowed by checkpoints that are in time.
        """
        target_bytes = self.target_bytes()
        excess = self.walk.hot_bytes() / target_bytes if target_bytes else 1.0
        return 1.0 if excess <= USUAL_EXCESS else min(excess**3, URGENCY_MAX)

    def step(self, cost_max: int, appended_bytes: int) -> bool:
        """Walk on for about this cost, in visits of a block; true if there is more to do now. `appended_bytes` is what
        was written to the log so far, and so about what entries took.
        """
        walk, target_bytes = self.walk, self.target_bytes()
        self._record_checkpoint()
        self._grow(appended_bytes)
        if not target_bytes:
            return False
        if not walk.walking:
            if not self._is_due(target_bytes):
                if self._failed_ms is not None:
                    self._ask(target_bytes)
                return False
            self._saved, self._began_ms = self._saving.ended, self._keyspace.now_ms
            is_counted = self._is_beyond or walk.walked_bytes > target_bytes
            walk.begin(left_bytes(target_bytes), only_counts=not is_counted)
            self._is_beyond = False
        more = walk.go_on(cost_max)
        if walk.only_counts:
            if walk.walking:
                return more
            self._is_beyond = walk.hot_bytes() > target_bytes
        self._ask(target_bytes)
        return more or self._is_beyond

    def _is_due(self, target_bytes: int) -> bool:
        """True if a walk would find more than the last one: nothing else is worth a walk."""
        walk = self.walk
        if not walk.walks:
            return True
        if walk.hot_bytes() <= target_bytes:
            return False
        # The last one may have been allowed to leave more.
        is_less = left_bytes(target_bytes) < walk.target_bytes
        news = self._is_beyond or is_less or self._saved != self._saving.ended
        reads_ended = walk.read_on and abs(self._keyspace.now_ms - self._began_ms) >= READ_ON_MS
        return news or reads_ended or walk.grown_bytes >= target_bytes // SPARE_PARTS

    def _grow(self, appended_bytes: int) -> None:
        """Note by how much blocks have grown since the last look."""
        rewritten_bytes = self._open_blocks.rewritten_bytes
        grown_bytes = appended_bytes - self._appended_bytes + rewritten_bytes - self._rewritten_bytes
        self._appended_bytes, self._rewritten_bytes = appended_bytes, rewritten_bytes
        self.walk.grown_bytes += grown_bytes
        self._unasked_bytes += max(grown_bytes, 0)

    def _record_checkpoint(self) -> None:
        """Whatever a checkpoint is for that has begun, it will have what was written before, unless it fails."""
        saving = self._saving
        if saving.ended != self._ended:
            self._ended = saving.ended
            self._failed_ms = self._keyspace.now_ms if saving.failure else None
            self._unasked_bytes += self._asked_bytes if saving.failure else 0
            self._asked_bytes = 0
        if saving.running and self._running != saving.ended + 1:
            self._running = saving.ended + 1
            self._count_as_asked()

    def _count_as_asked(self) -> None:
        self._asked_bytes += self._unasked_bytes
        self._unasked_bytes = 0

    def _ask(self, target_bytes: int) -> None:
        """Request a checkpoint if much is in none."""
        saving, step_bytes = self._saving, target_bytes // UNSAVED_PARTS
        is_much = self.walk.unspillable_bytes() > step_bytes <= self._unasked_bytes
        if is_much and not saving.requested and not saving.running and not self._is_delayed():
            self._count_as_asked()
            saving.request()

    def _is_delayed(self) -> bool:
        """True for a while after a checkpoint that failed."""
        return self._failed_ms is not None and abs(self._keyspace.now_ms - self._failed_ms) < RETRY_MS


def left_bytes(target_bytes: int) -> int:
    """What a walk leaves."""
    return target_bytes - target_bytes // SPARE_PARTS
