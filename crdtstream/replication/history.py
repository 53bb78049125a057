"""What peers are served from: the log, and at which position to begin for a peer that has a given vector.

A **milestone** `(position, vector)` says: every batch before `position` (exclusive) is covered by `vector`. One is kept
for about every `MILESTONE_RECORDS` records, and one for the log's beginning. Their vectors ascend with their positions,
so the milestones that a peer's vector descends are the earlier ones, and the last of these is where to begin. What a
peer has beyond it is filtered out by whoever reads.

A **gap** `(position, vector)` is what a state transfer brought that was joined at this position: effects that are in no
batch of the log. Who lacks one of them is not served past it. Origins whose batches reach the reader from their own
region (its direct slots) do not count.

A log may turn out to be **damaged** while it is read. It forgets all up to there, so from then on it begins behind the
damage, as if it had been cut; a milestone is kept for where it goes on.

A log that was cut at its beginning serves a peer only from a milestone that is still retained. A checkpoint keeps one
for about the beginning of each segment, and one for the place where the replay begins; the rest comes with the replay.
Where the log begins before the first of them, what lies between tells which vector covers all before it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

from crdtstream.core.causality import VersionVector
from crdtstream.protocols.codec import BATCH, decode_header

MILESTONE_RECORDS: Final = 256
READ_BYTES: Final = 1 << 20

LogRecord = tuple[int, int, bytes]


class Damage:
    """What of the log could not be read: where it was met, and the last record that is lost to peers (inclusive)."""

    __slots__ = ("file", "offset", "reason", "record", "through")

    def __init__(self, file: str, offset: int, record: int, through: int, reason: str) -> None:
        self.file = file
        self.offset = offset
        self.record = record
        self.through = through
        self.reason = reason

    def __repr__(self) -> str:
        return f"Damage({self.file} at byte {self.offset}, record {self.record}: {self.reason})"


class LogReader(Protocol):
    """The port to the log. Positions are inclusive."""

    @property
    def first_position(self) -> int:
        """The first retained record, or the first to come."""

    @property
    def last_position(self) -> int: ...

    def read(self, position: int, bytes_max: int) -> list[LogRecord]:
        """(position, kind, payload) from `position` on: up to `bytes_max`, or one record that is larger.

        Empty where the record cannot be read; the log begins behind it then.
        """

    def bytes_from(self, position: int) -> int:
        """About how many bytes of the log lie from there on."""

    @property
    def damages(self) -> list[Damage]:
        """What could not be read since the start."""


class History:
    """The log as peers see it; without a log, during recovery, there is nothing to read."""

    __slots__ = ("_after", "_gaps", "_milestones", "_vector", "log")

    def __init__(self, log: LogReader | None = None) -> None:
        self.log = log
        self._milestones: list[tuple[int, VersionVector]] = [(1, VersionVector())]
        self._gaps: list[tuple[int, VersionVector]] = []
        self._after, self._vector = self._milestones[0]

    def note(self, position: int, vector: VersionVector) -> None:
        """A batch has this position in the log; `vector` covers it and all before it, and is copied when it is kept."""
        after = position + 1
        self._after, self._vector = after, vector
        if after - self._milestones[-1][0] >= MILESTONE_RECORDS:
            self._milestones.append((after, vector.copy()))

    def note_gap(self, position: int, gap: VersionVector, vector: VersionVector) -> None:
        """A state was joined at this position; `vector` covers it and all before it."""
        self._gaps.append((position, gap))
        self._after, self._vector = position + 1, vector
        self.mark(position + 1, vector)

    def position_for(self, vector: VersionVector, direct: Collection[int] = ()) -> int | None:
        """From here on (inclusive) lies everything that the vector lacks; None when the log does not cover that."""
        first = 0
        while first != self.first_position():
            first = self.first_position()
            self._forget_cut()
            self._mark_beginning()
        milestones = self._milestones
        low, high = 0, len(milestones)
        while low < high:
            middle = (low + high) // 2
            if vector.descends(milestones[middle][1]):
                low = middle + 1
            else:
                high = middle
        if low == 0 or milestones[low - 1][0] < self.first_position():
            return None
        begin = milestones[low - 1][0]
        gaps = [gap for position, gap in self._gaps if position >= begin]
        return begin if all(fills(gap, vector, direct) for gap in gaps) else None

    def needed(self) -> VersionVector:
        """Who covers this is served from the log."""
        first = self.first_position()
        at = min(self._index_from(first), len(self._milestones) - 1)
        needed = self._milestones[at][1].copy()
        for position, gap in self._gaps:
            if position >= first:
                needed.merge(gap)
        return needed

    def first_position(self) -> int:
        return 1 if self.log is None else self.log.first_position

    def _forget_cut(self) -> None:
        """Drop milestones before the log's beginning, but for the last one, from which `note` measures."""
        first = self.first_position()
        count = 0
        while count + 1 < len(self._milestones) and self._milestones[count][0] < first:
            count += 1
        del self._milestones[:count]
        self._gaps = [gap for gap in self._gaps if gap[0] >= first]

    def _mark_beginning(self) -> None:
        """A milestone for the log's first position: less than the next one by the batches that lie between."""
        first = self.first_position()
        following, vector = self._milestones[0]
        if first >= following:
            return
        counters = vector.as_dict()
        seen: set[int] = set()
        position = first
        while position < following:
            records = self.read(position, READ_BYTES)
            if not records:
                return
            for number, kind, payload in records:
                position = number + 1
                if kind == BATCH and number < following:
                    header = decode_header(payload)
                    if header.slot not in seen:
                        counters[header.slot] = header.first - 1
                        seen.add(header.slot)
        self._milestones.insert(0, (first, VersionVector(counters)))

    def damages(self) -> list[Damage]:
        return [] if self.log is None else self.log.damages

    # Checkpoints

    def mark(self, position: int, vector: VersionVector) -> None:
        """All that is in the log by now lies before this position."""
        if self._milestones[-1][0] < position:
            self._milestones.append((position, vector.copy()))

    def milestones_at(self, positions: list[int]) -> list[tuple[int, VersionVector]]:
        """For each of these ascending positions the first milestone at or after it."""
        found: list[tuple[int, VersionVector]] = []
        for position in positions:
            at = self._index_from(position)
            if at < len(self._milestones) and (not found or found[-1][0] < self._milestones[at][0]):
                found.append(self._milestones[at])
        return found

    def gaps(self) -> list[tuple[int, VersionVector]]:
        """Those at or behind the log's beginning."""
        self._forget_cut()
        return self._gaps[:]

    def _index_from(self, position: int) -> int:
        low, high = 0, len(self._milestones)
        while low < high:
            middle = (low + high) // 2
            if self._milestones[middle][0] < position:
                low = middle + 1
            else:
                high = middle
        return low

    def restore(self, milestones: list[tuple[int, VersionVector]]) -> None:
        """Those that a checkpoint kept; the last one stands where the replay begins."""
        self._milestones = milestones
        self._after, self._vector = milestones[-1]

    def restore_gap(self, position: int, gap: VersionVector) -> None:
        self._gaps.append((position, gap))

    def read(self, position: int, bytes_max: int) -> list[LogRecord]:
        """As the log does; where it begins anew behind damage, who has all that is here by now can be served."""
        log = self.log
        if log is None:
            return []
        first = log.first_position
        records = log.read(position, bytes_max)
        if log.first_position != first:
            self.mark(max(self._after, log.last_position + 1), self._vector)
        return records

    def check(self) -> None:
        assert self._milestones, "no milestone"
        for (low, before), (high, after) in zip(self._milestones, self._milestones[1:], strict=False):
            assert low < high, f"milestones {low} and {high} do not ascend"
            assert after.descends(before), f"the vector shrinks between {low} and {high}"
        for (low, _), (high, _) in zip(self._gaps, self._gaps[1:], strict=False):
            assert low < high, f"gaps {low} and {high} do not ascend"


def fills(gap: VersionVector, vector: VersionVector, direct: Collection[int]) -> bool:
    """Whether a reader with this vector lacks nothing of the gap, but for what it gets from elsewhere."""
    return all(vector.contains(slot, counter) or slot in direct for slot, counter in gap.items())
