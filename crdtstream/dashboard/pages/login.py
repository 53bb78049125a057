"""/login: a form; its answer is a cookie that scripts cannot read and other sites do not send."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from nicegui import ui

from crdtstream.dashboard.addresses import parameters_of, text_in
from crdtstream.dashboard.board import Board
from crdtstream.dashboard.pages.frame import frame
from crdtstream.dashboard.patching import Mount
from crdtstream.dashboard.views.login import login
from crdtstream.dashboard.visitors import COOKIE

FORM_BYTES_MAX = 16 << 10


def register(board: Board) -> None:
    async def page(request: Request) -> None:
        told = parameters_of(request.scope["query_string"])
        with frame(board, None, "/login"):
            Mount("stack").show(login(text_in(told, "to", "/"), text_in(told, "complaint")))

    ui.page("/login", title="Log in")(page)


def local(target: str) -> str:
    """A path of this site: what begins with two slashes would be another host."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"


async def form_of(request: Request) -> dict[str, bytes]:
    """The fields of a posted form; empty if it is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES_MAX:
            return {}
    return parameters_of(body)


def register_forms(app: FastAPI, board: Board) -> None:
    async def enter(request: Request) -> Response:
        told = await form_of(request)
        target = local(text_in(told, "to", "/"))
        user, password = text_in(told, "user"), text_in(told, "password")
        cookie, complaint = await board.visitors.enter(user, password, board.watch.addresses.values())
        if complaint:
            return RedirectResponse(f"/login?to={quote(target, safe='')}&complaint={quote(complaint)}", 303)
        answer = RedirectResponse(target, 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=secure)
        return answer

    async def leave(request: Request) -> Response:
        await board.visitors.leave(request.cookies.get(COOKIE))
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE)
        return answer

    app.post("/login")(enter)
    app.post("/logout")(leave)
