"""The web server of the dashboard: its pages, its login, and what is the same for every answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from nicegui import app as nicegui_app
from nicegui import ui

from crdtstream.dashboard.board import Board
from crdtstream.dashboard.pages import actions, charts, entries, login, overview, streams
from crdtstream.settings.config import is_loopback

# NiceGUI makes functions of texts of its own (Vue templates, handlers); hence eval. Nothing is loaded from elsewhere.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ws: wss:; object-src 'none';"
    " base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
# A name that some page made to mean this machine, so that its scripts could read the answers.
REBOUND = "{} is no name of this machine: ask for 127.0.0.1 or localhost, or listen elsewhere with --bind"
STOP_S = 3
Next = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Listening:
    """Where the dashboard listens; a certificate means TLS."""

    host: str
    port: int
    certificate: str | None = None
    key: str | None = None


def make_app(board: Board, is_local: bool) -> FastAPI:
    """`is_local`: it listens on loopback alone, and answers no page that reached it under another machine's name."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    async def guard(request: Request, following: Next) -> Response:
        host = request.url.hostname or ""
        if is_local and not is_loopback(host):
            answer: Response = PlainTextResponse(REBOUND.format(host), 403)
        else:
            answer = await following(request)
        answer.headers.update(HEADERS)
        return answer

    app.middleware("http")(guard)
    for page in (overview, streams, entries, charts, actions, login):
        page.register(board)
    login.register_forms(app, board)
    actions.register_forms(app, board)
    watch_while_running(board)
    ui.run_with(app, title="crdtstream", dark=None, show_welcome_message=False, reconnect_timeout=30, favicon=ICON)
    return app


ICON = (
    "data:image/svg+xml;utf8,"
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><g stroke='%233451b2' stroke-width='3'>"
    "<path d='M16 7 7 24h18z' fill='none'/></g><g fill='%233451b2'><circle cx='16' cy='7' r='5'/>"
    "<circle cx='7' cy='24' r='5'/><circle cx='25' cy='24' r='5'/></g></svg>"
)


def watch_while_running(board: Board) -> None:
    running: list[asyncio.Task[None]] = []

    async def begin() -> None:
        running.append(asyncio.create_task(board.run()))

    async def end() -> None:
        for task in running:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await board.close()

    nicegui_app.on_startup(begin)
    nicegui_app.on_shutdown(end)


def serve(board: Board, listening: Listening) -> None:
    """Until Ctrl-C or SIGTERM."""
    settings: dict[str, Any] = {"log_level": "warning", "timeout_graceful_shutdown": STOP_S}
    if listening.certificate is not None:
        settings.update(ssl_certfile=listening.certificate, ssl_keyfile=listening.key)
    uvicorn.run(
        make_app(board, is_loopback(listening.host.strip("[]"))), host=listening.host, port=listening.port, **settings
    )
