"""What one peer sent: flow control for batches that are not applied yet, and for the parts of batches (parts.py).

`consumed_bytes` counts the bytes received since the last restart whose batch the local vector covers, in order of
arrival. The peer's window is measured by it, so at most one window of this peer's batches waits in the inbox. A part is
counted when it arrives, except the last one of its batch, which is counted with the batch: `batch_bytes_max` bounds an
incomplete batch, and the region bounds the incomplete batches of all sessions together.

A batch with an older restart number was sent before the peer knew of the restart and counts in no window. A duplicate
is counted at once and takes no memory here: a correct peer never sends one.
"""

from __future__ import annotations

from collections import deque

from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import BatchHeader, decode_header
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.parts import Assemblies, Assembly, Name, Numbered, read_name


class Intake:
    """The receiving half of a session."""

    __slots__ = (
        "_assemblies",
        "_batch_bytes_max",
        "_known",
        "_stalled",
        "_stalled_ms",
        "_waiting",
        "asks_again",
        "assembly",
        "consumed_bytes",
        "dropped",
        "numbered",
        "owed_bytes",
        "parts_dropped",
        "restart",
    )

    def __init__(self, assemblies: Assemblies, batch_bytes_max: int) -> None:
        self._assemblies = assemblies
        self._batch_bytes_max = batch_bytes_max
        self.restart = 0
        self.consumed_bytes = 0
        self._waiting: deque[tuple[int, int, int]] = deque()
        self._known: set[tuple[int, int]] = set()
        # The batch whose parts arrive; other links may bring it too.
        self.assembly: Assembly | None = None
        self.numbered = Numbered(batch_bytes_max)
        self.dropped = False
        # Parts that arrived while this link stalled are not counted yet.
        self._stalled = False
        self._stalled_ms = 0
        self.owed_bytes = 0
        # What was dropped must be sent again: a restart is due.
        self.asks_again = False
        # Parts of this peer are gone: its batches must begin at their start.
        self.parts_dropped = False

    def begin(self) -> int:
        """Begin a new restart number and with it a new window."""
        self.restart += 1
        self.consumed_bytes = self.owed_bytes = 0
        self._waiting.clear()
        self._known.clear()
        self.dropped = self.asks_again = self.parts_dropped = False
        return self.restart

    def drop(self) -> None:
        """A batch of this peer was not kept: nothing is counted any more until the restart that asks for it again."""
        self.dropped = True
        self._waiting.clear()
        self._known.clear()

    def ask_again(self) -> None:
        """There is room again: ask for what was dropped, if anything was."""
        self.asks_again = self.dropped

    def record(self, origin: int, last: int, size_bytes: int, restart: int) -> None:
        """Record the arrival of a batch of that origin up to that counter, of which `size_bytes` are not counted
        yet.
        """
        if restart != self.restart or self.dropped:
            return
        dot = (origin, last)
        if dot in self._known:
            self.consumed_bytes += size_bytes
        else:
            self._known.add(dot)
            self._waiting.append((*dot, size_bytes))

    def discount(self, vector: VersionVector) -> None:
        """Count the batches that the local vector covers by now."""
        waiting = self._waiting
        while waiting and vector.contains(waiting[0][0], waiting[0][1]):
            origin, last, size_bytes = waiting.popleft()
            self._known.discard((origin, last))
            self.consumed_bytes += size_bytes

    def add(self, part: wire.Part, vector: VersionVector) -> tuple[BatchHeader, bytes] | None:
        """Add a part; return the whole batch with its last part, unless the local vector covers it."""
        if not part.HasField("batch"):
            whole = self.numbered.add(part)
            if whole is None:
                self._consume(part)
                return None
            header = decode_header(whole)
            self.record(header.origin, header.last, len(part.payload), part.restart)
            return header, whole
        return self._add_named(part, vector)

    def _add_named(self, part: wire.Part, vector: VersionVector) -> tuple[BatchHeader, bytes] | None:
        name = origin, _, last, size_bytes = read_name(part.batch, self._batch_bytes_max)
        assembly = self.assembly
        if vector.contains(origin, last):
            assembly = None
        elif assembly is None or assembly.name != name:
            assembly = self._go_on(name, part)
        self.assembly = assembly
        if assembly is not None:
            self._assemblies.add(assembly, part.offset_bytes, part.payload)
        if part.offset_bytes + len(part.payload) < size_bytes:
            self._consume(part)
            return None
        self.assembly = None
        self.record(origin, last, len(part.payload), part.restart)
        return None if assembly is None else assembly.batch()

    def _go_on(self, name: Name, part: wire.Part) -> Assembly | None:
        """Open the assembly of a batch that begins, or goes on where the peer stopped; None if what the peer sent
        before is gone, so that it is asked for all of it. Meanwhile another link may have begun to bring the batch.
        """
        assembly = self._assemblies.open(name)
        if part.offset_bytes <= assembly.held_bytes:
            return assembly
        if not assembly.held_bytes:
            self._assemblies.drop(name)
        # An older part was sent before the restart that asks for it.
        if part.restart == self.restart:
            self.drop()
            self.parts_dropped = True
        return None

    def _consume(self, part: wire.Part) -> None:
        if part.restart == self.restart:
            self.owed_bytes += len(part.payload)
            self.stall(self._stalled)

    @property
    def has_parts(self) -> bool:
        """True while a batch is incomplete."""
        return self.numbered.held_bytes > 0 or (self.assembly is not None and self.assembly.held_bytes > 0)

    def stall(self, stalls: bool) -> None:
        """Count no parts for now, or all that were not counted."""
        self._stalled = stalls
        if not stalls:
            self.consumed_bytes += self.owed_bytes
            self.owed_bytes = self._stalled_ms = 0

    def stalls_for(self, passed_ms: int, most_ms: int) -> bool:
        """Advance the time for which parts have stalled; True once it is over."""
        self._stalled_ms += passed_ms if self._stalled else 0
        return self._stalled_ms >= most_ms

    def interrupt(self) -> None:
        """The peer sends no batches for now: an incomplete one is kept, and holds up no other link."""
        self.assembly = None

    def drop_parts(self) -> None:
        """Drop the incomplete batch."""
        if self.assembly is not None:
            self._assemblies.drop(self.assembly.name)
        self.assembly = None
        self.numbered = Numbered(self._batch_bytes_max)

    def check(self) -> None:
        self.numbered.check()
        assert self._known == {(origin, last) for origin, last, _ in self._waiting}, "waiting and known batches differ"
        assert all(size > 0 for _, _, size in self._waiting), "a batch without bytes waits"
