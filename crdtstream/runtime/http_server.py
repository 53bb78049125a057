"""The HTTP port: a few paths that are read, and nothing else.

It answers GET and HEAD, ignores bodies, closes the connection after each answer, and knows no keep-alive, encoding or
redirect. A request has `REQUEST_S` and `REQUEST_BYTES_MAX`, and there are at most `CONNECTIONS_MAX` at once, so that
who reaches the port costs little.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus

import structlog

from crdtstream.runtime.credentials import join_address

REQUEST_S = 10.0
ANSWER_S = 30.0
REQUEST_BYTES_MAX = 16 << 10
CONNECTIONS_MAX = 64
TEXT = "text/plain; charset=utf-8"

logger = structlog.get_logger()


class Answer:
    """A status, a body, and the type of the body."""

    __slots__ = ("body", "content_type", "status")

    def __init__(self, status: HTTPStatus, body: bytes, content_type: str = TEXT) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type

    def encode(self, with_body: bool) -> bytes:
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            "Cache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            "Connection: close\r\n\r\n"
        ).encode("ascii")
        return head + self.body if with_body else head


def said(status: HTTPStatus, text: str = "") -> Answer:
    return Answer(status, f"{text or status.phrase}\n".encode())


Route = Callable[[], Awaitable[Answer]]


class HttpServer:
    """Listens, and answers with what the route of a path returns."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        self._host = host
        self._port = port
        self._routes = routes
        self._connections = 0
        self._server: asyncio.Server | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Listen; return the address. Raises OSError."""
        limit = REQUEST_BYTES_MAX
        self._server = await asyncio.start_server(self._accept, self._host, self._port, limit=limit)
        return join_address(self._host, self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
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
                answer = await self._answer(head)
                with_body = not head.startswith(b"HEAD ")
        writer.write(answer.encode(with_body))
        async with asyncio.timeout(ANSWER_S):
            await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
            # What was sent too much is read, or closing would reset the connection before the answer arrives.
            with suppress(OSError):
                while await reader.read(REQUEST_BYTES_MAX):
                    pass

    async def _answer(self, head: bytes) -> Answer:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return said(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        path = target.partition("?")[0]
        route = self._routes.get(path)
        if route is None:
            return said(HTTPStatus.NOT_FOUND, f"there are {', '.join(self._routes)}")
        if method not in ("GET", "HEAD"):
            return said(HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            return await route()
        except Exception:
            logger.exception("http-request-failed", path=path)
            return said(HTTPStatus.INTERNAL_SERVER_ERROR)
