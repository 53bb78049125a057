"""The node as links see it: what arrives reserves disk space first, as client requests do."""

from __future__ import annotations

from collections.abc import Callable

from crdtstream.node import Node
from crdtstream.replication.wire_pb2 import Message


class RoomyNode:
    """The node as links see it; messages from peers reserve disk space as client requests do."""

    def __init__(self, node: Node, expect: Callable[[int, int], None], failed: Callable[[], bool]) -> None:
        self._node = node
        self._expect = expect
        self._failed = failed
        self.link_opened = node.link_opened
        self.link_closed = node.link_closed
        self.outgoing = node.outgoing
        self.peer_met = node.peer_met
        self.peer_failed = node.peer_failed
        self.welcomes = node.welcomes
        self.link_verdict = node.link_verdict

    def receive(self, link_id: int, message: Message, byte_count: int, now_ms: int) -> None:
        if not self._failed():
            self._expect(0, byte_count)
            self._node.receive(link_id, message, now_ms)
