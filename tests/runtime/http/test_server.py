"""The HTTP port: a path is read, and whatever else arrives costs little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
import structlog

from crdtstream.runtime.http import server as server_module
from crdtstream.runtime.http.server import Guard, HttpAnswer, HttpServer, said
from tests.running_region import DEADLINE_S, until


async def greet() -> HttpAnswer:
    return said(HTTPStatus.OK, "hello")


async def shout() -> HttpAnswer:
    return said(HTTPStatus.OK, "HELLO")


async def fail() -> HttpAnswer:
    raise ZeroDivisionError


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    started = HttpServer("127.0.0.1", 0, {"/hello": greet, "/fails": fail, "/hello?loud": shout})
    await started.start()
    yield started
    await started.stop()


def port_of(server: HttpServer) -> int:
    assert server._server is not None
    return int(server._server.sockets[0].getsockname()[1])


async def exchange(server: HttpServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(request)
    async with asyncio.timeout(DEADLINE_S):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK", b"hello\n"),
        (b"GET /hello?a=b HTTP/1.0\r\n\r\n", b"200 OK", b"hello\n"),
        (b"GET /hello?loud HTTP/1.1\r\n\r\n", b"200 OK", b"HELLO\n"),
        (b"GET /hello?loud=1 HTTP/1.1\r\n\r\n", b"200 OK", b"HELLO\n"),
        (b"GET /hello?loud&x HTTP/1.1\r\n\r\n", b"200 OK", b"HELLO\n"),
        (b"GET /hello?x=loud&l%6fud= HTTP/1.1\r\n\r\n", b"200 OK", b"HELLO\n"),
        (b"GET /hello?louder&x=loud HTTP/1.1\r\n\r\n", b"200 OK", b"hello\n"),
        (b"GET /fails?loud HTTP/1.1\r\n\r\n", b"500 Internal Server Error", None),
        (b"HEAD /hello HTTP/1.1\r\n\r\n", b"200 OK", b""),
        (b"GET / HTTP/1.1\r\n\r\n", b"404 Not Found", b"there are /hello, /fails, /hello?loud\n"),
        (b"POST /hello HTTP/1.1\r\nContent-Length: 9\r\n\r\nbody body", b"405 Method Not Allowed", None),
        (b"PING\r\n\r\n", b"400 Bad Request", None),
        (b"GET /hello HTTP/2\r\n\r\n", b"400 Bad Request", None),
        (b"\xff\x00 \xfe HTTP/1.1\r\n\r\n", b"404 Not Found", None),
        (b"GET /hello HTTP/1.1\r\nX: " + b"x" * 50_000 + b"\r\n\r\n", b"431 Request Header Fields Too Large", None),
    ],
)
async def test_answers(server: HttpServer, request_: bytes, status: bytes, body: bytes | None) -> None:
    answer = await exchange(server, request_)
    head, _, found = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status + b"\r\n") and b"Connection: close" in head
    assert body is None or found == body


async def test_a_fault_is_an_answer_and_an_event(server: HttpServer) -> None:
    with structlog.testing.capture_logs() as told:
        answer = await exchange(server, b"GET /fails HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert [(line["event"], line["path"]) for line in told] == [("http-request-failed", "/fails")]


async def test_who_says_nothing_is_closed(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REQUEST_S", 0.01)
    assert await exchange(server, b"GET /hello") == b""


async def test_connections_are_bounded(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 2)
    open_ = [await asyncio.open_connection("127.0.0.1", port_of(server)) for _ in range(2)]
    await until(lambda: len(server._running) == 2, "both are in")
    assert (await exchange(server, b"GET /hello HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503 ")
    for _, writer in open_:
        writer.close()
    await until(lambda: not server._running, "both are gone")
    assert (await exchange(server, b"GET /hello HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_a_stop_ends_connections(server: HttpServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    await until(lambda: len(server._running) == 1, "it is in")
    await server.stop()
    async with asyncio.timeout(DEADLINE_S):
        assert await reader.read() == b""
    writer.close()


class Watched(Guard):
    token = "0123456789abcdef"
    open_paths = ("/fails",)

    def __init__(self) -> None:
        self.denied = 0

    async def token_denied(self, transport: asyncio.BaseTransport) -> None:
        self.denied += 1


@pytest.mark.parametrize(
    ("line", "status", "denied"),
    [
        (b"Authorization: Bearer 0123456789abcdef\r\n", b"200", 0),
        (b"Host: x\r\nauthorization:bearer  0123456789abcdef \r\nX: y\r\n", b"200", 0),
        (b"", b"401", 0),
        (b"X-Authorization: Bearer 0123456789abcdef\r\n", b"401", 0),
        (b"Authorization: Bearer 0123456789abcde\r\n", b"401", 1),
        (b"Authorization: Bearer 0123456789abcdef more\r\n", b"401", 1),
        (b"Authorization: Bearer\r\n", b"401", 1),
        (b"Authorization: Basic 0123456789abcdef\r\n", b"401", 1),
        (b"Authorization: Bearer \xc3\xbc\r\n", b"401", 1),
    ],
)
async def test_a_path_asks_for_the_token(line: bytes, status: bytes, denied: int) -> None:
    guard = Watched()
    server = HttpServer("127.0.0.1", 0, {"/hello": greet, "/fails": fail}, guard)
    await server.start()
    answer = await exchange(server, b"GET /hello HTTP/1.1\r\n" + line + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status + b" ")
    assert (b"\r\nWWW-Authenticate: Bearer\r\n" in answer) == (status == b"401")
    assert guard.denied == denied
    with structlog.testing.capture_logs():
        assert (await exchange(server, b"GET /fails HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 500 ")
    await server.stop()
