"""The search for streams."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from crdtstream.dashboard.addresses import url
from crdtstream.dashboard.asking import SearchPage
from crdtstream.dashboard.decoding import shown
from crdtstream.dashboard.nodes import Tag, badge, figure, link, node, panel, remark, table
from crdtstream.observing.rows import StreamRow
from crdtstream.observing.words import count, several


def search_form(pattern: str) -> Tag:
    field = node(
        "label",
        "field grow",
        "Pattern",
        node("input", "", type="search", name="pattern", value=pattern, placeholder="orders:*", autocomplete="off"),
    )
    button = node("button", "main", "Search", type="submit")
    return panel("Streams", node("form", "row", field, button, action="/streams", method="get"))


def results(found: SearchPage, regions: Sequence[str], pattern: str) -> Tag:
    complaints = [remark(error) for error in found.errors]
    if not found.rows:
        more = " Not all keys were visited yet." if found.cursors else ""
        return panel("Found", *complaints, remark(f"No stream here.{more}"), following(found, pattern))
    rows = [result(name, dict(cells), regions) for name, cells in found.rows]
    heads = ("stream", *regions, "last ID", "groups", "")
    return panel(f"Found: {several(len(rows), 'stream')}", *complaints, table(heads, rows), following(found, pattern))


def result(name: bytes, cells: dict[str, StreamRow | None], regions: Sequence[str]) -> tuple[Tag | str, ...]:
    """A region that has no cell was not asked: its shard does not answer."""
    known = [row for row in cells.values() if row is not None]
    same = len(known) == len(cells) and len({(row.length, row.last_id, row.entries_added) for row in known}) == 1
    lengths = [length(cells[region]) if region in cells else figure("no answer") for region in regions]
    last = max((row.last_id for row in known), key=place, default="")
    groups = max((row.groups for row in known), default=0)
    mark = badge("alike", "good") if same else badge("differs", "warn")
    return (
        link(shown(name), url("/stream", key=name), "break"),
        *lengths,
        node("td", "code", last),
        figure(count(groups)),
        mark,
    )


def place(entry_id: str) -> tuple[int, int]:
    ms, _, seq = entry_id.partition("-")
    return int(ms or 0), int(seq or 0)


def length(row: StreamRow | None) -> Tag:
    return figure("no stream", "differs") if row is None else figure(count(row.length))


def following(found: SearchPage, pattern: str) -> Tag | None:
    """Where the search goes on: a cursor for each region."""
    if not found.cursors:
        return None
    cursors = ",".join(f"{quote(region, safe='')}:{cursor.decode()}" for region, cursor in found.cursors.items())
    return node("div", "buttons", link("More", url("/streams", pattern=pattern, cursors=cursors), "button"))
