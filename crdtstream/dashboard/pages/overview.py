"""/: the overview."""

from __future__ import annotations

import time
from typing import Any

from fastapi import Request
from nicegui import ui

from crdtstream.dashboard.board import Board
from crdtstream.dashboard.pages.frame import admitted, frame, to_login
from crdtstream.dashboard.patching import Mount
from crdtstream.dashboard.views import overview as view

REFRESH_S = 1.0


def register(board: Board) -> None:
    async def page(request: Request) -> Any:
        visitor = await admitted(board, request)
        if visitor is None:
            return to_login(request)
        with frame(board, visitor, "/"):
            mount = Mount("grid")
        ui.timer(REFRESH_S, lambda: show(board, mount))
        return None

    ui.page("/", title="crdtstream")(page)


def show(board: Board, mount: Mount) -> None:
    watch = board.watch
    picture = watch.picture
    now_ms = int(1000 * time.time())
    mount.show(
        view.banner(picture.verdict),
        view.picture(picture.places, picture.links) if picture.places else None,
        view.alarms(board.alerts(), board.site, board.prometheus_error),
        view.lagging(board.walks.groups(), board.walks.is_complete(), now_ms, watch.crowded),
        view.regions(picture.readings, picture.shards, watch.digests, now_ms / 1000),
    )
