"""Accepting TLS connections: the handshake first, and what the client is told to only then.

asyncio does not tell a server about handshakes that failed, so they are made here, on connections that were accepted in
plain. A client that was refused, or that does not complete the handshake in `HANDSHAKE_S`, is counted, and the reason
logged.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from crdtstream.connections.context import Context
from crdtstream.connections.guard import warn

HANDSHAKE_S = 10.0
GREETINGS_MAX = 1_000


class Greeting(asyncio.Protocol):
    """A connection before its handshake."""

    def __init__(self, begin: Callable[[asyncio.Transport], None]) -> None:
        self._begin = begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        plain = cast(asyncio.Transport, transport)
        # What the client has sent already is for the handshake to read.
        plain.pause_reading()
        self._begin(plain)


class TlsPort:
    """Makes a protocol for each client that has completed its handshake.

    Bytes may reach the protocol before its `connection_made`, because a client may send them with the end of the
    handshake. `refused` is called with the transport and the reason.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.Protocol],
        refused: Callable[[asyncio.Transport, str], None],
        greetings_max: int = GREETINGS_MAX,
    ) -> None:
        self._context = context
        self._make = make
        self._refused = refused
        self._greetings_max = greetings_max
        self._greetings: set[asyncio.Task[None]] = set()

    def protocol(self) -> asyncio.Protocol:
        return Greeting(self._begin)

    def stop(self) -> None:
        for task in self._greetings:
            task.cancel()

    def _begin(self, transport: asyncio.Transport) -> None:
        if len(self._greetings) >= self._greetings_max:
            self._refused(transport, f"{self._greetings_max} handshakes are going on")
            transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._greet(transport))
        self._greetings.add(task)
        task.add_done_callback(self._greetings.discard)

    async def _greet(self, transport: asyncio.Transport) -> None:
        protocol = self._make()
        running = asyncio.get_running_loop()
        try:
            encrypted = await running.start_tls(
                transport, protocol, self._context, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError as error:
            self._refused(transport, reason_of(error))
            transport.abort()
            return
        if encrypted is not None and not encrypted.is_closing():
            protocol.connection_made(encrypted)


def record_refusal(context: Context, client: str, reason: str) -> None:
    """Count a client whose handshake failed, and tell the log."""
    context.statistics.refused_handshakes += 1
    warn(context, context.alarms.handshakes, "tls-client-refused", f"TLS client {client} refused: {reason}")


def peer_name(transport: asyncio.BaseTransport) -> str:
    """`host:port` of the client."""
    return name_of(transport.get_extra_info("peername"))


def own_name(transport: asyncio.BaseTransport) -> str:
    """`host:port` where the client reached this region."""
    return name_of(transport.get_extra_info("sockname"))


def name_of(name: object) -> str:
    if not isinstance(name, tuple):
        return "unix:0"
    host = f"[{name[0]}]" if ":" in str(name[0]) else str(name[0])
    return f"{host}:{name[1]}"


def reason_of(error: OSError) -> str:
    """Why the handshake failed, without OpenSSL's place in its source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error) or "it broke the handshake off, as a client does whose certificate is refused"
