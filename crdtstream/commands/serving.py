"""Clients and what they asked: who runs now, who waits and for what, whose replies go out, who is closed.

A request that cannot be answered yet parks its client; what the client sends meanwhile waits behind it, up to
`query_bytes_max`. `wake` serves whoever waits for a key that changed; `resume` runs what waited behind an answer. A
queue holds those to resume, because each may set the next one free.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from crdtstream.commands.calling import error_reply, serve
from crdtstream.commands.context import Client, CommandError, Context
from crdtstream.commands.dispatch import dispatch
from crdtstream.commands.outputs import Outputs
from crdtstream.commands.parking import Waiter
from crdtstream.core.replica import Replica

REQUEST_BYTES: Final = 64

Notices = list[tuple[str, Exception | None]]


class Serving:
    """The clients of one region, of `context`; replies go to `outputs`, faults to `notices`."""

    __slots__ = ("_context", "_notices", "_outputs", "_replica", "_resumable")

    def __init__(self, context: Context, replica: Replica, outputs: Outputs, notices: Notices) -> None:
        self._context = context
        self._replica = replica
        self._outputs = outputs
        self._notices = notices
        self._resumable: deque[Client] = deque()

    # Connections

    def connect(self, client_id: int, address: str, now_ms: int) -> Client:
        client = Client(client_id, address, now_ms, not self._context.requirepass)
        self._context.clients[client_id] = client
        self._context.statistics.connections += 1
        return client

    def disconnect(self, client_id: int) -> None:
        self._context.parking.leave(client_id)
        client = self._context.clients.pop(client_id, None)
        if client is not None:
            self._context.end_transaction(client)
        self._outputs.drop(client_id)

    def refuse(self, client_id: int, reply: bytes) -> None:
        """A last reply; the connection closes behind it."""
        client = self._context.clients[client_id]
        if not client.closing:
            self._reply(client_id, reply)
            self._context.close(client)

    def end(self, client_id: int) -> None:
        """The client says nothing more; it is sent what it asked for."""
        client = self._context.clients.get(client_id)
        if client is not None:
            self._context.close(client)

    def close_idle(self, idle_ms_max: int) -> None:
        context = self._context
        for client in context.clients.values():
            client.last_ms = min(client.last_ms, context.now_ms)
            if not client.parked and context.now_ms - client.last_ms > idle_ms_max:
                context.drop(client)

    def take_closing(self) -> list[int]:
        """Clients to close: nothing of theirs is held any more, or they are dropped."""
        leaving = self._context.leaving
        if not leaving:
            return []
        held = self._outputs.held_for()
        self._context.leaving = [client for client in leaving if client.id in held and not client.dropped]
        return [client.id for client in leaving if client.id not in held or client.dropped]

    # Requests

    def execute(self, client_id: int, requests: list[list[bytes]]) -> None:
        """Requests that came at once, one after the other."""
        client = self._context.clients[client_id]
        self._context.stopwatch.read()
        for argv in requests:
            if client.parked:
                self._queue(client, argv)
            elif not client.closing:
                self._run(client, argv)
                if self._resumable:
                    self.resume()

    def _queue(self, client: Client, argv: list[bytes]) -> None:
        limit = self._context.limits.query_bytes_max
        client.backlog_bytes += sum(map(len, argv)) + REQUEST_BYTES
        if client.backlog_bytes <= limit:
            client.backlog.append(argv)
        elif not client.closing:
            self._notices.append((f"client {client.id} closed: more than query_bytes_max ({limit}) waits", None))
            self._context.drop(client)

    def _run(self, client: Client, argv: list[bytes]) -> None:
        context = self._context
        if self._replica.deadlines.next_ms < context.now_ms:
            self.expire()
        prepared = self._replica.prepared
        try:
            reply = dispatch(context, client, argv)
        except Exception as error:
            reply = self._survive(error, client, prepared)
        if reply is not None:
            self._reply(client.id, reply)
        if len(context.parking) or len(context.watches):
            self.wake()
        if context.outbox:
            self._deliver_outbox()

    def _survive(self, error: Exception, client: Client, prepared: int) -> bytes:
        """The reply to a request that met a fault of ours, if it changed nothing."""
        if self._replica.prepared != prepared:
            raise error
        name = client.last_command or "a command"
        self._notices.append((f"{name} failed", error))
        text = f"ERR internal error: {type(error).__name__} in {name}; nothing was changed, the log of this region says"
        return error_reply(self._context, CommandError(f"{text} more"))

    def _reply(self, client_id: int, reply: bytes) -> None:
        limit = self._context.limits.output_bytes_max
        if not self._outputs.add(client_id, reply, limit):
            client = self._context.clients.get(client_id)
            if client is not None and not client.closing:
                text = f"client {client_id} closed: its output exceeds output_bytes_max ({limit})"
                self._notices.append((text, None))
                self._context.drop(client)

    def _deliver_outbox(self) -> None:
        """Replies that one client's command made for others (CLIENT UNBLOCK)."""
        outbox = self._context.outbox
        self._context.outbox = []
        for client, reply in outbox:
            self._reply(client.id, reply)
            self._resumable.append(client)

    # Who waits

    def wake(self) -> None:
        """Serve who waits for a key that changed, until nothing changes any more."""
        touched = self._context.take_changes()
        while touched:
            for waiter in self._context.parking.waiting_for(touched):
                self._serve(waiter)
            touched = self._context.take_changes()

    def wake_keyless(self) -> None:
        """Serve who waits for something else than a key, and what waited behind."""
        for waiter in self._context.parking.keyless():
            self._serve(waiter)
        self.resume()

    def expire_waiting(self) -> None:
        """Answer who has waited as long as it wanted."""
        for waiter in self._context.parking.overdue(self._context.now_ms):
            self._finish(waiter, waiter.expired(self._context))
        self.resume()

    def expire(self) -> None:
        """Delete keys whose time has come; who waits for a key that only hides by now learns that it is gone."""
        context, replica = self._context, self._replica
        replica.now_ms = context.now_ms
        if context.writable and not context.loading:
            limits = context.limits
            replica.expire_due(limits.expiry_takeover_ms, limits.expired_keys_max)
        parking = context.parking
        if len(parking) and replica.deadlines.times:
            for waiter in parking.waiting_for(list(filter(replica.hides, parking.keys()))):
                self._serve(waiter)

    def resume(self) -> None:
        """Run what waited behind requests that are answered now."""
        if self._resumable:
            self._context.stopwatch.read()
        while self._resumable:
            client = self._resumable.popleft()
            while client.backlog and not client.parked and not client.closing and client.id in self._context.clients:
                argv = client.backlog.popleft()
                client.backlog_bytes -= sum(map(len, argv)) + REQUEST_BYTES
                self._run(client, argv)

    def _serve(self, waiter: Waiter) -> None:
        prepared = self._replica.prepared
        try:
            reply = serve(self._context, waiter)
        except Exception as fault:
            reply = self._survive(fault, waiter.client, prepared)
        if reply is not None:
            self._finish(waiter, reply)

    def _finish(self, waiter: Waiter, reply: bytes) -> None:
        client = waiter.client
        self._context.unpark(client)
        self._reply(client.id, reply)
        if client.backlog:
            self._resumable.append(client)
