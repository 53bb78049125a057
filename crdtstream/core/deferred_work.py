"""Deferred work: tasks without a client that may need spilled blocks, such as a batch of a peer, a tick, the end of a
turn.

A deferred task changes nothing before all blocks that it needs are there. If some are missing, they are read on a
thread, and it is run again with what was read, by its owner: at once by `then`, or when it is looked at next. If a read
fails, or brings other bytes than were written, `then` is not called: the task is tried again at a tick, so that a disk
in trouble keeps one task waiting and not the region.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, Protocol

from crdtstream.core.entries.spilled import BlockHandle, NotAtOnce
from crdtstream.core.replica import Replica

# What was read is kept for so many ticks, if nobody runs its task again.
TICKS_MAX: Final = 50


class AwaitedRead(Protocol):
    """Blocks that are being read; once that is `done`, `held` has their packed forms."""

    handles: list[BlockHandle]
    held: dict[BlockHandle, bytes]
    done: bool


class ColdReads(Protocol):
    """The reads of a region (connections/blocks/reads.py)."""

    def begin(self, missing: NotAtOnce, held: dict[BlockHandle, bytes], then: Callable[[], None], /) -> AwaitedRead: ...


def nothing() -> None:
    """For a deferred task that is looked at again anyway."""


class DeferredWork:
    """The deferred tasks of one region that wait for blocks, by name. `failures` counts the reads that did not help."""

    __slots__ = ("_replica", "_ticks", "_waiting", "block_reads", "failures", "held_up")

    def __init__(self, replica: Replica, block_reads: ColdReads | None = None) -> None:
        self._replica = replica
        # None until the region is complete; before, nothing is spilled.
        self.block_reads = block_reads
        self.failures = 0
        # The tasks whose last read did not help, each with a block that it could not read.
        self.held_up: dict[Hashable, BlockHandle] = {}
        self._waiting: dict[Hashable, AwaitedRead] = {}
        # For how many ticks what was read for a deferred task has been kept.
        self._ticks: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def awaits(self, name: Hashable) -> bool:
        """True while blocks are read for this task."""
        block_read = self._waiting.get(name)
        return block_read is not None and not block_read.done

    def run(
        self, name: Hashable, work: Callable[[], object], then: Callable[[], None] = nothing, is_patient: bool = True
    ) -> bool:
        """Run a deferred task; false if it waits for blocks, and has changed nothing. An impatient one does not wait
        for a block that could not be read: it raises what reading it raises.
        """
        reads, block_reads = self._replica.reads, self.block_reads
        if not reads.on or block_reads is None:
            work()
            return True
        held: dict[BlockHandle, bytes] = {}
        if self._waiting:
            if self.awaits(name):
                return False
            held = self._pop_held(name, is_patient)
        reads.begin(held)
        try:
            work()
        except NotAtOnce as missing:
            self._waiting[name] = block_reads.begin(missing, held, partial(self._end, name, then))
            return False
        finally:
            reads.end()
            if not is_patient:
                self.held_up.pop(name, None)
        self.held_up.pop(name, None)
        return True

    def put_off(self, name: Hashable, then: Callable[[], None]) -> None:
        """Call `then` between two later turns, as if blocks were read meanwhile: for a deferred task in many parts."""
        assert self.block_reads is not None, "nothing is put off before the region is complete"
        self._waiting[name] = self.block_reads.begin(NotAtOnce([]), {}, partial(self._end, name, then))

    def _pop_held(self, name: Hashable, is_patient: bool) -> dict[BlockHandle, bytes]:
        self._ticks.pop(name, None)
        block_read = self._waiting.pop(name, None)
        held = {} if block_read is None else block_read.held
        return {handle: packed for handle, packed in held.items() if not is_patient or handle.is_whole(packed)}

    def _end(self, name: Hashable, then: Callable[[], None]) -> None:
        block_read = self._waiting.get(name)
        if block_read is None or not block_read.done:
            return
        lost = [handle for handle in block_read.handles if not handle.is_whole(block_read.held[handle])]
        if lost:
            self.failures += 1
            self.held_up[name] = lost[0]
        else:
            self.held_up.pop(name, None)
            then()

    def tick(self) -> None:
        """Drop what was read for tasks that nobody runs again."""
        for name in [name for name, block_read in self._waiting.items() if block_read.done]:
            self._ticks[name] = self._ticks.get(name, 0) + 1
            if self._ticks[name] > TICKS_MAX:
                self.forget(name)

    def forget(self, name: Hashable) -> None:
        self._waiting.pop(name, None)
        self._ticks.pop(name, None)
        self.held_up.pop(name, None)
