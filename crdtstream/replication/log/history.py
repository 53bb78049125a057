"""The log as it is served to peers, and the position at which to begin for a peer with a given vector.

A **milestone** `(position, vector)` states that `vector` covers every batch before `position` (exclusive). About one in
every `MILESTONE_RECORDS` records has a milestone, and so has the beginning of the log. Vectors ascend with positions,
so the milestones that a peer's vector descends are the earlier ones, and the last of these is where to begin. Batches
beyond it that the peer already has are filtered out by the reader.

A **gap** `(position, vector)` stands for a state transfer that was joined at this position: its effects are in no batch
of the log. A peer that lacks any of them is not served past the gap. Origins whose batches reach the peer over their
own link (its direct origins) do not count.

A log may turn out to be **damaged** while it is read. It then drops everything up to the damage, as if it had been cut
there, and a milestone is kept for the position where it goes on.

After a region has **started over** from another region's state, nothing that its log holds from before is served: the
history begins behind it, as if the log had been cut there.

A log that was cut at its beginning serves a peer only from a milestone that is still retained. A checkpoint keeps about
one for the beginning of each segment and one for the position where the replay begins; the replay adds the others. If
the log begins before the first milestone, the batches in between show which vector covers everything before it.

What was appended is **unsynced** until the disk has it. A batch and a gap are noted with what they add, so that the
vector of what is durable grows by that much, however many origins there ever were.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import BATCH, decode_header
from crdtstream.protocols.log_port import Damage, LogReader, LogRecord

MILESTONE_RECORDS: Final = 256
READ_BYTES: Final = 1 << 20
HEADS_KEPT: Final = 4096
READS_KEPT: Final = 4


class History:
    """The log as peers see it; during recovery there is no log and nothing to read."""

    __slots__ = (
        "_after",
        "_gaps",
        "_headed",
        "_heads",
        "_milestones",
        "_reads",
        "_unsynced",
        "_vector",
        "beginning",
        "log",
    )

    def __init__(self, log: LogReader | None = None) -> None:
        self.log = log
        # Nothing before this position is served.
        self.beginning = 1
        self._milestones: list[tuple[int, VersionVector]] = [(1, VersionVector())]
        self._gaps: list[tuple[int, VersionVector]] = []
        self._after, self._vector = self._milestones[0]
        # Position -> origin and last counter, for the newest batches.
        self._heads: dict[int, tuple[int, int]] = {}
        # Their positions: a dictionary would search for its first key behind all that were removed before.
        self._headed: deque[int] = deque()
        # The last reads, by what was asked and the extent of the log then: links that keep up all ask for the same.
        self._reads: dict[tuple[int, int, int, int], list[LogRecord]] = {}
        # Position, origin and last counter, positions ascending.
        self._unsynced: deque[tuple[int, int, int]] = deque()

    def open(self, log: LogReader, position: int, vector: VersionVector) -> None:
        """After the replay: serve from this log, whose records up to this position hold what the vector covers."""
        self.log = log
        self._await(position, vector)

    def record(self, position: int, origin: int, last: int, vector: VersionVector) -> None:
        """Record a batch at this log position, of that origin and up to that counter. `vector` covers it and everything
        before it, and is copied if it is kept.
        """
        after = position + 1
        self._heads[position] = (origin, last)
        self._headed.append(position)
        if len(self._heads) > HEADS_KEPT:
            del self._heads[self._headed.popleft()]
        if self.log is not None:
            self._unsynced.append((position, origin, last))
        self._after, self._vector = after, vector
        if after - self._milestones[-1][0] >= MILESTONE_RECORDS:
            self._milestones.append((after, vector.copy()))

    def head(self, position: int, payload: bytes) -> tuple[int, int]:
        """Return origin and last counter of the batch at this position, without decoding it if it is recent."""
        head = self.recent_head(position)
        if head is None:
            header = decode_header(payload)
            head = (header.origin, header.last)
        return head

    def recent_head(self, position: int) -> tuple[int, int] | None:
        """Return origin and last counter of one of the newest batches; None for what else is at this position."""
        return self._heads.get(position)

    def record_gap(self, position: int, gap: VersionVector, vector: VersionVector) -> None:
        """Record that a state was joined at this position; `vector` covers it and everything before it."""
        self._gaps.append((position, gap))
        self._await(position, gap)
        self._after, self._vector = position + 1, vector
        self.mark(position + 1, vector)

    def begin_again(self, position: int, vector: VersionVector) -> None:
        """Serve only from this position on, where another state with this vector replaced the old one."""
        self.beginning = position
        self._milestones = [(position, vector.copy())]
        self._gaps = []
        self._unsynced.clear()
        self._await(position - 1, vector)
        self._after, self._vector = position, vector

    def _await(self, position: int, vector: VersionVector) -> None:
        if self.log is not None:
            self._unsynced.extend([(position, origin, counter) for origin, counter in vector.items()])

    def record_synced(self, position: int, durable: VersionVector) -> None:
        """Raise the vector of what is durable: the log is on the disk up to this position."""
        unsynced = self._unsynced
        while unsynced and unsynced[0][0] <= position:
            _, origin, last = unsynced.popleft()
            durable.advance(origin, last)

    def position_for(self, vector: VersionVector, direct: Collection[int] = ()) -> int | None:
        """Return the position from which (inclusive) the log holds everything that the vector lacks; None if it does
        not.
        """
        first = 0
        # Reading for the beginning milestone may find damage, which moves the beginning: repeat until it stays.
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
        """Return the vector that a peer must cover to be served from the log."""
        first = self.first_position()
        at = min(self._index_from(first), len(self._milestones) - 1)
        needed = self._milestones[at][1].copy()
        for position, gap in self._gaps:
            if position >= first:
                needed.merge(gap)
        return needed

    def first_position(self) -> int:
        return self.beginning if self.log is None else max(self.beginning, self.log.first_position)

    def _forget_cut(self) -> None:
        """Drop milestones before the log's beginning, except the last one, from which `record` measures distances."""
        first = self.first_position()
        count = 0
        while count + 1 < len(self._milestones) and self._milestones[count][0] < first:
            count += 1
        del self._milestones[:count]
        self._gaps = [gap for gap in self._gaps if gap[0] >= first]

    def _mark_beginning(self) -> None:
        """Insert a milestone for the log's first position: the next one's vector minus the batches between the two."""
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
                    if header.origin not in seen:
                        counters[header.origin] = header.first - 1
                        seen.add(header.origin)
        self._milestones.insert(0, (first, VersionVector(counters)))

    def damages(self) -> list[Damage]:
        return [] if self.log is None else self.log.damages

    # Checkpoints

    def mark(self, position: int, vector: VersionVector) -> None:
        """Add a milestone that covers everything in the log so far, all of which lies before this position."""
        if self._milestones[-1][0] < position:
            self._milestones.append((position, vector.copy()))

    def milestones_at(self, positions: list[int]) -> list[tuple[int, VersionVector]]:
        """For each of these ascending positions, the first milestone at or after it."""
        found: list[tuple[int, VersionVector]] = []
        for position in positions:
            at = self._index_from(position)
            if at < len(self._milestones) and (not found or found[-1][0] < self._milestones[at][0]):
                found.append(self._milestones[at])
        return found

    def gaps(self) -> list[tuple[int, VersionVector]]:
        """The gaps at or after the log's beginning."""
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
        """Restore the milestones of a checkpoint, which keeps its own; the last one is where the replay begins."""
        self._milestones = milestones[:]
        self._after, self._vector = milestones[-1]

    def restore_gap(self, position: int, gap: VersionVector) -> None:
        self._gaps.append((position, gap))

    def read(self, position: int, bytes_max: int) -> list[LogRecord]:
        """Read from the log; nobody may change what is returned. If the log resumes behind damage, add a milestone
        there, so that peers that are up to date can be served.
        """
        log = self.log
        if log is None:
            return []
        first = log.first_position
        asked = (position, bytes_max, first, log.last_position)
        known = self._reads.get(asked)
        if known is not None:
            return known
        records = log.read(position, bytes_max)
        if log.first_position != first:
            self.mark(max(self._after, log.last_position + 1), self._vector)
        elif bytes_max < READ_BYTES:  # what is kept is bounded
            self._reads[asked] = records
            if len(self._reads) > READS_KEPT:
                del self._reads[next(iter(self._reads))]
        return records

    def check(self) -> None:
        assert self._milestones, "no milestone"
        for (low, before), (high, after) in zip(self._milestones, self._milestones[1:], strict=False):
            assert low < high, f"milestones {low} and {high} do not ascend"
            assert after.descends(before), f"the vector shrinks between {low} and {high}"
        for (low, _), (high, _) in zip(self._gaps, self._gaps[1:], strict=False):
            assert low < high, f"gaps {low} and {high} do not ascend"
        positions = [position for position, _, _ in self._unsynced]
        assert positions == sorted(positions), "the unsynced positions do not ascend"
        assert list(self._headed) == list(self._heads), "the queue of the newest batches is not that of their table"


def fills(gap: VersionVector, vector: VersionVector, direct: Collection[int]) -> bool:
    """Return whether a reader with this vector lacks nothing of the gap, apart from origins that it hears directly."""
    return all(vector.contains(origin, counter) or origin in direct for origin, counter in gap.items())
