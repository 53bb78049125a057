"""The entries of a stream: pages, and a live tail."""

from __future__ import annotations

from collections.abc import Sequence

from crdtstream.dashboard.addresses import url
from crdtstream.dashboard.decoding import decoded, shown
from crdtstream.dashboard.inspection import Entry
from crdtstream.dashboard.nodes import Tag, badge, link, node, panel, remark
from crdtstream.observing.words import moment

PAGE = 25


def entry_card(entry: Entry) -> Tag:
    pairs = zip(entry.fields[::2], entry.fields[1::2], strict=True)
    cells: list[Tag] = []
    for name, value in pairs:
        found = decoded(value)
        kind = None if found.kind == "text" else badge(found.kind, "")
        cells.append(node("span", "label", shown(name)))
        cells.append(node("div", "", kind, node("pre", "", found.text)))
    head = node(
        "header",
        "",
        node("strong", "code", entry.entry_id),
        node("span", "dim", moment(entry.entry_id)),
        node("span", "dim", f"origin {entry.origin}"),
    )
    return node("article", "card", head, node("div", "fields", *cells))


def choices(key: bytes, regions: Sequence[str], region: str, start: str) -> Tag:
    options = [node("option", "", name, value=name, selected=name == region) for name in regions]
    fields = [
        node("input", "", type="hidden", name="key-hex", value=key.hex()),
        node("label", "field", "Region", node("select", "", *options, name="region")),
        node(
            "label",
            "field grow",
            "From an ID, or a time in UTC; empty for the newest",
            node(
                "input", "", type="search", name="from", value=start, placeholder="1700000000000-0 or 2026-11-25 18:30"
            ),
        ),
        node("button", "main", "Show", type="submit"),
        link("Live tail", url("/tail", key=key, region=region), "button"),
    ]
    return panel("Entries", node("form", "row", *fields, action="/entries", method="get"))


def page(key: bytes, region: str, entries: Sequence[Entry], error: str, newest_first: bool) -> Tag:
    if error:
        return panel("Page", remark(error))
    if not entries:
        return panel("Page", remark("No entries here."))
    order = "newest first" if newest_first else "oldest first"
    return panel(
        f"{len(entries)} entries, {order}",
        *[entry_card(each) for each in entries],
        turning(key, region, entries, newest_first),
    )


def turning(key: bytes, region: str, entries: Sequence[Entry], newest_first: bool) -> Tag:
    """Older and newer: the pages on both sides of this one."""
    oldest, newest = (entries[-1], entries[0]) if newest_first else (entries[0], entries[-1])
    older = url("/entries", key=key, region=region, before=oldest.entry_id)
    newer = url("/entries", key=key, region=region, after=newest.entry_id)
    return node("div", "buttons", link("Newer", newer, "button"), link("Older", older, "button"))


def tail(region: str, entries: Sequence[Entry], error: str) -> Tag:
    told = f"Entries of {region} as they arrive, newest on top."
    if error:
        told = f"{region} does not answer: {error}. The tail goes on behind the last entry once it does."
    return panel("Live tail", remark(told), *[entry_card(each) for each in entries])
