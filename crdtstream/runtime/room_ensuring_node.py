"""The node as links see it: what arrives has room ensured on the disk first, as client requests do, and counts in
memory.

Memory is measured at each tick. Peers can send much between two ticks, so where it is limited it is measured as
messages arrive too, at most every `MEASURE_S`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from crdtstream.region.node import Node
from crdtstream.replication.wire_pb2 import Message
from crdtstream.runtime import process

MEASURE_S: Final = 0.01


class RoomEnsuringNode:
    """The node as links see it; room for messages of peers is ensured as for client requests."""

    def __init__(self, node: Node, expect: Callable[[int, int], None], failed: Callable[[], bool]) -> None:
        self._node = node
        self._expect = expect
        self._failed = failed
        self._measured_s = 0.0
        self.link_opened = node.link_opened
        self.link_closed = node.link_closed
        self.outgoing = node.outgoing
        self.peer_dialled = node.neighbours.contacts.record_dial
        self.peer_met = node.peer_met
        self.peer_failed = node.peer_failed
        self.welcomes = node.welcomes
        self.link_verdict = node.link_verdict
        self.link_stirs = node.exchange.stir

    def receive(self, link_id: int, message: Message, byte_count: int, now_ms: int) -> None:
        if not self._failed():
            self._expect(0, byte_count)
            if self._node.limits.memory_bytes_max:
                self._measure(time.monotonic())
            self._node.receive(link_id, message, now_ms)

    def _measure(self, now_s: float) -> None:
        if now_s - self._measured_s >= MEASURE_S:
            self._measured_s = now_s
            self._node.observe(*process.usage())
