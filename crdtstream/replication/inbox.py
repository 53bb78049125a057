"""Batches that wait: two gates, two questions.

    is there a gap in this origin?           a batch passes when its first counter follows what is applied of its origin
    have I everything its context names?     a batch passes when the own vector descends its context

What passes both may be applied at once; so delivery is FIFO for each origin and causal across them. An origin's batches
never overlap, because each is relayed in the bytes that its origin made: one that begins below the own vector and ends
above it, or that begins like a waiting one and ends elsewhere, is an `InboxError` and is not taken.

Invariant: a waiting batch was not covered by the vector when it was offered. One that the vector covers since then, by
whatever way, is dropped when `next` meets it. The windows of sound peers bound memory; for others, `held_bytes` says
what of it is taken, and `shed` drops what came over one link alone.

Reference: the causal delivery of AntidoteDB (`inter_dc_sub_buf`, `inter_dc_dep_vnode`).
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from typing import Final

from crdtstream.core.causality import VersionVector
from crdtstream.protocols.codec import BatchHeader

# A batch and the links that brought it.
Arrival = tuple[BatchHeader, bytes, list[int]]

# What a batch takes of memory besides its bytes, and a row of its context.
ARRIVAL_BYTES: Final = 600
ROW_BYTES: Final = 110


class InboxError(ValueError):
    """A batch that cannot belong to its origin's history."""


class _Waiting:
    """An arrival, and what it takes of memory."""

    __slots__ = ("arrival", "held_bytes", "links")

    def __init__(self, header: BatchHeader, payload: bytes, link: int) -> None:
        self.links = [link]
        self.arrival: Arrival = (header, payload, self.links)
        self.held_bytes = len(payload) + ARRIVAL_BYTES + ROW_BYTES * header.context.slot_count()


class _Queue:
    """What waits of one origin: by first counter, and the first counters as a heap."""

    __slots__ = ("arrivals", "firsts")

    def __init__(self) -> None:
        self.arrivals: dict[int, _Waiting] = {}
        self.firsts: list[int] = []

    def pop(self) -> _Waiting:
        return self.arrivals.pop(heappop(self.firsts))

    def follows(self, have: int, vector: VersionVector) -> bool:
        """The one behind this counter has all its context."""
        return vector.descends(self.arrivals[have + 1].arrival[0].context)

    def keep(self, arrivals: dict[int, _Waiting]) -> None:
        self.arrivals = arrivals
        self.firsts = sorted(arrivals)


class Inbox:
    """Batches of every origin that came before what they need."""

    __slots__ = ("_held", "_queues", "_slots", "held_bytes", "waiting_bytes", "waiting_count")

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}
        self._slots: list[int] = []
        self._held: dict[int, int] = {}
        self.waiting_count = 0
        self.waiting_bytes = 0
        self.held_bytes = 0

    def offer(self, header: BatchHeader, payload: bytes, vector: VersionVector, link: int = 0) -> None:
        """Take a batch in, unless the vector covers it or it waits already."""
        have = vector.get(header.slot)
        if header.last <= have:
            return
        if header.first <= have:
            raise InboxError(f"batch {header.first}..{header.last} of slot {header.slot}, of which {have} are applied")
        queue = self._queue(header.slot)
        held = queue.arrivals.get(header.first)
        if held is None:
            held = queue.arrivals[header.first] = _Waiting(header, payload, link)
            heappush(queue.firsts, header.first)
            self.waiting_count += 1
            self.waiting_bytes += len(payload)
            self.held_bytes += held.held_bytes
            self._held[link] = self._held.get(link, 0) + held.held_bytes
            return
        last = held.arrival[0].last
        if last != header.last:
            raise InboxError(f"two batches of slot {header.slot} begin at {header.first}: ..{last}, ..{header.last}")
        if link not in held.links:
            held.links.append(link)
            self._held[link] = self._held.get(link, 0) + held.held_bytes

    def _queue(self, slot: int) -> _Queue:
        queue = self._queues.get(slot)
        if queue is None:
            queue = self._queues[slot] = _Queue()
            insort(self._slots, slot)
        return queue

    def next(self, vector: VersionVector) -> Arrival | None:
        """A batch that passes both gates now, of the lowest slot that has one; it waits no longer."""
        for slot in self._slots:
            queue = self._queues[slot]
            have = vector.get(slot)
            while queue.firsts and queue.firsts[0] <= have:
                self._taken(queue.pop())
            if queue.firsts and queue.firsts[0] == have + 1 and queue.follows(have, vector):
                return self._taken(queue.pop())
        return None

    def _taken(self, waiting: _Waiting) -> Arrival:
        self.waiting_count -= 1
        self.waiting_bytes -= len(waiting.arrival[1])
        self.held_bytes -= waiting.held_bytes
        for link in waiting.links:
            self._release(link, waiting.held_bytes)
        return waiting.arrival

    def _release(self, link: int, held_bytes: int) -> None:
        self._held[link] -= held_bytes
        if not self._held[link]:
            del self._held[link]

    def shed(self) -> int:
        """Forget what came over one link alone, the one that brought most of all that waits; which one it is."""
        link = max(self._held, key=self._held.__getitem__)
        for slot in self._slots[:]:
            kept: dict[int, _Waiting] = {}
            for first, waiting in self._queues[slot].arrivals.items():
                if waiting.links == [link]:
                    self._taken(waiting)
                else:
                    self._leave(waiting, link)
                    kept[first] = waiting
            self._queues[slot].keep(kept)
            if not kept:
                del self._queues[slot]
                self._slots.remove(slot)
        return link

    def _leave(self, waiting: _Waiting, link: int) -> None:
        if link in waiting.links:
            waiting.links.remove(link)
            self._release(link, waiting.held_bytes)

    def check(self) -> None:
        assert self._slots == sorted(self._queues), "slots and queues differ"
        count = size = held_bytes = 0
        held: dict[int, int] = {}
        for slot, queue in self._queues.items():
            assert sorted(queue.firsts) == sorted(queue.arrivals), f"heap and arrivals of slot {slot} differ"
            for first, waiting in queue.arrivals.items():
                header, payload, _ = waiting.arrival
                assert (header.slot, header.first) == (slot, first), "a batch waits in another's place"
                count += 1
                size += len(payload)
                held_bytes += waiting.held_bytes
                for link in waiting.links:
                    held[link] = held.get(link, 0) + waiting.held_bytes
        assert (count, size) == (self.waiting_count, self.waiting_bytes), "the totals do not add up"
        assert (held_bytes, held) == (self.held_bytes, self._held), "what is held does not add up"
