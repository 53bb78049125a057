"""One stream, side by side per region, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from crdtstream.dashboard.addresses import url
from crdtstream.dashboard.decoding import shown
from crdtstream.dashboard.inspection import RegionDifference, StreamSide, differing_origins
from crdtstream.dashboard.nodes import Tag, badge, figure, link, node, panel, remark, table
from crdtstream.observing.words import NOTHING, count, moment, several, size

TABS = (("/stream", "Regions"), ("/diff", "Differences"), ("/entries", "Entries"))
DIGEST_SHOWN = 12
SHOWN_MAX = 60


def head(key: bytes, here: str) -> Tag:
    tabs = [node("a", "here" if path == here else "", title, href=url(path, key=key)) for path, title in TABS]
    return node(
        "div",
        "",
        node("p", "crumbs", link("Streams", "/streams"), " / "),
        node("h1", "", shown(key)),
        node("nav", "tabs", *tabs, aria_label="Parts of the stream"),
    )


def sides_table(sides: Sequence[StreamSide], rates: Mapping[str, float | None]) -> Tag:
    """A row for each property and a column for each region, so that what differs stands side by side."""
    rows = [
        property_row("length", sides, lambda side: count(side.row.length) if side.row else NOTHING),
        property_row("first ID", sides, lambda side: side.row.first_id if side.row else NOTHING),
        property_row("last ID", sides, lambda side: side.row.last_id if side.row else NOTHING),
        property_row("last entry, UTC", sides, lambda side: moment(side.row.last_id) if side.row else NOTHING),
        property_row("entries ever added", sides, lambda side: count(side.row.entries_added) if side.row else NOTHING),
        property_row("digest", sides, lambda side: side.digest[:DIGEST_SHOWN] or NOTHING),
        property_row("bytes", sides, lambda side: size(side.byte_count)),
        property_row("groups", sides, lambda side: count(len(side.groups))),
        property_row("added each second", sides, lambda side: rate_text(rates.get(side.region)), compared=False),
    ]
    missing = [remark(f"{side.region}: {side.error}") for side in sides if side.error]
    return panel("Side by side", verdict(sides), *missing, table(("", *[side.region for side in sides]), rows))


def verdict(sides: Sequence[StreamSide]) -> Tag:
    digests = {side.digest for side in sides if not side.error}
    if len(digests) == 1 and not any(side.error for side in sides):
        return node("p", "", badge("alike", "good"), " The digests are equal.")
    return node("p", "", badge("differs", "warn"), " The digests are not equal, or not all are known.")


def property_row(
    name: str, sides: Sequence[StreamSide], text: Callable[[StreamSide], str], compared: bool = True
) -> tuple[Tag | str, ...]:
    texts = ["" if side.error else text(side) for side in sides]
    differs = compared and len(set(texts)) > 1
    return (name, *[figure(each, "differs" if differs else "") for each in texts])


def rate_text(rate: float | None) -> str:
    return NOTHING if rate is None else f"{rate:,.1f}"


def origins_table(sides: Sequence[StreamSide]) -> Tag:
    """The vector of the stream: for each origin how many entries, up to which ID, in each region."""
    held = {side.region: {part.origin: part for part in side.parts} for side in sides}
    differing = set(differing_origins(sides))
    rows: list[tuple[Tag | str, ...]] = []
    for origin in sorted({origin for parts in held.values() for origin in parts}):
        cells = [parts.get(origin) for parts in held.values()]
        texts = [f"{count(part.entries)} up to {part.last_id}" if part else "none" for part in cells]
        rows.append(
            (node("td", "code", origin), *[figure(each, "differs" if origin in differing else "") for each in texts])
        )
    if not rows:
        return panel("By origin", remark("No entries."))
    return panel("By origin", table(("origin", *held), rows))


def groups_table(key: bytes, sides: Sequence[StreamSide]) -> Tag:
    names = sorted({row.name for side in sides for row in side.groups})
    rows = [
        (
            link(shown(name), url("/group", key=key, group=name), "break"),
            *[group_cell(side, name) for side in sides],
        )
        for name in names
    ]
    if not rows:
        return panel("Groups", remark("No groups."))
    return panel("Groups: lag and pending", table(("group", *[side.region for side in sides]), rows))


def group_cell(side: StreamSide, name: bytes) -> Tag:
    found = next((row for row in side.groups if row.name == name), None)
    if found is None:
        return figure("no group", "differs")
    return figure(f"{count(found.lag)} · {count(found.pending)}")


def differences(
    entries: Sequence[RegionDifference],
    groups: Sequence[RegionDifference],
    runs: Sequence[RegionDifference],
    compared: int,
) -> Tag:
    found = [*entries, *groups, *runs]
    told = remark(
        f"The newest {several(compared, 'entry', 'entries')} of each region, all groups, and the newest runs of"
        " acknowledged entries were compared."
    )
    if not found:
        return panel("Differences", node("p", "", badge("alike", "good"), " Nothing differs."), told)
    rows = [
        (
            each.kind,
            node("td", "code break", each.name),
            node("td", "code", each.origin or NOTHING),
            ", ".join(each.has),
            node("td", "differs", ", ".join(each.lacks)),
        )
        for each in found[:SHOWN_MAX]
    ]
    more = remark(f"{len(found) - SHOWN_MAX:,} more are not shown.") if len(found) > SHOWN_MAX else None
    summary = ", ".join(
        [several(len(entries), "entry", "entries"), several(len(groups), "group"), several(len(runs), "run")]
    )
    return panel(
        f"Differences: {summary}",
        by_origin(entries),
        told,
        table(("what", "which", "origin", "in", "not in"), rows),
        more,
    )


def by_origin(entries: Sequence[RegionDifference]) -> Tag | None:
    """How many entries of each origin are missing, and where."""
    counted: dict[tuple[str, tuple[str, ...]], int] = {}
    for each in entries:
        counted[each.origin, each.lacks] = counted.get((each.origin, each.lacks), 0) + 1
    rows = [
        (node("td", "code", origin), figure(count(number)), ", ".join(lacks))
        for (origin, lacks), number in sorted(counted.items())
    ]
    return table(("origin", "entries", "not in"), rows) if rows else None
