"""/time: charts of the last hour, and of longer where a Prometheus is named."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from nicegui import ui

from crdtstream.dashboard.addresses import number_in, parameters_of
from crdtstream.dashboard.board import Board
from crdtstream.dashboard.nodes import node, remark
from crdtstream.dashboard.pages.frame import admitted, frame, to_login
from crdtstream.dashboard.patching import Mount
from crdtstream.dashboard.prometheus import QUERIES, SPANS, read_range
from crdtstream.dashboard.views.charts import CHARTS, lines_of, options

REFRESH_S = 5.0


def register(board: Board) -> None:
    async def page(request: Request) -> Any:
        visitor = await admitted(board, request)
        if visitor is None:
            return to_login(request)
        hours = number_in(parameters_of(request.scope["query_string"]), "hours", 0)
        with frame(board, visitor, "/time"):
            Mount("stack").show(spans(board, hours))
            if board.prometheus and hours in SPANS:
                draw_long(board, hours)
            else:
                draw_hour(board)
        return None

    ui.page("/time", title="Time")(page)


def spans(board: Board, hours: int) -> Any:
    """Which times can be shown."""
    if not board.prometheus:
        return remark("The last hour, as this dashboard saw it. With --prometheus URL, longer.")
    tabs = [
        node("a", "here" if span == hours else "", name, href=f"/time?hours={span}") for span, name in SPANS.items()
    ]
    return node("nav", "tabs", node("a", "here" if not hours else "", "Last hour", href="/time"), *tabs)


def chart_box(title: str) -> Any:
    """A panel with a chart, which has no lines yet."""
    section = ui.element("section")
    section.props["class"] = "panel"
    with section:
        Mount().show(node("h2", "", title))
        chart = ui.echart(options({}))
        chart.props["class"] = "chart"
    return chart


def grid() -> Any:
    found = ui.element("div")
    found.props["class"] = "grid"
    return found


def put(chart: Any, lines: Any) -> None:
    chart.options.clear()
    chart.options.update(options(lines))
    chart.update()


def draw_hour(board: Board) -> None:
    with grid():
        charts = [chart_box(title) for title, *_ in CHARTS]

    def refresh() -> None:
        for chart, (_, field, grows, unit) in zip(charts, CHARTS, strict=True):
            put(chart, lines_of(board.watch.history, field, grows, unit))

    ui.timer(REFRESH_S, refresh)


def draw_long(board: Board, hours: int) -> None:
    told = Mount()
    with grid():
        charts = [chart_box(title) for title, _ in QUERIES]

    async def fill() -> None:
        for chart, (_, query) in zip(charts, QUERIES, strict=True):
            lines, error = await read_range(board.prometheus, query, hours)
            if error:
                told.show(remark(f"Prometheus at {board.prometheus} does not answer: {error}"))
                return
            put(chart, lines)

    ui.timer(0.1, fill, once=True)
