"""The log: numbered records in segments, appended by one thread, synced by any.

Records are numbered contiguously from 1, and a *position* is a record's number. Positions are inclusive:
`synced_position` 5 means that records 1 to 5 are durable. The log does not interpret records: each is a small number
from the caller, its kind, and bytes.

Appending. A turn is written at one place, entirely within one segment. Segments are preallocated, so only beginning a
new one can meet a full disk; that raises DiskFull before anything is written, and the log remains usable. A segment
takes at most a quarter of the free space, so they shrink as the disk fills up. `has_room` leaves the reserve alone;
`append`, whose records are already made, uses it. Any other failure of an append or a sync is final: from then on every
call raises LogFailed, because the page cache is in an unknown state after a failed sync, and a retry may succeed
without saving anything.

Syncing. `sync` reads the last position first and syncs the files afterwards, so it covers everything that was appended
before the call while the loop's thread goes on appending. Nothing is synced earlier than needed: a new segment has
neither a durable name nor a durable header until the next `sync`, which syncs files and directory together.

Reading. A reader that keeps up is served from memory (see `tail`), any other from the files.

Damage. A record that was completely written and can no longer be read is listed in `damages`, and nothing up to the end
of its segment is served any more: the log now begins behind it. Nothing else changes, because the effects are in memory
or in a checkpoint. The next checkpoint deletes the file unless a start still needs it; if a reader finds the damage in
the last segment, the next turn begins a new one. Damage that a start skips there ends sooner: what follows it is read.

Recovery. Frames are read in order up to the first incomplete one (see `recovery`). A torn tail is cut, and everything
kept is synced before the log opens, since after a mere kill it may be in the page cache only.

Invariants: segments are contiguous; every segment but the last has a record; first_position - 1 <= synced <= last.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise

from crdtstream.protocols.log_port import Damage, NewRecord
from crdtstream.storage.disk import Disk, DiskError, DiskFull
from crdtstream.storage.recovery import UNREADABLE, Cut, LogError, Recovery, create_segment
from crdtstream.storage.reserve import Reserve
from crdtstream.storage.segment import (
    FRAME_BYTES,
    HEADER_BYTES,
    Segment,
    Window,
    fitting_bytes,
    frame_parts,
    framed_bytes,
    scan,
    segment_name,
)
from crdtstream.storage.tail import Tail

SEGMENT_BYTES_MAX = 64 << 20

_READ_AHEAD_BYTES = 1 << 16
# Less than this is joined sooner than the kernel visits its parts.
_VECTORED_BYTES_MIN = 1 << 14
_STOPS_MAX = 64


class LogFailed(LogError):
    """An append or a sync failed, so nothing the log reports from now on is reliable; the node must end."""


class NotRetained(LogError):
    """The position lies in a segment that was deleted."""


class Log:
    """The log of one data directory; `open_log` creates it."""

    __slots__ = (
        "_active",
        "_directory_changed",
        "_disk",
        "_failure",
        "_last",
        "_named",
        "_salt",
        "_sealed",
        "_segment_bytes_max",
        "_segments",
        "_served_from",
        "_stops",
        "_synced",
        "_tail",
        "appended_bytes",
        "cut",
        "damages",
        "reserve",
        "sync_lock",
    )

    def __init__(self, disk: Disk, recovery: Recovery, segment_bytes_max: int) -> None:
        self._disk = disk
        self._segment_bytes_max = segment_bytes_max
        self._salt = recovery.salt
        self._segments: list[Segment] = recovery.segments
        self._active = self._segments[-1]
        self._last = self._synced = recovery.last
        # The first position of the last segment whose name and header are durable.
        self._named = self._active.first
        self._sealed: list[Segment] = []
        self._directory_changed = False
        self._stops: dict[int, tuple[Segment, int]] = {}
        self._failure: DiskError | None = None
        self._tail = Tail()
        self.sync_lock = threading.Lock()
        self.cut: Cut | None = recovery.cut
        self.damages: list[Damage] = recovery.damages
        self._served_from = 1 + max([damage.through for damage in recovery.damages], default=0)
        self.reserve: Reserve | None = None
        # The bytes that a restart would replay if there were no checkpoint.
        self.appended_bytes = recovery.replayed_bytes

    @property
    def first_position(self) -> int:
        """The first readable record: retained, and behind all damage. If there is none, the next position."""
        return max(self._segments[0].first, self._served_from)

    @property
    def last_position(self) -> int:
        return self._last

    @property
    def synced_position(self) -> int:
        return self._synced

    def segment_firsts(self) -> list[int]:
        """The first position of each segment, ascending."""
        return [segment.first for segment in self._segments]

    def extents(self, position: int) -> list[tuple[str, int]]:
        """The segments that a start reads which replays from `position` on, each with the offset at which it ends."""
        segments = [each for each in self._segments if each.last >= position or each is self._active]
        return [(each.name, each.end) for each in segments]

    def byte_count(self) -> int:
        """The log's size on disk, including preallocated space."""
        return sum(segment.capacity for segment in self._segments)

    def bytes_from(self, position: int) -> int:
        """Return the bytes from this position on, or slightly more: only some records are indexed."""
        count = 0
        for segment in self._segments:
            if segment.last >= position:
                offset = segment.point_before(position)[1] if segment.first < position else HEADER_BYTES
                count += segment.end - offset
        return count

    def position_within(self, byte_count: int) -> int:
        """Return the first position of a segment, so that a cut there leaves at most this many bytes; the last segment
        stays.
        """
        kept = self._segments[-1].end
        position = self._segments[-1].first
        for segment in reversed(self._segments[:-1]):
            kept += segment.end
            if kept > byte_count:
                break
            position = segment.first
        return position

    def spare_bytes(self) -> int:
        """How much can be written without a new segment."""
        return self._active.room()

    def idles(self, byte_count: int) -> bool:
        """True if the last segment holds so much, or has so much space that it does not use."""
        return self._active.end >= byte_count or self._active.room() > 8 * byte_count

    def has_room(self, byte_count: int, kept_bytes: int = 0) -> bool:
        """Return whether turns of this size fit, with FRAME_BYTES for each record; this may begin the next segment, if
        that leaves `kept_bytes` of the disk free.
        """
        self._refuse_when_failed()
        if self._active.room() < byte_count:
            try:
                self._make_room(byte_count, kept_bytes)
            except DiskFull:
                return False
        return True

    def _make_room(self, byte_count: int, kept_bytes: int) -> None:
        """Provide space. Most requests are larger than what is written, so a request of more than half a segment grows
        a segment that is little used; otherwise each new segment would stay almost empty.
        """
        half = self._segment_bytes_max // 2
        active = self._active
        damaged = self._served_from > active.first
        if active.end < half < byte_count and not damaged:
            most = max(self._segment_bytes_max, active.end + byte_count + half)
            least, held = active.end + byte_count, active.capacity
            self._grow(held + fitting_bytes(self._disk, least - held, most - held, kept_bytes))
        else:
            self._begin_segment(self._next_capacity(byte_count, kept_bytes))

    def _next_capacity(self, byte_count: int, kept_bytes: int) -> int:
        """The size of the next segment; raises DiskFull."""
        least = HEADER_BYTES + byte_count
        return fitting_bytes(self._disk, least, max(self._segment_bytes_max, least), kept_bytes)

    def _grow(self, capacity: int) -> None:
        self._disk.allocate(self._active.name, capacity)
        self._active.capacity = capacity

    def append(self, records: list[NewRecord]) -> int:
        """Append at one place; return the last position. If neither the disk nor the reserve has space for a segment,
        raise DiskFull with nothing written.
        """
        self._refuse_when_failed()
        if not records:
            return self._last
        byte_count = framed_bytes(records)
        if self._active.room() < byte_count:
            self._begin_anyhow(byte_count)
        segment = self._active
        # Each frame names what is durable by now, and so becomes a witness against damage before that.
        parts = frame_parts(records, self._last + 1, self._synced, self._salt, segment.end)
        try:
            if byte_count < _VECTORED_BYTES_MIN:
                self._disk.write(segment.name, segment.end, b"".join(parts))
            else:
                self._disk.write_parts(segment.name, segment.end, parts)
        except DiskError as error:
            raise self._fail(error) from error
        last = self._last + len(records)
        segment.extend(last, segment.end + byte_count)
        self._tail.record(self._last + 1, records)
        self._last = last
        self.appended_bytes += byte_count
        return last

    def limit_tail(self, bytes_max: int) -> None:
        """Keep at most so many bytes in memory for a reader that keeps up."""
        self._tail.bytes_max = bytes_max

    def sync(self) -> int:
        """Make everything appended before the call durable; return the last durable position. Callable from any
        thread.
        """
        with self.sync_lock:
            self._refuse_when_failed()
            # Read before the files: a segment begun after this line holds no record that this call must cover.
            position, active = self._last, self._active
            if position > self._synced or active.first > self._named:
                self._sync_files(active)
                self._synced, self._named = position, active.first
            return self._synced

    def _sync_files(self, active: Segment) -> None:
        sealed = self._sealed[:]
        try:
            for segment in sealed:
                self._disk.sync(segment.name)
                self._disk.release(segment.name)
            if active not in sealed:
                self._disk.sync(active.name)
            if self._directory_changed:
                self._directory_changed = False
                self._disk.sync_directory()
        except DiskError as error:
            raise self._fail(error) from error
        del self._sealed[: len(sealed)]

    def read(self, position: int, bytes_max: int) -> list[tuple[int, int, bytes]]:
        """Return (position, kind, payload) from `position` on: payloads up to `bytes_max`, or one record that is
        larger.

        From disk, stops at the end of a segment; the next call continues in the next one. Returns nothing for an
        unreadable record (see Damage above).
        """
        self._refuse_when_failed()
        if position > self._last:
            return []
        if position < self.first_position:
            raise NotRetained(f"record {position} is gone: the log begins at {self.first_position}")
        records = self._tail.read(position, bytes_max) or self._read_disk(position, bytes_max)
        if records and records[-1][0] == self._last:
            self._tail.follow()
        return records

    def _read_disk(self, position: int, bytes_max: int) -> list[tuple[int, int, bytes]]:
        segment, number, offset = self._locate(position)
        records: list[tuple[int, int, bytes]] = []
        window = Window(self._disk, segment.name, segment.end, bytes_max + _READ_AHEAD_BYTES)
        reason = UNREADABLE
        try:
            for found, kind, payload, end in scan(window, offset, number, self._salt):
                if records and len(payload) > bytes_max:
                    break
                if found >= position:
                    records.append((found, kind, payload))
                    bytes_max -= len(payload)
                number, offset = found + 1, end
        except DiskError as error:
            reason = str(error.strerror)
        if records:
            self._remember(records[-1][0] + 1, segment, offset)
        else:
            self._abandon(segment, Damage(segment.name, offset, number, segment.last, reason))
        return records

    def _abandon(self, segment: Segment, damage: Damage) -> None:
        if segment is self._active:
            segment.capacity = segment.end
        self._served_from = segment.last + 1
        self._stops.clear()
        self.damages.append(damage)

    def _locate(self, position: int) -> tuple[Segment, int, int]:
        """Return the segment of a record, and the number and offset of a record at or before it."""
        stop = self._stops.pop(position, None)
        if stop is not None and position <= stop[0].last:
            return stop[0], position, stop[1]
        segment = self._segments[bisect_right(self._segments, position, key=_first) - 1]
        number, offset = segment.point_before(position)
        return segment, number, offset

    def _remember(self, position: int, segment: Segment, offset: int) -> None:
        """Remember where a reader stopped: its next call most likely continues there."""
        self._stops[position] = (segment, offset)
        if len(self._stops) > _STOPS_MAX:
            del self._stops[next(iter(self._stops))]

    def truncate_before(self, position: int) -> None:
        """Delete the segments that lie entirely below `position`, as far as the segment after them is durable."""
        self.delete(self.forget_before(position))

    def forget_before(self, position: int) -> list[str]:
        """Forget segments as `truncate_before` does, but leave the files; the caller passes the result to `delete`."""
        self._refuse_when_failed()
        through = min(position, max(self._synced, self._named))
        forgotten: list[str] = []
        while len(self._segments) > 1 and self._segments[1].first <= through:
            self._stops.clear()
            forgotten.append(self._segments.pop(0).name)
        return forgotten

    def delete(self, names: list[str]) -> None:
        """Delete forgotten segments, in their order; callable from any thread. Damage may have removed a file
        already.
        """
        for name in names:
            try:
                if name in self._disk.names():
                    self._disk.delete(name)
                # One by one: a later deletion that survives a crash without an earlier one leaves a hole.
                self._disk.sync_directory()
            except DiskError as error:
                raise self._fail(error) from error

    def roll(self) -> None:
        """Begin a new segment, so that a checkpoint which begins now covers whole segments, and give back what the last
        one has not used. Raises DiskFull if no new segment fits: the next append looks for room then.
        """
        self._refuse_when_failed()
        active = self._active
        if active.last < active.first:
            return
        try:
            # Before it is sealed: from then on another thread may release its descriptor.
            self._disk.truncate(active.name, active.end)
        except DiskError as error:
            raise self._fail(error) from error
        active.capacity = active.end
        self._begin_anyhow(0)

    def _begin_anyhow(self, byte_count: int) -> None:
        """Begin a segment, out of the reserve if there is no other space; raises DiskFull."""
        try:
            capacity = self._next_capacity(byte_count, 0)
        except DiskFull:
            if self.reserve is None:
                raise
            capacity = self._draw_from(self.reserve, HEADER_BYTES + byte_count)
        self._begin_segment(capacity)

    def _draw_from(self, reserve: Reserve, least: int) -> int:
        most = max(least, reserve.portion_bytes)
        if reserve.held_bytes + self._disk.free_bytes() >= least:
            reserve.give(most)
        return fitting_bytes(self._disk, least, most, 0)

    def _begin_segment(self, capacity: int) -> None:
        first = self._last + 1
        try:
            if self._active.first == first:
                self._grow(capacity)
                return
            create_segment(self._disk, segment_name(first), capacity, self._salt, first, self._synced)
        except DiskFull:
            raise
        except DiskError as error:
            raise self._fail(error) from error
        self._directory_changed = True
        self._sealed.append(self._active)
        self._active = Segment(segment_name(first), first, capacity)
        self._segments.append(self._active)

    def _fail(self, error: DiskError) -> LogFailed:
        self._failure = error
        return LogFailed(f"the log failed and rejects all further operations: {error.strerror}")

    def _refuse_when_failed(self) -> None:
        if self._failure is not None:
            raise self._fail(self._failure)

    def check(self) -> None:
        segments = self._segments
        for segment in segments:
            segment.check()
        for earlier, later in pairwise(segments):
            assert earlier.first <= earlier.last == later.first - 1, "segments are not contiguous"
        assert segments[-1] is self._active and self._active.last == self._last
        assert segments[0].first - 1 <= self._synced <= self._last
        assert segments[0].first <= self._named <= self._last + 1
        assert all(segment in segments and segment is not self._active for segment in self._sealed)
        assert len(self._stops) <= _STOPS_MAX
        self._tail.check(self._last)
        assert FRAME_BYTES < HEADER_BYTES + FRAME_BYTES <= self._segment_bytes_max


def _first(segment: Segment) -> int:
    return segment.first


def open_log(
    disk: Disk,
    replay: Callable[[int, int, bytes], None],
    *,
    salt: int,
    segment_bytes_max: int = SEGMENT_BYTES_MAX,
    position_from: int = 1,
    durable: int = 0,
) -> Log:
    """Pass every record from `position_from` on to `replay(position, kind, payload)`, cut a torn tail, and return the
    log.

    `salt`, random, 1 to 2^32 - 1, is used if the log is new. Records up to `durable`, and all before `position_from`,
    are known to have been durable: if the log does not reach them, it is damaged. Segments that lie entirely before
    `position_from` are not read.
    """
    recovery = Recovery(disk, replay, position_from, max(durable, position_from - 1))
    recovery.run(salt, segment_bytes_max)
    return Log(disk, recovery, segment_bytes_max)
