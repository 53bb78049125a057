"""The room on the disk of one region: who may have what is left.

Writing goes on while two things remain possible: a checkpoint, which alone lets the log be shortened, and everything
that frees room. So a new segment is begun for writing only if the reserve is whole, and the most that a checkpoint may
write stays free (half of the reserve counts for that). When less than twice that is left, room is *tight*. Then a
checkpoint is due as soon as the log that it covers is worth what it writes: an eighth of the state, or as much as may
still be written before the disk is full. Otherwise a volume with less than twice the state free would be written to
without end, for a little log each time.

When there is no room for writing, the disk is *full*. Then the reserve is used, by what frees room and nothing else:

    a checkpoint                                    half of it
    removals (XDEL, XTRIM, DEL, expiry ...)         a quarter, in the log
    members (evictions, admissions), the start      that quarter and the last one, in the log

A checkpoint that begins while room is tight covers whole segments: the log rolls over to a new one, so that the last
one, too, is released. What has been freed fills the reserve first; then there is room for writing again.

Invariant: while the disk is not full, the reserve is whole, or the next question for room makes it full.
"""

from __future__ import annotations

from contextlib import suppress

from crdtstream.storage.checkpoint import Checkpointer
from crdtstream.storage.disk import Disk, DiskFull
from crdtstream.storage.log import Log
from crdtstream.storage.reserve import Reserve
from crdtstream.storage.segment import SEGMENT_BYTES_MIN

# On a small volume the reserve would otherwise leave nothing to write.
_RESERVES_A_VOLUME = 8
# The share of the state that the log has to reach until it is worth a checkpoint for lack of room.
_LOGS_A_STATE = 8


class DiskRoom:
    """The room of one data directory; `full` is what the last question for room has shown."""

    __slots__ = ("_checkpointer", "_disk", "_least_bytes", "_log", "_saving", "full", "reserve")

    def __init__(
        self, disk: Disk, log: Log, checkpointer: Checkpointer, reserve_bytes: int, segment_bytes_max: int
    ) -> None:
        self._disk = disk
        self._log = log
        self._checkpointer = checkpointer
        # Less than this in the log is worth neither a checkpoint nor a new segment.
        self._least_bytes = min(SEGMENT_BYTES_MIN, segment_bytes_max // 4)
        # A checkpoint has its half of the reserve.
        self._saving = False
        self.reserve = Reserve(disk, min(reserve_bytes, disk.volume_bytes() // _RESERVES_A_VOLUME))
        self.full = not self.reserve.fill()
        log.reserve = self.reserve

    # For writing

    def has_room(self, byte_count: int) -> bool:
        """True if a turn of this size may be written, with FRAME_BYTES for each record. Once the disk was full, as
        much again has to be free, so that it is not full the next moment.
        """
        whole = self.reserve.is_whole() or self.reserve.fill()
        self.full = not (whole and self._log.has_room(byte_count, self._kept_bytes(byte_count)))
        return not self.full

    def _kept_bytes(self, byte_count: int) -> int:
        """What has to stay free for a checkpoint; it is of no interest where no new segment is needed."""
        if self._log.spare_bytes() >= byte_count:
            return 0
        margin = byte_count if self.full else 0
        return margin + max(0, self._checkpointer.needed_bytes() - self.reserve.held_bytes // 2)

    # For what frees room

    def removal_bytes(self) -> int:
        """How much the log can take of what removes data while the disk is full."""
        return self._log.spare_bytes() + max(0, self._log_share() - self.reserve.bytes_max // 4)

    def member_bytes(self) -> int:
        """How much the log can take of what changes members while the disk is full."""
        return self._log.spare_bytes() + max(0, self._log_share())

    def _log_share(self) -> int:
        """What the reserve holds besides the half of a checkpoint."""
        return self.reserve.held_bytes - (0 if self._saving else self.reserve.bytes_max // 2)

    # Checkpoints

    def is_short(self) -> bool:
        """True if a checkpoint should be taken now because of the room that is left, and would free enough."""
        if self.full:
            return self._checkpointer.is_owed()
        log_bytes = self._checkpointer.log_bytes()
        if log_bytes < self._least_bytes:
            return False
        left, needed = self._left_bytes(), self._checkpointer.needed_bytes()
        return left < needed and log_bytes >= min(left, self._checkpointer.state_bytes() // _LOGS_A_STATE)

    def is_tight(self) -> bool:
        """True if there is hardly more room than a checkpoint needs."""
        return self.full or self._left_bytes() < self._checkpointer.needed_bytes()

    def _left_bytes(self) -> int:
        """What is free besides the room for a checkpoint."""
        return self._disk.free_bytes() + self.reserve.held_bytes // 2 - self._checkpointer.needed_bytes()

    def is_low(self) -> bool:
        """True if it pays to shorten the log as soon as possible: it takes more than is left."""
        return self.full or self._disk.free_bytes() < self._log.byte_count()

    def prepare(self) -> None:
        """Make room for a checkpoint that begins now, and let it cover whole segments."""
        if not self.is_tight():
            return
        if self._log.idles(self._least_bytes):
            with suppress(DiskFull):  # then the last segment stays, and the next append looks for room
                self._log.roll()
        self.reserve.keep(self.reserve.bytes_max // 2)
        self._saving = True

    def restore(self) -> None:
        """Take the reserve back after a checkpoint, as far as that is possible."""
        self._saving = False
        self.reserve.fill()

    # For people

    def free_bytes(self) -> int:
        return self._disk.free_bytes()

    def needed_bytes(self, byte_count: int) -> int:
        """How much has to be free for a turn of this size: the rest of the reserve, a checkpoint, and a segment."""
        segment = byte_count if self._log.spare_bytes() < byte_count else 0
        return self.reserve.missing_bytes() + self._kept_bytes(byte_count) + segment

    def check(self) -> None:
        self.reserve.check()
