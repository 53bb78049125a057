"""The Redis port: listens, with TLS and without, and hands sockets to their connections (connections.py)."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable

from crdtstream.runtime.loop import Loop
from crdtstream.runtime.redis.connections import Connection, Connections, clients_within_files
from crdtstream.runtime.tls.port import TlsPort, peer_name, record_refusal
from crdtstream.runtime.turns import RegionFailed

BACKLOG = 511


class RespServer(Connections):
    """Listens for the clients of one region."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self._loop = loop
        self._servers: list[asyncio.Server] = []
        self._tls: TlsPort | None = None

    async def start(self) -> dict[str, str]:
        """Listen; return the addresses, `redis` and `redis_tls`."""
        config = self.node.settings.config
        self._clients_max = clients_within_files(config.limits.clients_max)
        addresses: dict[str, str] = {}
        if config.port or not config.tls_port:
            addresses["redis"] = await self._listen(lambda: Connection(self), config.port, "--port")
        if config.tls_port:
            assert self._loop.certificates is not None, "a TLS port has certificates"
            self._tls = TlsPort(self._loop.certificates.server_context(), lambda: Connection(self), self._refuse_tls)
            addresses["redis_tls"] = await self._listen(self._tls.protocol, config.tls_port, "--tls-port")
        return addresses

    async def _listen(self, make: Callable[[], asyncio.Protocol], port: int, setting: str) -> str:
        bind = self.node.settings.config.bind
        try:
            server = await asyncio.get_running_loop().create_server(make, bind, port, backlog=BACKLOG)
        except OSError as error:
            raise RegionFailed(f"cannot listen for clients on {bind}:{port}: {why(error, setting)}") from error
        self._servers.append(server)
        return f"{bind}:{server.sockets[0].getsockname()[1]}"

    def _refuse_tls(self, transport: asyncio.Transport, reason: str) -> None:
        record_refusal(self.node.context, peer_name(transport), reason)
        self._loop.schedule()

    def stop(self) -> None:
        for server in self._servers:
            server.close()
        if self._tls is not None:
            self._tls.stop()
        for connection in list(self._connections.values()):
            if connection.transport is not None:
                connection.transport.close()


def why(error: OSError, setting: str) -> str:
    """Say why the address cannot be used and which setting to change."""
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}; choose another --bind"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{reason}; choose another {'--bind' if error.errno == errno.EADDRNOTAVAIL else setting}"
