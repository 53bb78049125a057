"""`/` of the HTTP port: a page with a link to each path, and to the dashboard, if its address is set."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from crdtstream.settings.config import Config

ROOT = "/"
HTML = "text/html; charset=utf-8"
NO_DASHBOARD = "No dashboard is set: start <code>crdtstream dashboard</code>, and name its address in dashboard_url."


def front_page(config: Config, paths: Iterable[str]) -> bytes:
    title = f"{escape(config.name)} of {escape(config.cluster)}"
    items = "".join(f'<li><a href="{escape(path)}">{escape(path)}</a></li>' for path in paths)
    address = escape(config.dashboard_url)
    told = f'<a href="{address}">Dashboard</a>' if address else NO_DASHBOARD
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><h1>{title}</h1><p>{told}</p><ul>{items}</ul></html>\n"
    )
    return page.encode("utf-8", "surrogateescape")
