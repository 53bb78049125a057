"""A page that asks again while somebody looks: what all pages about streams, groups and times have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import Request
from nicegui import ui

from crdtstream.dashboard.addresses import parameters_of
from crdtstream.dashboard.board import Board
from crdtstream.dashboard.nodes import Tag
from crdtstream.dashboard.pages.frame import admitted, frame, to_login
from crdtstream.dashboard.patching import Mount
from crdtstream.dashboard.visitors import Visitor

Parameters = dict[str, bytes]
Drawn = Sequence[Tag | None]
Draw = Callable[[], Awaitable[Drawn]]
# For one request: what draws the page, again and again.
Begin = Callable[[Visitor, Parameters], Draw]


def register_live(
    board: Board, path: str, here: str, title: str, begin: Begin, refresh_s: float, classes: str = "stack"
) -> None:
    """Serve this path; with `refresh_s` 0 a page is drawn once."""

    async def page(request: Request) -> Any:
        visitor = await admitted(board, request)
        if visitor is None:
            return to_login(request)
        draw = begin(visitor, parameters_of(request.scope["query_string"]))
        with frame(board, visitor, here):
            mount = Mount(classes)

        async def refresh() -> None:
            mount.show(*await draw())

        ui.timer(refresh_s or 0.1, refresh, once=not refresh_s)
        return None

    ui.page(path, title=title)(page)


def key_in(parameters: Parameters, name: str = "key") -> bytes:
    """A name of a stream or group; forms send it in hexadecimal, as it may be no text."""
    told = parameters.get(f"{name}-hex")
    if told is None:
        return parameters.get(name, b"")
    try:
        return bytes.fromhex(told.decode("ascii"))
    except (ValueError, UnicodeDecodeError):
        return b""
