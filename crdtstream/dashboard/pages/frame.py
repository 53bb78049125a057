"""The frame of every page: navigation, theme, keyboard, and who may see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from crdtstream.dashboard.board import Board
from crdtstream.dashboard.nodes import Tag, link, node
from crdtstream.dashboard.patching import Mount
from crdtstream.dashboard.visitors import COOKIE, Visitor

STYLE = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
# The theme is that of the system until somebody chooses. Keys: `/` searches, g and a letter go to a page.
SCRIPT = """
const theme = localStorage.getItem('theme');
if (theme) document.documentElement.dataset.theme = theme;
function turnTheme() {
  const root = document.documentElement, dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const next = (root.dataset.theme || (dark ? 'dark' : 'light')) === 'dark' ? 'light' : 'dark';
  root.dataset.theme = next;
  localStorage.setItem('theme', next);
}
let going = false;
addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const places = {o: '/', s: '/streams', t: '/time', a: '/actions'};
  if (event.key === '/') {
    const field = document.querySelector('input[type=search]');
    if (field) { field.focus(); event.preventDefault(); } else location.href = '/streams';
  } else if (event.key === 'd') turnTheme();
  else if (going && places[event.key]) location.href = places[event.key];
  going = event.key === 'g';
});
"""
PAGES = (("/", "Overview"), ("/streams", "Streams"), ("/time", "Time"), ("/actions", "Actions"))
HEAD = f"<style>{STYLE}</style><script>{SCRIPT}</script>"


async def admitted(board: Board, request: Request) -> Visitor | None:
    """The visitor; None if nobody logged in and the default user needs a password."""
    visitor = board.visitors.find(request.cookies.get(COOKIE))
    return visitor if visitor is not None else await board.default_visitor()


def to_login(request: Request) -> RedirectResponse:
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/login?to={quote(request.url.path + query, safe='')}", status_code=303)


def frame(board: Board, visitor: Visitor | None, here: str) -> Any:
    """Draw the frame; returns the element that the page's content goes into."""
    ui.add_head_html(HEAD)
    ui.query(".nicegui-content").style("padding: 0; gap: 0; display: block")
    header = Mount()
    header.show(bar(board, visitor, here))
    content = ui.element("div")
    content.props.update({"id": "main", "class": "page"})
    return content


def bar(board: Board, visitor: Visitor | None, here: str) -> Tag:
    marks = [node("a", "here" if path == here else "", title, href=path) for path, title in PAGES]
    theme = node("button", "", "◐", onclick="turnTheme()", title="Light or dark (d)", type="button")
    return node(
        "header",
        "bar",
        node("a", "skip", "Skip to the content", href="#main"),
        link(board.cluster or "crdtstream", "/", "brand"),
        node("nav", "", *marks, aria_label="Pages"),
        node("div", "who", *who(visitor), theme),
    )


def who(visitor: Visitor | None) -> list[Tag]:
    if visitor is None:
        return []
    if visitor.is_anonymous:
        return [link("Log in", "/login")]
    leave = node("form", "", node("button", "", "Log out", type="submit"), action="/logout", method="post")
    return [node("span", "", visitor.user), leave]
