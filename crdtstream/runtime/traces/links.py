"""The node as links see it, with spans around messages that carry batches.

A span of what was received ends with the turn, when it is in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from crdtstream.replication.wire_pb2 import Message
from crdtstream.runtime.links.link import LinkNode


class BatchTracing(Protocol):
    """What is noted of batches (tracing.py)."""

    def sent(self, peer: int, message: Message, linked: int) -> int: ...
    def received(self, peer: int, message: Message) -> Any: ...
    def applied(self, span: Any, effects: int) -> None: ...


class TracedLinks:
    """A `LinkNode` around another one; `effects` counts those that are applied."""

    def __init__(self, node: LinkNode, tracing: BatchTracing, effects: Callable[[], int]) -> None:
        self._node = node
        self._tracing = tracing
        self._effects = effects
        # Link -> the region at its other side, and what its last message with batches was linked up to.
        self._peers: dict[int, int] = {}
        self._linked: dict[int, int] = {}
        self._received: list[tuple[Any, int]] = []
        self.link_opened = node.link_opened
        self.peer_dialled = node.peer_dialled
        self.peer_met = node.peer_met
        self.peer_failed = node.peer_failed
        self.welcomes = node.welcomes
        self.link_verdict = node.link_verdict
        self.link_stirs = node.link_stirs

    def link_closed(self, link_id: int, reason: str, now_ms: int) -> None:
        self._peers.pop(link_id, None)
        self._linked.pop(link_id, None)
        self._node.link_closed(link_id, reason, now_ms)

    def receive(self, link_id: int, message: Message, byte_count: int, now_ms: int) -> None:
        if message.HasField("hello"):
            self._peers[link_id] = message.hello.region
        if not carries(message):
            self._node.receive(link_id, message, byte_count, now_ms)
            return
        span = self._tracing.received(self._peers.get(link_id, 0), message)
        before = self._effects()
        try:
            self._node.receive(link_id, message, byte_count, now_ms)
        finally:
            self._received.append((span, self._effects() - before))

    def outgoing(
        self,
        link_id: int,
        bytes_max: int,
        now_ms: int,
        apart: list[bytes] | None = None,  # noqa: ARG002 - of the LinkNode protocol; the message is looked at
    ) -> Message | None:
        message = self._node.outgoing(link_id, bytes_max, now_ms)
        if message is not None and carries(message):
            peer, linked = self._peers.get(link_id, 0), self._linked.get(link_id, 0)
            self._linked[link_id] = self._tracing.sent(peer, message, linked)
        return message

    def turn_ended(self) -> None:
        for span, effects in self._received:
            self._tracing.applied(span, effects)
        self._received.clear()


def carries(message: Message) -> bool:
    return bool(message.batches.payloads) or message.HasField("part")
