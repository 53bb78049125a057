"""What one peer is sent: a cursor into the log, the relay rule, a window in bytes, and the parts of batches that exceed
a message (parts.py).

Batches of all origins are sent in the order in which this region applied them. A batch is sent if the peer lacks it and
either this region is its origin or the peer has no direct link to its origin (the origin is none of its **direct**
origins). `_covered` is what the peer has applied or was sent here; it may lag for direct origins, whose batches reach
the peer over another link. When an origin stops being direct, batches may be missing from what was sent, so the peer
asks for a restart with its vector, and the cursor goes back to the first record that this vector lacks.

A reader is **behind** when the log was cut before its cursor or is damaged there, when the cursor reaches a join that
brought effects the peer lacks (see history.py), or a batch that is larger than what the peer takes: one of a region
that did not know the peer, or of a release that knew no bound. It is then sent nothing
until the peer covers what is missing or has received a full state transfer.

The window is open while the bytes sent since the last restart exceed the bytes consumed by less than `window_bytes`, so
one batch can always be sent, whatever its size. A restart opens a new window, because the old one may be full of
batches that depend on those that the restart brings.

It closes too when the peer has not confirmed `window_messages`. A message with one entry takes a peer nearly as long as
one with a hundred, and where it is short of processor time, a link would hold any number of small ones: what the peer
is behind is gathered in the log instead, and follows in large messages.

The cursor is the next position to read (inclusive); `served_position` is the last one that may be sent (inclusive).
"""

from __future__ import annotations

from collections import deque

from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import BATCH, JOINED, decode_joined
from crdtstream.protocols.log_port import LogRecord
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.parts import Cutter
from crdtstream.replication.log.history import History, fills
from crdtstream.replication.values.bounds import BATCH_BYTES_MAX

READS_MAX = 2
# A list for the payloads of whole batches that a message would only copy; None where they belong into the message.
Apart = list[bytes] | None


class Feed:
    """The sending half of a session."""

    __slots__ = (
        "_consumed_bytes",
        "_covered",
        "_cursor",
        "_flying",
        "_history",
        "_messages_max",
        "_next",
        "_past_bytes",
        "_read",
        "_sent_bytes",
        "_window_bytes",
        "_window_bytes_max",
        "batch_bytes_max",
        "behind",
        "cutter",
        "direct",
        "oversized",
        "restart",
    )

    def __init__(self, history: History, window_bytes: int, window_messages: int) -> None:
        self._history = history
        self._messages_max = window_messages
        # The bytes sent up to and including each message that is not confirmed.
        self._flying: deque[int] = deque()
        self._window_bytes = self._window_bytes_max = window_bytes
        self.direct: frozenset[int] = frozenset()
        self.restart = 0
        self.behind = False
        # What the peer takes, and the batches that are larger.
        self.batch_bytes_max = BATCH_BYTES_MAX
        self.oversized = VersionVector()
        self._covered = VersionVector()
        self._cursor = 0
        self._read: list[LogRecord] = []
        self._next = 0
        self._past_bytes = 0
        self._sent_bytes = 0
        self._consumed_bytes = 0
        self.cutter = Cutter()

    def begin(self, vector: VersionVector, direct: list[int], restart: int) -> None:
        """Serve what the vector lacks, in a new window."""
        self._covered = vector.copy()
        self.direct = frozenset(direct)
        self.restart = restart
        self._past_bytes += self._sent_bytes
        self._flying.clear()
        self._sent_bytes = 0
        self._consumed_bytes = 0
        self.fall_behind()
        self.catch_up()

    def grant(self, byte_count: int) -> None:
        """The peer takes no more than this ahead; 0 for the whole window."""
        self._window_bytes = min(byte_count or self._window_bytes_max, self._window_bytes_max)

    def fall_behind(self) -> None:
        self.behind = True
        self._read = []
        self._next = 0
        self.cutter.stop()

    def catch_up(self) -> bool:
        """Resume from the log if it now holds everything that the peer lacks, in batches that it takes."""
        if not self._covered.descends(self.oversized):
            return False
        position = self._history.position_for(self._covered, self.direct)
        if position is not None:
            self._cursor = position
            self.behind = False
        return position is not None

    def needed(self) -> VersionVector:
        """Return the vector that the peer must cover to be served from the log."""
        needed = self._history.needed()
        needed.merge(self.oversized)
        return needed

    def resume_after(self, position: int, vector: VersionVector) -> None:
        """Resume behind a full state transfer: the peer was sent the state at this log position and vector."""
        self._covered.merge(vector)
        self._cursor = position + 1
        self.behind = False

    @property
    def total_bytes(self) -> int:
        """The bytes of all batches sent, over all windows."""
        return self._past_bytes + self._sent_bytes

    def redirect(self, direct: list[int]) -> None:
        """Accept a larger set of origins that reach the peer over other links."""
        self.direct = frozenset(direct)

    def record_covered(self, vector: VersionVector) -> None:
        """Record that the peer has applied what this vector covers: it says so with every batch that it sends, so a
        batch is not sent back to it.
        """
        self._covered.merge(vector)

    def covers(self, vector: VersionVector) -> bool:
        """Return whether the peer has applied, or was sent, everything that this vector covers."""
        return self._covered.descends(vector)

    def record_progress(self, consumed_bytes: int, applied: VersionVector | None) -> None:
        """Record what the peer has consumed of its window, and what else it has applied, if it says so."""
        if consumed_bytes <= self._sent_bytes:
            self._consumed_bytes = max(self._consumed_bytes, consumed_bytes)
            while self._flying and self._flying[0] <= self._consumed_bytes:
                self._flying.popleft()
        if applied is not None:
            self.record_covered(applied)

    def fill(
        self,
        message: wire.Message,
        bytes_max: int,
        served_position: int,
        own_origin: int,
        apart: Apart = None,
    ) -> bool:
        """Add the batches that are due, up to `bytes_max`; to the list `apart`, if there is one, and then the message
        only says that there are batches. True if none was found within `READS_MAX` reads but the log goes on.
        """
        if self.behind:
            return False
        if self.cutter.is_cutting():
            self._fill_part(message, bytes_max)
            return False
        payloads: list[bytes] = []
        size = 0
        reads = 0
        while self._window_open(size):
            if self._next == len(self._read):
                self._pass_recent(served_position, own_origin)
                if reads == READS_MAX or not self._refill(bytes_max, served_position):
                    break
                reads += 1
            position, kind, payload = self._read[self._next]
            if kind == JOINED and not fills(decode_joined(payload)[1], self._covered, self.direct):
                self.fall_behind()
                break
            if size and size + len(payload) > bytes_max:
                break
            self._next += 1
            if kind != BATCH or not self._claim(position, payload, own_origin):
                continue
            if len(payload) > bytes_max:
                self.cutter.begin(payload, bytes_max)
                self._fill_part(message, bytes_max)
                return False
            payloads.append(payload)
            size += len(payload)
        if payloads:
            self._sent_bytes += size
            self._flying.append(self._sent_bytes)
            message.batches.restart = self.restart
            if apart is None:
                message.batches.payloads.extend(payloads)
            else:
                message.batches.SetInParent()
                apart += payloads
        return reads == READS_MAX and not payloads

    # Strictly less: with an empty window one batch is always sent, even one larger than the window.
    def _window_open(self, size: int) -> bool:
        room = self._sent_bytes + size - self._consumed_bytes < self._window_bytes
        return room and len(self._flying) < self._messages_max

    def _refill(self, bytes_max: int, served_position: int) -> bool:
        if self._cursor < self._history.first_position():
            self.fall_behind()
            self.catch_up()
        if self.behind or self._cursor > served_position:
            return False
        records = self._history.read(self._cursor, bytes_max)
        # The read met damage, and the log now begins behind it.
        if self._cursor < self._history.first_position():
            return self._refill(bytes_max, served_position)
        self._read = [record for record in records if record[0] <= served_position]
        self._next = 0
        if not self._read:
            return False
        self._cursor = self._read[-1][0] + 1
        return True

    def _pass_recent(self, served_position: int, own_origin: int) -> None:
        """Move the cursor past the newest batches that are not due, without reading them: a region that only receives
        has no others. Not where the history has been cut: what the state behind the cut has beyond those batches may
        be due.
        """
        while self._history.first_position() <= self._cursor <= served_position:
            head = self._history.recent_head(self._cursor)
            if head is None or self._is_due(head[0], head[1], own_origin):
                return
            self._cursor += 1

    def _claim(self, position: int, payload: bytes, own_origin: int) -> bool:
        """Return whether this batch is due; if so, mark it as covered. One that the peer never takes ends the reading:
        the peer needs a state that has it.
        """
        origin, last = self._history.head(position, payload)
        if not self._is_due(origin, last, own_origin):
            return False
        if len(payload) > self.batch_bytes_max:
            self.oversized.advance(origin, last)
            self.fall_behind()
            return False
        self._covered.advance(origin, last)
        return True

    def _is_due(self, origin: int, last: int, own_origin: int) -> bool:
        """Return whether the peer lacks the batch of this origin up to this counter, and must get it from here."""
        if origin in self.direct and origin != own_origin:
            return False
        return not self._covered.contains(origin, last)

    def _fill_part(self, message: wire.Message, bytes_max: int) -> None:
        """Add the next part if the window is open."""
        if self._window_open(0):
            message.part.CopyFrom(self.cutter.part(self.restart, bytes_max))
            self._sent_bytes += len(message.part.payload)

    def check(self) -> None:
        assert 0 <= self._consumed_bytes <= self._sent_bytes, "more was consumed than sent"
        assert 0 <= self._next <= len(self._read), "the cursor is outside what was read"
        self._covered.check()
