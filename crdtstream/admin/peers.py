"""CRDT.REGIONS and CRDT.MEMBERS for people: a row for each link and each member, however many regions there are."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.rows import EVICTED, LINK_SELF, LinkRow, fields_of_row, link_rows, number, origin_rows, text
from crdtstream.observing.words import NOTHING, count, duration, size

LIVE = frozenset(("member", "newcomer"))


def table_of_peers(answers: Sequence[RegionAnswer], members: Sequence[RegionAnswer]) -> Table:
    """A row for each peer of each region, without those that the members say are gone."""
    table = table_with("CRDT.REGIONS", ("region", "peer", "link"), ("lag", "durable lag", "silent"), "since and why")
    gone = evicted_regions(members)
    names = {row.region: row.name for answer in answers if not answer.error for row in link_rows(answer.value)}
    for answer in answers:
        if answer.error:
            table.add_row(answer.region, "", "", "", "", "", answer.error, style="red")
            continue
        for row in link_rows(answer.value):
            if row.link != LINK_SELF and row.region not in gone:
                cells = (count(row.lag), count(row.durable_lag), duration(row.silent_ms), remark(row))
                style = "" if row.is_linked else "red"
                table.add_row(answer.region, names.get(row.region) or row.address, row.link, *cells, style=style)
    return table


def remark(row: LinkRow) -> str:
    if row.lacking:
        return f"has no room ({row.lacking}) for {duration(row.lacking_ms)}"
    if row.unlinked_ms < 0:
        return size(row.transfer_bytes) if row.transfer_bytes else ""
    return f"{duration(row.unlinked_ms)}: {row.reason}"


def evicted_regions(members: Sequence[RegionAnswer]) -> set[int]:
    origins = [origin for answer in members if not answer.error for origin in origin_rows(answer.value)]
    return {each.region for each in origins} - {each.region for each in origins if each.state != EVICTED}


def table_of_members(answers: Sequence[RegionAnswer], every: bool) -> Table:
    """A row for each origin, with the greatest lag and the most log that any region has for it."""
    table = table_with("CRDT.MEMBERS", ("origin", "region", "state"), ("incarnation", "lag", "log kept"), "")
    found: dict[str, list[dict[str, object]]] = {}
    for answer in answers:
        if answer.error:
            table.add_row("", answer.region, "", "", "", "", answer.error, style="red")
            continue
        for row in map(fields_of_row, answer.value):
            found.setdefault(text(row, "origin"), []).append(row)
    for origin, rows in found.items():
        states = sorted({text(row, "state") for row in rows})
        if every or not LIVE.isdisjoint(states):
            name = next((text(row, "name") for row in rows if row.get("name")), f"region {number(rows[0], 'region')}")
            table.add_row(
                origin,
                name,
                " / ".join(states),
                count(number(rows[0], "incarnation")),
                count(max(number(row, "lag") for row in rows)),
                size(max(number(row, "held-back-bytes") for row in rows)),
                "the regions differ" if len(states) > 1 else "",
                style="red" if len(states) > 1 else "",
            )
    if not found:
        table.caption = NOTHING
    return table


def table_with(title: str, texts: Sequence[str], numbers: Sequence[str], remarks: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for name in texts:
        table.add_column(name, max_width=24, no_wrap=True, overflow="ellipsis")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(remarks, overflow="fold")
    return table
