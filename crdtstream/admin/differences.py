"""`crdtstream admin diff KEY`: what of one stream differs between regions: its digest, entries and groups.

Equal digests end it at once. Otherwise the entries are compared page by page, until the time for the command is over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from crdtstream.admin.comparison import AGREE, DIFFER, UNREACHABLE, ComparisonRow, RegionComparison, compare, text_of
from crdtstream.admin.output import finish
from crdtstream.admin.ranges import compare_range
from crdtstream.admin.regions import Counterparts
from crdtstream.admin.settings import state
from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.rows import fields_of_row

GROUPS_MAX = 50
EXISTS = "yes"


def diff(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="Name of the stream.")],
    shown_max: Annotated[int, typer.Option("--count", help="Entries that are shown at most.", min=1)] = 20,
) -> None:
    """Show what of a stream differs between the regions: digest, length, entries, groups and what they acknowledged."""
    regions = state(context).regions.of(key)
    digests = named("digest", compare(regions.ask("CRDT.DIGEST", key)))
    if digests.code == AGREE:
        notes = {"compared": 0, "differing": 0, "complete": True}
        finish(
            context,
            f"diff {key}",
            digests,
            "the digests are equal: the regions hold the same",
            notes,
            shard=regions.shard,
        )
        return
    lengths = named("length", compare(regions.ask("XLEN", key)))
    groups = differing(compare_groups(regions, key))
    entries = compare_range(regions, key, "-", "+", shown_max, 0, first_max=0)
    differences = differing(entries.comparison())
    rows = [*digests.rows, *lengths.rows, *groups.rows, *[present(row) for row in differences.rows]]
    code = max((digests.code, groups.code, differences.code), key=[AGREE, DIFFER, UNREACHABLE].index)
    whole = "" if entries.complete else "; cut short: wait longer with --timeout"
    caption = f"{entries.compared:,} entries compared, {entries.differing:,} different{whole}"
    notes = {"compared": entries.compared, "differing": entries.differing, "complete": entries.complete}
    unique = list({(row.field, *row.cells): row for row in rows}.values())
    finish(context, f"diff {key}", RegionComparison(digests.regions, unique, code), caption, notes, shard=regions.shard)


def named(field: str, comparison: RegionComparison) -> RegionComparison:
    rows = [replace(row, field=field) if row.field == "value" else row for row in comparison.rows]
    return replace(comparison, rows=rows)


def differing(comparison: RegionComparison) -> RegionComparison:
    return replace(comparison, rows=[row for row in comparison.rows if row.differs])


def present(row: ComparisonRow) -> ComparisonRow:
    """Show only where an entry is, if all regions that have it have the same."""
    held = {cell for cell in row.cells if cell != "-"}
    if len(held) > 1:
        return row
    return replace(row, cells=[EXISTS if cell != "-" else cell for cell in row.cells])


def compare_groups(regions: Counterparts, key: str) -> RegionComparison:
    """Which groups exist, and up to which ID of each origin everything is acknowledged."""
    listed = regions.ask("XINFO", "GROUPS", key)
    names = sorted({fields_of_row(row)["name"] for answer in listed if not answer.error for row in answer.value})
    rows: list[ComparisonRow] = []
    code = AGREE
    columns = [answer.region for answer in listed]
    for name in names[:GROUPS_MAX]:
        answers = regions.ask("CRDT.GROUP", "SHOW", key, name, "COUNT", 0)
        found = compare([frontiers(answer) for answer in answers])
        code = max(code, found.code, key=[AGREE, DIFFER, UNREACHABLE].index)
        rows += [replace(row, field=f"group {text_of(name)} {row.field}") for row in found.rows]
    return RegionComparison(columns, rows, code)


def frontiers(answer: RegionAnswer) -> RegionAnswer:
    """A field for each origin; a group that does not exist is a difference, not an error."""
    if answer.unreachable:
        return answer
    if answer.error:
        return RegionAnswer(answer.region, [b"exists", b"no"])
    fields: list[Any] = [b"exists", EXISTS.encode()]
    for row in map(fields_of_row, fields_of_row(answer.value)["origins"]):
        fields += [b"acknowledged of " + row["origin"], row["frontier"] or b"0-0"]
    return RegionAnswer(answer.region, fields)
