"""How comparisons are shown: as a table, or as JSON; both end the command with the comparison's exit code.

A table has a column for each region; where that is wider than the screen, it has a row for each value instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from crdtstream.admin.comparison import AGREE, ERROR, ComparisonRow, RegionComparison, joined
from crdtstream.admin.regions import Counterparts
from crdtstream.admin.settings import print_json, state

REFUSED = 2
ALL = "all"


def finish(
    context: typer.Context,
    title: str,
    comparison: RegionComparison,
    caption: str = "",
    notes: dict[str, Any] | None = None,
    table: Table | None = None,
    shard: int | None = None,
) -> None:
    """Print the comparison and exit with its code; `notes` are further fields of the JSON, `table` another form, and
    `shard` is the one that all of it is about.
    """
    settings = state(context)
    if settings.as_json:
        print_json(as_json(title, comparison) | (notes or {}) | ({} if shard is None else {"shard": shard}))
    else:
        title = title if shard is None else f"{title}, shard {shard}"
        settings.console.print(fitting(title, comparison, settings.console) if table is None else table)
        if caption:
            settings.console.print(caption)
    raise typer.Exit(comparison.code)


def over_shards(context: typer.Context, compared: Callable[[Counterparts], RegionComparison]) -> RegionComparison:
    """The comparisons of each shard with its counterparts, as one."""
    return joined([(each.shard, compared(each)) for each in state(context).regions.counterparts])


def as_json(title: str, comparison: RegionComparison) -> dict[str, Any]:
    return {
        "command": title,
        "regions": comparison.regions,
        "agree": comparison.code == AGREE,
        "rows": [
            {
                "field": row.field,
                **({} if row.shard is None else {"shard": row.shard}),
                "values": dict(zip(comparison.regions, row.cells, strict=True)),
                "differs": row.differs,
            }
            for row in comparison.rows
        ],
    }


def fitting(title: str, comparison: RegionComparison, console: Console) -> Table:
    """The table that can be read on this screen."""
    wide = as_table(title, comparison)
    needed = wide.__rich_measure__(console, console.options.update(max_width=1 << 16)).maximum
    return wide if needed <= console.width else by_value(title, comparison)


def as_table(title: str, comparison: RegionComparison) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("")
    sharded = shard_column(table, comparison)
    table.add_column("field")
    for region in comparison.regions:
        table.add_column(region, overflow="fold")
    for row in comparison.rows:
        mark, style = ("≠", "bold red") if row.differs else ("", "")
        table.add_row(mark, *shard_cell(row, sharded), row.field, *map(str, row.cells), style=style)
    if not comparison.rows:
        table.caption = "nothing to show: the regions agree"
    return table


def by_value(title: str, comparison: RegionComparison) -> Table:
    """A row for each value of a field, and which regions have it."""
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    table.add_column("")
    sharded = shard_column(table, comparison)
    table.add_column("field", overflow="fold")
    table.add_column("regions", overflow="fold", max_width=32)
    table.add_column("value", overflow="fold")
    for row in comparison.rows:
        style = "bold red" if row.differs else ""
        for number, (value, regions) in enumerate(regions_by_value(row, comparison.regions)):
            head = ("≠" if row.differs else "", *shard_cell(row, sharded), row.field)
            table.add_row(*([""] * len(head) if number else head), regions, value, style=style)
    return table


def shard_column(table: Table, comparison: RegionComparison) -> bool:
    """Add a column for the shard where there are several."""
    sharded = any(row.shard is not None for row in comparison.rows)
    if sharded:
        table.add_column("shard", justify="right")
    return sharded


def shard_cell(row: ComparisonRow, sharded: bool) -> list[str]:
    return ["" if row.shard is None else str(row.shard)] if sharded else []


def regions_by_value(row: ComparisonRow, regions: list[str]) -> list[tuple[str, str]]:
    """The values, in the order of the regions, each with the names of those that have it; no error is no value."""
    found: dict[str, list[str]] = {}
    for region, cell in zip(regions, row.cells, strict=True):
        if str(cell) or row.field != ERROR:
            found.setdefault(str(cell), []).append(region)
    return [(value, ALL if len(names) == len(regions) else ", ".join(names)) for value, names in found.items()]
