"""Batches that wait at three gates.

    are earlier batches of this origin missing?    passes if the first counter follows the origin's applied ones
    is a dependency missing?                       passes if the local vector descends the batch's context
    is room missing?                               passes if there is room, or if the batch brings no data (holding.py)

One that passes them and needs spilled blocks (core/foreseeing.py) is put back until they were read.

A batch that passes the first two gates may be applied at once, if there is room, so delivery is FIFO within an origin
and causal across origins. Batches of one origin never overlap, because they are relayed in the bytes that their origin
made. A batch that begins below the local vector and ends above it, or that begins where a waiting one begins but ends
elsewhere, is an `InboxError` and is not kept.

Invariant: the vector did not cover a waiting batch when it was offered. If the vector has covered it since then, by
whatever route, `next` drops it. The windows of correct peers bound memory; against others, `held_bytes` measures the
memory in use, and `shed` drops what came over a single link. What was put back is spared: sent again, it would find
its blocks gone, and wait again.

Reference: the causal delivery of AntidoteDB (`inter_dc_sub_buf`, `inter_dc_dep_vnode`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from sortedcontainers import SortedDict

from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import BatchHeader

# A batch and the links that delivered it.
Arrival = tuple[BatchHeader, bytes, list[int]]

# The memory that a batch takes besides its payload, and that of one row of its context.
ARRIVAL_BYTES: Final = 600
ROW_BYTES: Final = 110
_NOT_JUDGED: Final = -1


class InboxError(ValueError):
    """The batch contradicts the history of its origin."""


class Gate(Protocol):
    """The third gate (holding.py)."""

    def judge(self, header: BatchHeader, payload: bytes) -> int: ...
    def passes(self, judged: int, byte_count: int) -> bool:
        """Return whether a batch that was judged so passes; if so, it is applied at once."""


class _Waiting:
    """A waiting batch and the memory that it takes."""

    __slots__ = ("_judged", "arrival", "held_bytes", "links", "spared")

    def __init__(self, header: BatchHeader, payload: bytes, links: list[int]) -> None:
        self.links = links
        # It waits for blocks, and no link is shed of it.
        self.spared = False
        self.arrival: Arrival = (header, payload, self.links)
        self.held_bytes = len(payload) + ARRIVAL_BYTES + ROW_BYTES * header.context.origin_count()
        self._judged = _NOT_JUDGED

    def passes(self, gate: Gate | None) -> bool:
        """The third gate; a batch is judged once, because that decodes it."""
        if gate is None:
            return True
        if self._judged == _NOT_JUDGED:
            self._judged = gate.judge(self.arrival[0], self.arrival[1])
        return gate.passes(self._judged, len(self.arrival[1]))


class Inbox:
    """Batches of all origins that arrived before their dependencies."""

    __slots__ = ("_held", "_queues", "held_bytes", "spared_bytes", "waiting_bytes", "waiting_count")

    def __init__(self) -> None:
        # Origin -> first counter -> waiting batch, both ascending; an origin without a waiting batch has no key.
        self._queues: SortedDict = SortedDict()
        # What is not spared, by link.
        self._held: dict[int, int] = {}
        self.waiting_count = 0
        self.waiting_bytes = 0
        self.held_bytes = 0
        self.spared_bytes = 0

    def passes(self, header: BatchHeader, vector: VersionVector) -> bool:
        """Return whether the batch passes both gates and no other batch of its origin waits."""
        return header.origin not in self._queues and vector.admits(header.origin, header.first, header.context)

    def offer(self, header: BatchHeader, payload: bytes, vector: VersionVector, link: int = 0) -> None:
        """Keep the batch, unless the vector covers it or it is waiting already."""
        have = vector.get(header.origin)
        if header.last <= have:
            return
        if header.first <= have:
            raise InboxError(
                f"batch {header.first}..{header.last} of origin {header.origin} begins below {have}, which is applied"
            )
        queue = self._queues.get(header.origin)
        held: _Waiting | None = None if queue is None else queue.get(header.first)
        if held is None:
            self._add(_Waiting(header, payload, [link]))
            return
        last = held.arrival[0].last
        if last != header.last:
            raise InboxError(
                f"two batches of origin {header.origin} begin at {header.first} and end at {last} and {header.last}"
            )
        if link not in held.links:
            held.links.append(link)
            if not held.spared:
                self._held[link] = self._held.get(link, 0) + held.held_bytes

    def put_back(self, header: BatchHeader, payload: bytes, links: list[int], spared_bytes_max: int) -> None:
        """Keep a batch that waits for nothing but blocks, and is the first of its origin again. One is spared however
        large it is, several up to so many bytes.
        """
        waiting = _Waiting(header, payload, list(links))
        waiting.spared = not self.spared_bytes or self.spared_bytes + waiting.held_bytes <= spared_bytes_max
        self._add(waiting)

    def _add(self, waiting: _Waiting) -> None:
        header, payload, links = waiting.arrival
        self._queues.setdefault(header.origin, SortedDict())[header.first] = waiting
        self.waiting_count += 1
        self.waiting_bytes += len(payload)
        self.held_bytes += waiting.held_bytes
        if waiting.spared:
            self.spared_bytes += waiting.held_bytes
            return
        for link in links:
            self._held[link] = self._held.get(link, 0) + waiting.held_bytes

    def next(
        self, vector: VersionVector, gate: Gate | None = None, waits: Callable[[int], bool] | None = None
    ) -> Arrival | None:
        """Remove and return a batch that now passes all gates, of the lowest origin that has one; with room there is no
        third one. `waits` says of an origin whether its next batch waits for spilled blocks.
        """
        for origin in list(self._queues):
            if waits is not None and waits(origin):
                continue
            waiting = self._first_above(origin, vector.get(origin))
            if waiting is not None:
                header = waiting.arrival[0]
                if vector.admits(origin, header.first, header.context) and waiting.passes(gate):
                    self._drop(origin, header.first)
                    return waiting.arrival
        return None

    def _first_above(self, origin: int, have: int) -> _Waiting | None:
        """Return the first waiting batch of an origin above this counter; those that the vector covers are dropped."""
        while origin in self._queues:
            first, waiting = self._queues[origin].peekitem(0)
            if first > have:
                found: _Waiting = waiting
                return found
            self._drop(origin, first)
        return None

    def _drop(self, origin: int, first: int) -> None:
        queue = self._queues[origin]
        self._release_all(queue.pop(first))
        if not queue:
            del self._queues[origin]

    def _release_all(self, waiting: _Waiting) -> None:
        self.waiting_count -= 1
        self.waiting_bytes -= len(waiting.arrival[1])
        self.held_bytes -= waiting.held_bytes
        if waiting.spared:
            self.spared_bytes -= waiting.held_bytes
            return
        for link in waiting.links:
            self._release(link, waiting.held_bytes)

    def _release(self, link: int, held_bytes: int) -> None:
        self._held[link] -= held_bytes
        if not self._held[link]:
            del self._held[link]

    def shed(self) -> int:
        """Drop every batch that came only over the link that delivered the most, and is not spared; return that
        link.
        """
        link = max(self._held, key=self._held.__getitem__)
        for origin, queue in list(self._queues.items()):
            for first, waiting in list(queue.items()):
                # Batches that another link delivered as well stay, at that link's expense.
                if waiting.spared:
                    continue
                if waiting.links == [link]:
                    self._drop(origin, first)
                else:
                    self._leave(waiting, link)
        return link

    def _leave(self, waiting: _Waiting, link: int) -> None:
        if link in waiting.links:
            waiting.links.remove(link)
            self._release(link, waiting.held_bytes)

    def check(self) -> None:
        count = size = held_bytes = spared_bytes = 0
        held: dict[int, int] = {}
        for origin, queue in self._queues.items():
            assert queue, f"an empty queue of origin {origin}"
            for first, waiting in queue.items():
                header, payload, _ = waiting.arrival
                assert (header.origin, header.first) == (origin, first), (
                    "a batch is stored under another batch's counter"
                )
                count += 1
                size += len(payload)
                held_bytes += waiting.held_bytes
                spared_bytes += waiting.held_bytes if waiting.spared else 0
                for link in () if waiting.spared else waiting.links:
                    held[link] = held.get(link, 0) + waiting.held_bytes
        assert (count, size) == (self.waiting_count, self.waiting_bytes), "the totals do not add up"
        assert (held_bytes, held) == (self.held_bytes, self._held), "held bytes do not add up"
        assert spared_bytes == self.spared_bytes, "spared bytes do not add up"
