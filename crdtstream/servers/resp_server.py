"""The Redis port: connections on asyncio, bytes to requests and replies to bytes.

It decides nothing but what a socket can bear: how many clients, how much unread input, how much output a slow reader
may leave, and who may connect at all.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from typing import cast

import structlog

from crdtstream.config import is_loopback
from crdtstream.protocols import replies
from crdtstream.protocols.requests import ProtocolError, RequestParser
from crdtstream.runtime.loop import Loop, RegionFailed, now_ms

PROTECTED = (
    b"-DENIED crdtstream is running in protected mode because no password is set for the default user. In this mode"
    b" connections are only accepted from the loopback interface. Set 'requirepass', or switch protected mode off with"
    b" --no-protected-mode if the network itself is trusted.\r\n"
)
BACKLOG = 511
LINGER_S = 30.0
INFINITE = 1 << 62
FILES_RESERVED = 128
CLIENTS_MAX = b"-ERR max number of clients reached\r\n"

logger = structlog.get_logger()


class Connection(asyncio.Protocol):
    """One client's socket."""

    def __init__(self, server: RespServer) -> None:
        self._server = server
        self._parser = server.parser()
        self.id = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.id = self._server.accept(self)

    def data_received(self, data: bytes) -> None:
        if self.id:
            self._server.feed(self, self._parser, data)

    def eof_received(self) -> bool:
        """The client may still read: the connection closes behind the replies to what it asked."""
        if self.id:
            self._server.ended(self.id)
        return bool(self.id)

    def connection_lost(self, error: Exception | None) -> None:
        if self.id:
            self._server.lost(self.id)
            self.id = 0


class RespServer:
    """Listens, and carries bytes between sockets and the node."""

    def __init__(self, loop: Loop) -> None:
        self._node = loop.node
        self._loop = loop
        self._connections: dict[int, Connection] = {}
        self._next_id = 0
        self._clients_max = self._clients_asked = loop.config.limits.clients_max
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen; returns the address."""
        running = asyncio.get_running_loop()
        config = self._node.context.config
        self._clients_max = clients_within_files(config.limits.clients_max)
        address = f"{config.bind}:{config.port}"
        try:
            make = running.create_server(lambda: Connection(self), config.bind, config.port, backlog=BACKLOG)
            self._server = await make
        except OSError as error:
            raise RegionFailed(f"cannot listen for clients on {address}: {why(error)}") from error
        return f"{config.bind}:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections.values()):
            if connection.transport is not None:
                connection.transport.close()

    def parser(self) -> RequestParser:
        limits = self._node.context.limits
        return RequestParser(
            authenticated=not self._node.context.requirepass,
            bulk_bytes_max=limits.bulk_bytes_max,
            arguments_max=limits.arguments_max,
            query_bytes_max=limits.query_bytes_max,
        )

    # Connections

    def accept(self, connection: Connection) -> int:
        """The client's number, or 0 when it was turned away."""
        assert connection.transport is not None
        refusal = self._refusal(connection.transport)
        if refusal:
            self._node.context.statistics.rejected_connections += 1
            connection.transport.write(refusal)
            connection.transport.close()
            return 0
        self._next_id += 1
        self._connections[self._next_id] = connection
        self._node.connect(self._next_id, peer_name(connection.transport), now_ms())
        return self._next_id

    def _refusal(self, transport: asyncio.Transport) -> bytes:
        config = self._node.context.config
        if config.limits.clients_max != self._clients_asked:
            self._clients_asked = config.limits.clients_max
            self._clients_max = clients_within_files(self._clients_asked)
        if len(self._connections) >= self._clients_max:
            return CLIENTS_MAX
        host = peer_name(transport).rpartition(":")[0].strip("[]")
        if config.protected_mode and not config.requirepass and not is_loopback(host):
            return PROTECTED
        return b""

    def feed(self, connection: Connection, parser: RequestParser, data: bytes) -> None:
        node = self._node
        client = node.context.clients.get(connection.id)
        if client is None or client.closing or self._loop.failed:
            return
        arrived_ms = now_ms()
        held_bytes = parser.held_bytes()
        try:
            requests = parser.feed(data)
            if requests:
                self._loop.expect(len(data), held_bytes)
            while requests:
                node.execute_all(connection.id, requests, arrived_ms)
                parser.authenticated = client.authenticated
                requests = parser.feed(b"") if parser.paused else []
        except ProtocolError as error:
            self._loop.expect(len(data), held_bytes)
            self._end_badly(connection.id, error, arrived_ms)
        except Exception as error:
            self._loop.fail(error)
        self._loop.finish_input()

    def _end_badly(self, client_id: int, error: ProtocolError, arrived_ms: int) -> None:
        try:
            for argv in error.requests:
                self._node.execute(client_id, argv, arrived_ms)
            self._node.refuse(client_id, replies.error(error.text))
        except Exception as failure:
            self._loop.fail(failure)

    def ended(self, client_id: int) -> None:
        self._node.ended(client_id)
        self._loop.schedule()

    def lost(self, client_id: int) -> None:
        self._connections.pop(client_id, None)
        self._node.disconnect(client_id)

    def write(self, client_id: int, reply: bytes) -> None:
        connection = self._connections.get(client_id)
        if connection is None or connection.transport is None:
            return
        connection.transport.write(reply)
        if connection.transport.get_write_buffer_size() > self._node.context.limits.output_bytes_max:
            logger.warning("client closed: its output exceeds output_bytes_max", client=client_id)
            connection.transport.abort()

    def close(self, client_id: int) -> None:
        connection = self._connections.get(client_id)
        if connection is None or connection.transport is None:
            return
        if self._node.context.clients[client_id].dropped:
            connection.transport.abort()
        else:
            connection.transport.close()
            self._linger(connection.transport, INFINITE)

    def _linger(self, transport: asyncio.Transport, unread_bytes: int) -> None:
        """A closed client has time to read what it asked for, while it reads."""
        left_bytes = transport.get_write_buffer_size()
        if left_bytes >= unread_bytes:
            transport.abort()
        elif left_bytes:
            asyncio.get_running_loop().call_later(LINGER_S, self._linger, transport, left_bytes)


def why(error: OSError) -> str:
    """Why an address cannot be listened on, and which setting to change."""
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}; choose another --bind"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{reason}; choose another {'--bind' if error.errno == errno.EADDRNOTAVAIL else '--port'}"


def clients_within_files(clients_max: int) -> int:
    """As many clients as the limit of open files allows, which is raised as far as it goes: a log that cannot open its
    next file ends the region.
    """
    needed = clients_max + FILES_RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft >= needed:
        return clients_max
    fewer = max(1, soft - FILES_RESERVED)
    logger.warning("fewer clients than clients_max: open files are limited", files=soft, clients_max=fewer)
    return fewer


def peer_name(transport: asyncio.Transport) -> str:
    """`host:port` of the other end."""
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return "unix:0"
    host = f"[{name[0]}]" if ":" in str(name[0]) else str(name[0])
    return f"{host}:{name[1]}"
