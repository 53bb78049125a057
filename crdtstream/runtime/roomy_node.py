"""The node as links see it: messages from peers reserve disk space as client requests do."""

from __future__ import annotations

from typing import Protocol

from crdtstream.node import Node
from crdtstream.replication.wire_pb2 import Message


class Reserving(Protocol):
    """What reserves space; nothing is received once it has failed."""

    node: Node
    failed: bool

    def expect(self, arrived_bytes: int, held_bytes: int) -> None: ...


class RoomyNode:
    """The node of one region behind its loop."""

    def __init__(self, loop: Reserving) -> None:
        self._loop = loop
        self._node = loop.node
        self.link_opened = loop.node.link_opened
        self.link_closed = loop.node.link_closed
        self.outgoing = loop.node.outgoing
        self.peer_met = loop.node.peer_met
        self.peer_failed = loop.node.peer_failed
        self.welcomes = loop.node.welcomes
        self.link_verdict = loop.node.link_verdict

    def receive(self, link_id: int, message: Message, now_ms: int) -> None:
        if not self._loop.failed:
            self._loop.expect(0, message.ByteSize())
            self._node.receive(link_id, message, now_ms)
