"""CRDT.REGIONS and CRDT.MEMBERS for people: a row for each link and each member, however many regions there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.rows import ENDED, LINK_SELF, LinkRow, fields_of_row, link_rows, number, origin_rows, text
from crdtstream.observing.words import NOTHING, count, duration, size

# By shard; None where regions have one.
ShardsAnswers = Mapping[int | None, Sequence[RegionAnswer]]
LIVE = frozenset(("member", "newcomer"))


def table_of_peers(answers: ShardsAnswers, members: ShardsAnswers) -> Table:
    """A row for each peer of each region and shard, without those that the members say are gone."""
    sharded = None not in answers
    table = table_with(
        "CRDT.REGIONS", ("region", "peer", "link"), ("lag", "durable lag", "silent"), "since and why", sharded
    )
    for shard, told in answers.items():
        gone = evicted_regions(members.get(shard, []))
        names = {row.region: row.name for answer in told if not answer.error for row in link_rows(answer.value)}
        for answer in told:
            first = [*shard_cell(shard), answer.region]
            if answer.error:
                table.add_row(*first, "", "", "", "", "", answer.error, style="red")
                continue
            for row in link_rows(answer.value):
                if row.link != LINK_SELF and row.region not in gone:
                    table.add_row(*first, *cells_of(row, names), style="" if row.is_linked else "red")
    return table


def cells_of(row: LinkRow, names: Mapping[int, str]) -> list[str]:
    lags = [count(row.lag), count(row.durable_lag), duration(row.silent_ms)]
    return [names.get(row.region) or row.address, row.link, *lags, remark(row)]


def shard_cell(shard: int | None) -> list[str]:
    return [] if shard is None else [str(shard)]


def remark(row: LinkRow) -> str:
    if row.lacking:
        return f"has no room ({row.lacking}) for {duration(row.lacking_ms)}"
    if row.unlinked_ms < 0:
        return size(row.transfer_bytes) if row.transfer_bytes else ""
    return f"{duration(row.unlinked_ms)}: {row.reason}"


def evicted_regions(members: Sequence[RegionAnswer]) -> set[int]:
    origins = [origin for answer in members if not answer.error for origin in origin_rows(answer.value)]
    return {each.region for each in origins} - {each.region for each in origins if each.state not in ENDED}


def table_of_members(answers: ShardsAnswers, every: bool) -> Table:
    """A row for each origin, with the greatest lag and the most log that any region has for it."""
    numbers = ("incarnation", "lag", "log kept")
    table = table_with("CRDT.MEMBERS", ("origin", "region", "state"), numbers, "", None not in answers)
    for shard, told in answers.items():
        found: dict[str, list[dict[str, object]]] = {}
        for answer in told:
            if answer.error:
                table.add_row(*shard_cell(shard), "", answer.region, "", "", "", "", answer.error, style="red")
                continue
            for row in map(fields_of_row, answer.value):
                found.setdefault(text(row, "origin"), []).append(row)
        for origin, rows in found.items():
            add_member(table, shard, origin, rows, every)
    if not any(not answer.error for told in answers.values() for answer in told):
        table.caption = NOTHING
    return table


def add_member(table: Table, shard: int | None, origin: str, rows: Sequence[Mapping[str, object]], every: bool) -> None:
    """A row for an origin, as all regions have told of it."""
    states = sorted({text(row, "state") for row in rows})
    if not every and LIVE.isdisjoint(states):
        return
    name = next((text(row, "name") for row in rows if row.get("name")), f"region {number(rows[0], 'region')}")
    table.add_row(
        *shard_cell(shard),
        origin,
        name,
        " / ".join(states),
        count(number(rows[0], "incarnation")),
        count(max(number(row, "lag") for row in rows)),
        size(max(number(row, "held-back-bytes") for row in rows)),
        "the regions differ" if len(states) > 1 else "",
        style="red" if len(states) > 1 else "",
    )


def table_with(title: str, texts: Sequence[str], numbers: Sequence[str], remarks: str, sharded: bool) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    if sharded:
        table.add_column("shard", justify="right", no_wrap=True)
    for name in texts:
        table.add_column(name, max_width=24, no_wrap=True, overflow="ellipsis")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(remarks, overflow="fold")
    return table
