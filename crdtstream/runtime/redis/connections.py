"""The connections of the Redis port: bytes to requests, and replies to bytes.

It only enforces what sockets can bear: the number of clients, unread input, the unread output of a slow client and of
all clients together, and which hosts may connect at all.

Compiled like runtime/turns.py, and without coroutines for the same reason.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from typing import cast

import structlog
from mypy_extensions import mypyc_attr

from crdtstream.protocols import replies
from crdtstream.protocols.requests import ProtocolError, RequestParser
from crdtstream.runtime.redis.unread import Unread
from crdtstream.runtime.tls.port import own_name, peer_name
from crdtstream.runtime.turns import Turns, end_input, expect_input, now_ms
from crdtstream.settings.config import is_loopback

PROTECTED = (
    b"-DENIED crdtstream is running in protected mode because no password is set for the default user. In this mode"
    b" connections are only accepted from the loopback interface. Set 'requirepass', or switch protected mode off with"
    b" --no-protected-mode if the network itself is trusted.\r\n"
)
LINGER_S = 30.0
INFINITE = 1 << 62
FILES_RESERVED = 128
CLIENTS_MAX = b"-ERR max number of clients reached\r\n"

Executor = Callable[[int, list[list[bytes]], int], None]

logger = structlog.get_logger()


class Connection(asyncio.Protocol):
    """The socket of one client."""

    def __init__(self, server: Connections) -> None:
        self._server = server
        self._parser = server.parser()
        self.id = 0
        self.transport: asyncio.Transport | None = None
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.id = self._server.accept(self)
        if self._early and self.id:
            feed(self._server, self, self._parser, self._early)
        self._early = b""

    def data_received(self, data: bytes) -> None:
        if self.id:
            feed(self._server, self, self._parser, data)
        elif self.transport is None:
            self._early += data  # it came with the end of a TLS handshake

    def eof_received(self) -> bool:
        """Handle the client's end of input: it may still read, so the connection closes after the replies to its
        requests.
        """
        if self.id:
            self._server.end_input(self.id)
        # A TLS connection has no direction of its own to keep open.
        return bool(self.id) and not self.is_encrypted()

    def is_encrypted(self) -> bool:
        return self.transport is not None and self.transport.get_extra_info("ssl_object") is not None

    def connection_lost(self, _error: Exception | None) -> None:
        if self.id:
            self._server.drop(self.id)
            self.id = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Connections:
    """Carries bytes between sockets and the node."""

    def __init__(self, turns: Turns) -> None:
        self.node = turns.node
        # What runs requests instead of the node, and must see all of them; a call of it takes longer.
        self.executor: Executor | None = None
        self.turns = turns
        self._connections: dict[int, Connection] = {}
        self.ahead: dict[int, Connection] = {}
        self._unread = Unread(self._unread_of)
        self._next_id = 0
        self._clients_max = self._clients_asked = turns.config.limits.clients_max

    def parser(self) -> RequestParser:
        limits = self.node.limits
        return RequestParser(
            authenticated=not self.node.context.users.requires_login(),
            bulk_bytes_max=limits.bulk_bytes_max,
            arguments_max=limits.arguments_max,
            query_bytes_max=limits.query_bytes_max,
        )

    # Connections

    def accept(self, connection: Connection) -> int:
        """Return the client's number, or 0 if it was rejected."""
        assert connection.transport is not None
        refusal = self._refusal(connection.transport)
        if refusal:
            self.node.statistics.rejected_connections += 1
            connection.transport.write(refusal)
            connection.transport.close()
            return 0
        self._next_id += 1
        self._connections[self._next_id] = connection
        client = self.node.connect(self._next_id, peer_name(connection.transport), now_ms())
        client.local_address = own_name(connection.transport)
        client.encrypted = connection.is_encrypted()
        return self._next_id

    def _refusal(self, transport: asyncio.Transport) -> bytes:
        config = self.node.settings.config
        if config.limits.clients_max != self._clients_asked:
            self._clients_asked = config.limits.clients_max
            self._clients_max = clients_within_files(self._clients_asked)
        if len(self._connections) >= self._clients_max:
            return CLIENTS_MAX
        host = peer_name(transport).rpartition(":")[0].strip("[]")
        if config.protected_mode and self.node.context.users.default.nopass and not is_loopback(host):
            return PROTECTED
        return b""

    def turn_ended(self) -> None:
        """Pause reading from clients whose earlier requests are not finished, and resume the others."""
        for client_id, connection in list(self.ahead.items()):
            client = self.node.clients[client_id]
            ahead = bool(client.backlog) and not client.parked
            if not ahead:
                del self.ahead[client_id]
            transport = connection.transport
            if transport is None or transport.is_closing():
                continue
            if ahead and transport.is_reading():
                transport.pause_reading()
            elif not ahead and not transport.is_reading():
                transport.resume_reading()

    def end_badly(self, client_id: int, error: ProtocolError, arrived_ms: int) -> None:
        try:
            for argv in error.requests:
                execute(self, client_id, [argv], arrived_ms, False)
            self.node.refuse(client_id, replies.error(error.text))
        except Exception as failure:
            self.turns.fail(failure)

    def end_input(self, client_id: int) -> None:
        self.node.ended(client_id)
        self.turns.schedule()

    def drop(self, client_id: int) -> None:
        self._connections.pop(client_id, None)
        self.ahead.pop(client_id, None)
        self._unread.record(client_id, 0)
        self.node.disconnect(client_id)

    def write(self, client_id: int, reply: bytes) -> None:
        connection = self._connections.get(client_id)
        transport = None if connection is None else connection.transport
        if transport is None:
            return
        transport.write(reply)
        size = transport.get_write_buffer_size()
        if size or self._unread.total_bytes:
            self._record_unread(client_id, size)

    def _record_unread(self, client_id: int, size: int) -> None:
        limits = self.node.limits
        self._unread.record(client_id, size)
        if size > limits.output_bytes_max:
            self._cut_off(client_id, "its output exceeds output_bytes_max")
        elif size:
            self._bound_unread(limits.outputs_bytes_max)

    def _bound_unread(self, bytes_max: int) -> None:
        """Close the client with the most unread bytes, even if the last reply went to another client."""
        most = self._unread.most_of(bytes_max)
        while most:
            self._cut_off(most, "the output of all clients exceeds outputs_bytes_max, and this client has the most")
            most = self._unread.most_of(bytes_max)

    def _cut_off(self, client_id: int, why: str) -> None:
        transport = self._connections[client_id].transport
        assert transport is not None
        unread_bytes = transport.get_write_buffer_size()
        address = peer_name(transport)
        logger.warning("client-closed", detail=why, client=client_id, address=address, unread_bytes=unread_bytes)
        self.node.statistics.output_disconnections += 1
        self._unread.record(client_id, 0)
        transport.abort()

    def _unread_of(self, client_id: int) -> int:
        connection = self._connections.get(client_id)
        return 0 if connection is None or connection.transport is None else connection.transport.get_write_buffer_size()

    def close(self, client_id: int) -> None:
        connection = self._connections.get(client_id)
        if connection is None or connection.transport is None:
            return
        if self.node.clients[client_id].dropped:
            connection.transport.abort()
        else:
            connection.transport.close()
            self._linger(connection.transport, INFINITE)

    def _linger(self, transport: asyncio.Transport, unread_bytes: int) -> None:
        """Abort a closed connection once its client stops reading the remaining replies."""
        left_bytes = transport.get_write_buffer_size()
        if left_bytes >= unread_bytes:
            transport.abort()
        elif left_bytes:
            asyncio.get_running_loop().call_later(LINGER_S, self._linger, transport, left_bytes)


# What each input needs. Functions, because compiled a method that a subclass may override is looked up by its name.


def feed(server: Connections, connection: Connection, parser: RequestParser, data: bytes) -> None:
    """Run what has arrived."""
    node, turns = server.node, server.turns
    client = node.clients.get(connection.id)
    if client is None or client.closing or turns.failed:
        return
    arrived_ms = now_ms()
    held_bytes = parser.held_bytes()
    try:
        taken = 0
        unparsed = not held_bytes and server.executor is None
        if unparsed:
            expect_input(turns, len(data), 0)
            taken = node.execute_bytes(connection.id, data, arrived_ms)
        requests = parser.feed(data[taken:]) if taken < len(data) else []
        if requests and not unparsed:
            expect_input(turns, len(data), held_bytes)
        while requests:
            execute(server, connection.id, requests, arrived_ms, taken > 0)
            parser.authenticated = client.authenticated
            requests = parser.feed(b"") if parser.paused else []
    except ProtocolError as broken:
        expect_input(turns, len(data), held_bytes)
        server.end_badly(connection.id, broken, arrived_ms)
    except Exception as error:
        turns.fail(error)
    if client.backlog and not client.parked:
        server.ahead[connection.id] = connection
    end_input(turns)


def execute(server: Connections, client_id: int, requests: list[list[bytes]], arrived_ms: int, continues: bool) -> None:
    executor = server.executor
    if executor is None:
        server.node.execute_all(client_id, requests, arrived_ms, continues)
    else:
        executor(client_id, requests, arrived_ms)


def clients_possible() -> int:
    """How many clients the limit of open files can be raised to allow; 0 for any number."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 0 if hard == resource.RLIM_INFINITY else max(1, hard - FILES_RESERVED)


def clients_within_files(clients_max: int) -> int:
    """Return how many clients the limit of open files allows, after raising it as far as possible. Files are reserved
    for the log: if it cannot open its next file, the region ends.
    """
    needed = clients_max + FILES_RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft >= needed:
        return clients_max
    fewer = max(1, soft - FILES_RESERVED)
    logger.warning("clients-limited", files=soft, clients_max=fewer)
    return fewer
