"""The HTTP port: a few paths that are read, and nothing else.

It answers GET and HEAD, ignores bodies, closes the connection after each answer, and knows no keep-alive, encoding or
redirect. A request has `REQUEST_S` and `REQUEST_BYTES_MAX`, and there are at most `CONNECTIONS_MAX` at once, so that
who reaches the port costs little.

A route is a path, or a path and the name of a parameter (`/readyz?writes`), whatever value that has and whatever stands
beside it; other parameters are ignored.

A token, if there is one, is asked for on every path but the `open_paths`: `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import parse_qsl

import structlog

from crdtstream.runtime.tls.credentials import join_address
from crdtstream.runtime.tls.port import TlsPort

REQUEST_S = 10.0
ANSWER_S = 30.0
REQUEST_BYTES_MAX = 16 << 10
CONNECTIONS_MAX = 64
TEXT = "text/plain; charset=utf-8"
NO_TOKEN = b"this path asks for a token: send it as Authorization: Bearer TOKEN\n"
AUTHORIZATION = re.compile(rb"\r\nauthorization:[ \t]*(?:bearer +(\S+)[ \t]*(?=\r\n))?", re.IGNORECASE)

logger = structlog.get_logger()


class HttpAnswer:
    """A status, a body, the type of the body, and lines of the head that only this answer has."""

    __slots__ = ("body", "content_type", "more", "status")

    def __init__(self, status: HTTPStatus, body: bytes, content_type: str = TEXT, more: str = "") -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.more = more

    def encode(self, with_body: bool) -> bytes:
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            "Cache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            f"{self.more}"
            "Connection: close\r\n\r\n"
        ).encode("ascii")
        return head + self.body if with_body else head


def said(status: HTTPStatus, text: str = "") -> HttpAnswer:
    return HttpAnswer(status, f"{text or status.phrase}\n".encode())


HttpRoute = Callable[[], Awaitable[HttpAnswer]]


class Guard:
    """What the port demands of a client: TLS with this context, and the token; either may be missing. Its methods are
    called for each client that is refused.
    """

    context: ssl.SSLContext | None = None
    token: str = ""
    open_paths: Collection[str] = ()

    def tls_refused(self, transport: asyncio.Transport, reason: str) -> None:
        """The TLS handshake of a client failed."""

    async def token_denied(self, transport: asyncio.BaseTransport) -> None:
        """A client gave a wrong token; it is answered when this returns."""


class HttpServer:
    """Listens, and answers with what the route of a path returns."""

    def __init__(self, host: str, port: int, routes: Mapping[str, HttpRoute], guard: Guard | None = None) -> None:
        self._host = host
        self._port = port
        self._routes = routes
        self._guard = guard or Guard()
        self._server: asyncio.Server | None = None
        self._tls: TlsPort | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Listen; return the address. Raises OSError."""
        make, context = self._protocol, self._guard.context
        if context is not None:
            self._tls = TlsPort(context, self._protocol, self._guard.tls_refused, CONNECTIONS_MAX)
            make = self._tls.protocol
        self._server = await asyncio.get_running_loop().create_server(make, self._host, self._port)
        return join_address(self._host, self._server.sockets[0].getsockname()[1])

    def _protocol(self) -> asyncio.Protocol:
        running = asyncio.get_running_loop()
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(REQUEST_BYTES_MAX, running), self._accept, running)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._tls is not None:
            self._tls.stop()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            await self._converse(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            self._running.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with_body = True
        if len(self._running) > CONNECTIONS_MAX:
            answer = said(HTTPStatus.SERVICE_UNAVAILABLE, f"more than {CONNECTIONS_MAX} connections")
        else:
            try:
                async with asyncio.timeout(REQUEST_S):
                    head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                answer = said(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            else:
                answer = await self._answer(head, writer.transport)
                with_body = not head.startswith(b"HEAD ")
        writer.write(answer.encode(with_body))
        async with asyncio.timeout(ANSWER_S):
            await writer.drain()
            if not writer.can_write_eof():
                return  # TLS, whose end is an exchange of its own
            writer.write_eof()
            # What was sent too much is read, or closing would reset the connection before the answer arrives.
            with suppress(OSError):
                while await reader.read(REQUEST_BYTES_MAX):
                    pass

    async def _answer(self, head: bytes, transport: asyncio.BaseTransport) -> HttpAnswer:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return said(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        path, _, query = target.partition("?")
        route = self._route(path, query)
        if route is None:
            return said(HTTPStatus.NOT_FOUND, f"there are {', '.join(self._routes)}")
        if method not in ("GET", "HEAD"):
            return said(HTTPStatus.METHOD_NOT_ALLOWED)
        if not await self._admits(path, head, transport):
            return HttpAnswer(HTTPStatus.UNAUTHORIZED, NO_TOKEN, more="WWW-Authenticate: Bearer\r\n")
        try:
            return await route()
        except Exception:
            logger.exception("http-request-failed", path=path)
            return said(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _route(self, path: str, query: str) -> HttpRoute | None:
        for name, _ in parse_qsl(query, keep_blank_values=True):
            route = self._routes.get(f"{path}?{name}")
            if route is not None:
                return route
        return self._routes.get(path)

    async def _admits(self, path: str, head: bytes, transport: asyncio.BaseTransport) -> bool:
        guard = self._guard
        if not guard.token or path in guard.open_paths:
            return True
        found = AUTHORIZATION.search(head)
        if found is None:
            return False
        if hmac.compare_digest(found[1] or b"", guard.token.encode()):
            return True
        await guard.token_denied(transport)
        return False
