"""Batches that wait: two gates, two questions.

    is there a gap in this origin?           a batch passes when its first counter follows what is applied of its origin
    have I everything its context names?     a batch passes when the own vector descends its context

What passes both may be applied at once; so delivery is FIFO for each origin and causal across them. An origin's batches
never overlap, because each is relayed in the bytes that its origin made: one that begins below the own vector and ends
above it, or that begins like a waiting one and ends elsewhere, is an `InboxError` and is not taken.

Invariant: a waiting batch was not covered by the vector when it was offered. One that the vector covers since then, by
whatever way, is dropped when `next` meets it. Memory is bounded by the windows of the peers, not here.

Reference: the causal delivery of AntidoteDB (`inter_dc_sub_buf`, `inter_dc_dep_vnode`).
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush

from crdtstream.core.causality import VersionVector
from crdtstream.protocols.codec import BatchHeader

Arrival = tuple[BatchHeader, bytes]


class InboxError(ValueError):
    """A batch that cannot belong to its origin's history."""


class _Queue:
    """What waits of one origin: by first counter, and the first counters as a heap."""

    __slots__ = ("arrivals", "firsts")

    def __init__(self) -> None:
        self.arrivals: dict[int, Arrival] = {}
        self.firsts: list[int] = []

    def pop(self) -> Arrival:
        return self.arrivals.pop(heappop(self.firsts))


class Inbox:
    """Batches of every origin that came before what they need."""

    __slots__ = ("_queues", "_slots", "waiting_bytes", "waiting_count")

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}
        self._slots: list[int] = []
        self.waiting_count = 0
        self.waiting_bytes = 0

    def offer(self, header: BatchHeader, payload: bytes, vector: VersionVector) -> None:
        """Take a batch in, unless the vector covers it or it waits already."""
        have = vector.get(header.slot)
        if header.last <= have:
            return
        if header.first <= have:
            raise InboxError(f"batch {header.first}..{header.last} of slot {header.slot}, of which {have} are applied")
        queue = self._queue(header.slot)
        held = queue.arrivals.get(header.first)
        if held is None:
            queue.arrivals[header.first] = (header, payload)
            heappush(queue.firsts, header.first)
            self.waiting_count += 1
            self.waiting_bytes += len(payload)
        elif held[0].last != header.last:
            raise InboxError(
                f"two batches of slot {header.slot} begin at {header.first}: ..{held[0].last}, ..{header.last}"
            )

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
            if queue.firsts and queue.firsts[0] == have + 1 and vector.descends(queue.arrivals[have + 1][0].context):
                return self._taken(queue.pop())
        return None

    def _taken(self, arrival: Arrival) -> Arrival:
        self.waiting_count -= 1
        self.waiting_bytes -= len(arrival[1])
        return arrival

    def drop(self, slot: int) -> None:
        """Forget what waits of an origin."""
        queue = self._queues.pop(slot, None)
        if queue is None:
            return
        self._slots.remove(slot)
        for arrival in queue.arrivals.values():
            self._taken(arrival)

    def check(self) -> None:
        assert self._slots == sorted(self._queues), "slots and queues differ"
        count = size = 0
        for slot, queue in self._queues.items():
            assert sorted(queue.firsts) == sorted(queue.arrivals), f"heap and arrivals of slot {slot} differ"
            for first, (header, payload) in queue.arrivals.items():
                assert (header.slot, header.first) == (slot, first), "a batch waits in another's place"
                count += 1
                size += len(payload)
        assert (count, size) == (self.waiting_count, self.waiting_bytes), "the totals do not add up"
