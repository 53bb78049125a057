"""How comparisons are shown: as a table, or as JSON; both end the command with the comparison's exit code."""

from __future__ import annotations

from typing import Any

import typer
from rich.table import Table

from crdtstream.admin.comparison import AGREE, RegionComparison
from crdtstream.admin.settings import print_json, state

REFUSED = 2


def finish(
    context: typer.Context,
    title: str,
    comparison: RegionComparison,
    caption: str = "",
    notes: dict[str, Any] | None = None,
    table: Table | None = None,
) -> None:
    """Print the comparison and exit with its code; `notes` are further fields of the JSON, `table` another form."""
    settings = state(context)
    if settings.as_json:
        print_json(as_json(title, comparison) | (notes or {}))
    else:
        settings.console.print(as_table(title, comparison) if table is None else table)
        if caption:
            settings.console.print(caption)
    raise typer.Exit(comparison.code)


def as_json(title: str, comparison: RegionComparison) -> dict[str, Any]:
    return {
        "command": title,
        "regions": comparison.regions,
        "agree": comparison.code == AGREE,
        "rows": [
            {
                "field": row.field,
                "values": dict(zip(comparison.regions, row.cells, strict=True)),
                "differs": row.differs,
            }
            for row in comparison.rows
        ],
    }


def as_table(title: str, comparison: RegionComparison) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("")
    table.add_column("field")
    for region in comparison.regions:
        table.add_column(region, overflow="fold")
    for row in comparison.rows:
        mark, style = ("≠", "bold red") if row.differs else ("", "")
        table.add_row(mark, row.field, *map(str, row.cells), style=style)
    if not comparison.rows:
        table.caption = "nothing to show: the regions agree"
    return table
