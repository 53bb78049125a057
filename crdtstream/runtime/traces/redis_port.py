"""The Redis port with a span for each request, from its arrival until its reply is on the way to the client.

The requests of a client are answered in their order, and those that are not answered yet are the one it is parked in
and its backlog. So how many spans of a client are still open follows from what the node shows, and the node need not
know of them. A request that was sent alone and failed has the code of its error; of several that are answered with one
write, nobody looks which failed.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from crdtstream.runtime.loop import Loop
from crdtstream.runtime.redis.resp_server import RespServer

ERROR_BYTES_MAX = 32


class CommandTracing(Protocol):
    """What is noted of commands (tracing.py)."""

    def command(self, argv: list[bytes]) -> Any: ...
    def answered(self, span: Any, error: str = "") -> None: ...


class TracedRespServer(RespServer):
    """Invariant between turns: a client has as many open spans as requests that wait."""

    def __init__(self, loop: Loop, tracing: CommandTracing) -> None:
        super().__init__(loop)
        self._tracing = tracing
        self.executor = self._execute_traced
        self._open: dict[int, deque[Any]] = {}
        # Clients of which requests ran or were answered in this turn, with the beginning of what they were told.
        self._touched: dict[int, bytes] = {}

    def _execute_traced(self, client_id: int, requests: list[list[bytes]], now_ms: int) -> None:
        spans = self._open.setdefault(client_id, deque())
        spans.extend([self._tracing.command(argv) for argv in requests])
        self._touched.setdefault(client_id, b"")
        self.node.execute_all(client_id, requests, now_ms)

    def write(self, client_id: int, reply: bytes) -> None:
        self._touched[client_id] = self._touched.get(client_id) or reply[:ERROR_BYTES_MAX]
        super().write(client_id, reply)

    def turn_ended(self) -> None:
        super().turn_ended()
        for client_id, told in self._touched.items():
            self._end_spans(client_id, told)
        self._touched.clear()

    def drop(self, client_id: int) -> None:
        super().drop(client_id)
        self._end_spans(client_id, b"")

    def _end_spans(self, client_id: int, told: bytes) -> None:
        spans = self._open.get(client_id)
        if spans is None:
            return
        client = self.node.clients.get(client_id)
        waiting = 0 if client is None else len(client.backlog) + client.parked
        error = error_code(told) if len(spans) - waiting == 1 else ""
        while len(spans) > waiting:
            self._tracing.answered(spans.popleft(), error)
        if not spans:
            del self._open[client_id]

    def check(self) -> None:
        for client_id, spans in self._open.items():
            client = self.node.clients[client_id]
            assert len(spans) == len(client.backlog) + client.parked, f"client {client_id} has {len(spans)} spans"


def error_code(reply: bytes) -> str:
    """The first word of an error reply, which is never what a client sent; empty for any other reply."""
    if not reply.startswith((b"-", b"!")):
        return ""
    word = reply[1:].partition(b" ")[0]
    return word.decode() if word.isalpha() and word.isupper() else "ERR"
