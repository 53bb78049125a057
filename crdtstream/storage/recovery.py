"""Recovery of the log: which records are kept, what is cut, and when the start is refused.

After a power loss any page that was not synced may or may not be on disk, in any combination, and so may a segment's
name. The first incomplete record therefore ends the log, and it and everything after it is cut - unless something
proves that it had been durable: a later complete frame or segment header that names a synced position at or beyond it,
or the caller's `durable`. In that case the disk lost data that it had acknowledged, and the start is refused with the
file, the offset and the remedy. The last turns, which no later frame vouches for, cannot be distinguished from a torn
tail and are cut.

Zeros up to the end of the last segment are its normal end. The header of the first segment was synced before any
record, so damage there is always damage; the header of a later segment may never have reached the disk. Records before
the replay are kept for peers only: the log that peers read begins behind those that are damaged. A segment of such
records alone is not read, unless all segments behind it are cut: then the log goes on where its last record ends.

A cut removes every byte of what is cut: an old frame left behind the new end could later be taken for the next record.
Everything is synced at the end, before the first append; a crash between the steps leads to the same cut next time.

Invariant: afterwards every kept record is durable, and the file contains only zeros behind the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from crdtstream.protocols.log_port import Damage
from crdtstream.storage.disk import Disk, DiskError, DiskFull
from crdtstream.storage.segment import (
    HEADER_BYTES,
    SALT_MAX,
    FormatUnknown,
    Header,
    Segment,
    Window,
    complete_frames,
    encode_header,
    find_witness,
    first_of,
    fitting_bytes,
    read_header,
    scan,
    segment_name,
    segment_names,
)

UNREADABLE = "the record that was written there is missing or corrupt"
_ADVICE = (
    "Do not edit the file. Restore the data directory from a backup, or move it away and start with an empty one:"
    " the region then returns as a new origin and receives its peers' state."
)


class LogError(Exception):
    """The log cannot perform the operation."""


class LogDamaged(LogError):
    """Records that had been durable are incomplete; names the file and the offset."""

    def __init__(self, file: str, offset: int, reason: str) -> None:
        super().__init__(f"{file} is damaged at byte {offset}: {reason}. {_ADVICE}")
        self.file = file
        self.offset = offset


class CheckpointDamaged(LogDamaged):
    """A file that the manifest names is corrupt."""


class Cut:
    """A torn tail that was cut: where it began, and the first record number that is free again."""

    __slots__ = ("file", "offset", "position")

    def __init__(self, file: str, offset: int, position: int) -> None:
        self.file = file
        self.offset = offset
        self.position = position

    def __repr__(self) -> str:
        return f"Cut({self.file} at byte {self.offset}, from record {self.position})"


def create_segment(disk: Disk, name: str, capacity: int, salt: int, first: int, synced: int) -> None:
    """Create a segment with its header; it is not durable yet."""
    disk.create(name, capacity)
    try:
        disk.write(name, 0, encode_header(Header(salt, first, synced)))
    except DiskFull:
        disk.delete(name)
        raise


class Recovery:
    """One streaming pass over all segments; the log starts from its results."""

    __slots__ = (
        "_disk",
        "_durable",
        "_old",
        "_position_from",
        "_replay",
        "cut",
        "damages",
        "last",
        "replayed_bytes",
        "salt",
        "segments",
    )

    def __init__(self, disk: Disk, replay: Callable[[int, int, bytes], None], position_from: int, durable: int) -> None:
        self._disk = disk
        self._replay = replay
        self._position_from = position_from
        self._durable = durable
        self.replayed_bytes = 0
        self.segments: list[Segment] = []
        self.last = 0
        self.salt = 0
        self.cut: Cut | None = None
        self.damages: list[Damage] = []
        self._old: frozenset[str] = frozenset()

    def run(self, salt: int, segment_bytes_max: int) -> None:
        names = segment_names(self._disk)
        if not names or self._is_unborn(names):
            names = [self._create_first(names, salt, segment_bytes_max)]
        self._old = frozenset(name for name, after in pairwise(names) if first_of(after) <= self._position_from)
        self._begin(names)
        for place, name in enumerate(names):
            after = first_of(names[place + 1]) if place + 1 < len(names) else 0
            damage = self._replay_segment(name, after)
            if damage is not None:
                self._cut(damage, names[place:])
                break
        else:
            self._end(names[-1])
        self._keep(segment_bytes_max)

    def _is_unborn(self, names: list[str]) -> bool:
        """Return whether the only segment has no header: it was created, and the crash came before any record was
        appended.
        """
        name = names[0]
        return len(names) == 1 and Window(self._disk, name, self._disk.size(name)).is_zero_from(0)

    def _create_first(self, names: list[str], salt: int, segment_bytes_max: int) -> str:
        if not 0 < salt <= SALT_MAX:
            raise ValueError(f"salt {salt} is outside 1..{SALT_MAX}")
        for name in names:
            self._disk.delete(name)
        first = first_of(names[0]) if names else 1
        name = segment_name(first)
        capacity = fitting_bytes(self._disk, HEADER_BYTES, segment_bytes_max, 0)
        create_segment(self._disk, name, capacity, salt, first, first - 1)
        return name

    def _begin(self, names: list[str]) -> None:
        name = names[0]
        self.last = first_of(name) - 1
        if first_of(name) > self._position_from:
            raise LogDamaged(name, 0, f"earlier segments, from record {self._position_from} on, are missing")
        for sound in names:
            if first_of(sound) > self._position_from:
                break
            header = self._header(sound)
            if header is not None:
                self.salt = header.salt
                return
        raise LogDamaged(
            name, 0, "the header of the first segment is damaged, although it was durable before any record"
        )

    def _header(self, name: str) -> Header | None:
        try:
            header = read_header(self._disk, name)
        except (DiskError, FormatUnknown):
            if name not in self._old:
                raise
            return None
        return None if header is None or header.first != first_of(name) else header

    def _replay_segment(self, name: str, after: int) -> tuple[str, int] | None:
        """Replay a segment if it continues the log; otherwise return the file and offset of the damage.

        `after` is the first record of the next segment; a segment that ends before the replay begins is not read.
        """
        first = first_of(name)
        if first > self.last + 1:
            return self.segments[-1].name, self.segments[-1].end
        header = self._header(name)
        sound = header is not None and header.salt == self.salt
        if not sound and name not in self._old:
            return name, 0
        if first <= self.last:
            raise LogDamaged(name, 0, f"it begins at record {first}, but the previous segment ends at {self.last}")
        segment = Segment(name, first, self._disk.size(name))
        self.segments.append(segment)
        if name in self._old:
            segment.extend(after - 1, segment.capacity)
            self.last = after - 1
            if not sound:
                self.damages.append(Damage(name, 0, first, self.last, "the header is missing or corrupt"))
            return None
        self._read(segment)
        while self._skip_damage(segment):
            self._read(segment)
        return None

    def _read(self, segment: Segment) -> None:
        for number, kind, payload, end in scan(self._window(segment), segment.end, self.last + 1, self.salt):
            segment.extend(number, end)
            self.last = number
            if number >= self._position_from:
                self._replay(number, kind, payload)
                self.replayed_bytes += len(payload)

    def _skip_damage(self, segment: Segment) -> bool:
        """Skip what cannot be read of the records before the replay, because only peers need them; true if it was. What
        follows must be there: a disk that lost the end of the log may have lost records behind the checkpoint, too.
        """
        damaged, offset = self.last + 1, segment.end
        if damaged >= self._position_from:
            return False
        number, _, end = next(complete_frames(self._window(segment), offset, self.salt), (0, 0, 0))
        if not damaged < number <= self._position_from:
            return False
        segment.skip(number - 1, end)
        self.last = number - 1
        self.damages.append(Damage(segment.name, offset, damaged, self.last, UNREADABLE))
        return True

    def _window(self, segment: Segment) -> Window:
        return Window(self._disk, segment.name, segment.capacity)

    def _end(self, name: str) -> None:
        segment = self.segments[-1]
        if not self._window(segment).is_zero_from(segment.end):
            self._cut((name, segment.end), [])
        elif self.last < self._durable:
            raise LogDamaged(name, segment.end, f"it ends at record {self.last}, but {self._durable} was durable")

    def _cut(self, damage: tuple[str, int], names: list[str]) -> None:
        """Cut behind the last kept record; `names` are the segments after it."""
        self._refuse_with_witness(damage, names)
        for name in reversed(names):
            self._disk.delete(name)
        if self.segments[-1].name in self._old:
            self._find_end()
        segment = self.segments[-1]
        self._disk.truncate(segment.name, segment.end)
        segment.capacity = segment.end
        self.cut = Cut(damage[0], damage[1], self.last + 1)

    def _find_end(self) -> None:
        """The log goes on in a segment that was not read: find where its last record ends. If that cannot be read, the
        segment counts as full, and as damaged.
        """
        old = self.segments.pop()
        segment = Segment(old.name, old.first, old.capacity)
        reason = UNREADABLE
        try:
            for number, _, _, end in scan(self._window(segment), segment.end, segment.first, self.salt):
                segment.extend(number, end)
        except DiskError as error:
            reason = str(error.strerror)
        if segment.last != old.last:
            self.damages.append(Damage(old.name, segment.end, segment.last + 1, old.last, reason))
            segment = old
        self.segments.append(segment)

    def _refuse_with_witness(self, damage: tuple[str, int], names: list[str]) -> None:
        damaged = self.last + 1
        # A record that is known to have been durable must not be cut: this is damage, not a torn tail.
        if damaged <= self._durable:
            raise LogDamaged(*damage, f"record {damaged} is incomplete, but record {self._durable} was durable")
        segment = self.segments[-1]
        found = find_witness(self._window(segment), segment.end, self.salt, damaged)
        file = segment.name
        for name in names:
            if found is None:
                file = name
                found = self._witness_in(name, damaged)
        if found is not None:
            reason = f"record {damaged} is incomplete, but record {found[0]} in {file} says that {found[1]} was durable"
            raise LogDamaged(*damage, reason)

    def _witness_in(self, name: str, damaged: int) -> tuple[int, int] | None:
        header = read_header(self._disk, name)
        if header is not None and header.salt == self.salt and header.synced >= damaged:
            return header.first, header.synced
        return find_witness(Window(self._disk, name, self._disk.size(name)), 0, self.salt, damaged)

    def _keep(self, segment_bytes_max: int) -> None:
        """Sync everything that was read, created or cut, and preallocate the cut segment again if there is space."""
        active = self.segments[-1]
        if self.cut is not None and all(damage.file != active.name for damage in self.damages):
            try:
                most = max(segment_bytes_max, HEADER_BYTES, active.end)
                capacity = active.end + fitting_bytes(self._disk, 0, most - active.end, 0)
                self._disk.allocate(active.name, capacity)
                active.capacity = capacity
            except DiskFull:
                pass  # the log can still be read, and has_room reports that it cannot be written
        for segment in self.segments:
            self._disk.sync(segment.name)
            if segment is not active:
                self._disk.release(segment.name)
        self._disk.sync_directory()
