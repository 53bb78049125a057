"""What the jobs print: tables for people, and the same as CSV or JSON for programs.

A table that goes to a file or a pipe is as wide as its columns: width is limited only on a terminal or by `COLUMNS`.
The target `-` of CSV and JSON is standard output, and then what is for people goes to standard error.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from crdtstream.spark.jobs.audit import Audited
    from crdtstream.spark.jobs.report import ReportRow
    from crdtstream.spark.jobs.table_audit import TableAudited

STANDARD_OUTPUT: Final = "-"
# Without a terminal, wider than any row; as in `admin/screen.py`, which a client of the bulk port must not import.
WIDE_COLUMNS: Final = 1 << 16
ROWS_SHOWN: Final = 40


def console_of(stderr: bool = False) -> Console:
    """Return the console for people; names of streams are shown as they are."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDE_COLUMNS
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def screen_beside(*targets: str) -> Console:
    """Return the console for people, beside data that goes to these targets."""
    return console_of(stderr=STANDARD_OUTPUT in targets)


@contextmanager
def opened(target: str) -> Iterator[TextIO]:
    if target == STANDARD_OUTPUT:
        yield sys.stdout
    else:
        with open(target, "w", newline="", encoding="utf-8") as file:
            yield file


def write_csv(names: Sequence[str], rows: Sequence[Mapping[str, Any]], target: str) -> None:
    with opened(target) as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_json(value: object, target: str) -> None:
    with opened(target) as file:
        json.dump(value, file, indent=2, default=as_json)
        file.write("\n")


def as_json(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


# Summaries


def table_of_summary(done: object, kind: type) -> Table:
    table = Table(title="done", title_justify="left", show_header=False)
    for each in fields(kind):
        value = getattr(done, each.name)
        table.add_row(each.name.replace("_", " "), f"{value:,.1f}" if isinstance(value, float) else f"{value:,}")
    return table


# Audits


def table_of_divergences(done: Audited) -> Table:
    table = Table("stream", "origin", "seq or group", *done.regions, title="divergences", title_justify="left")
    for each in done.divergences[:ROWS_SHOWN]:
        held = [each.held.get(region, "absent") for region in done.regions]
        table.add_row(each.stream, each.origin, each.group or str(each.seq), *held)
    if len(done.divergences) > ROWS_SHOWN:
        table.caption = f"and {len(done.divergences) - ROWS_SHOWN} more"
    return table


def rows_of_divergences(done: Audited) -> list[dict[str, Any]]:
    """Return a row for each divergence; a region that lacks the entry or the group has no value."""
    rows = []
    for each in done.divergences:
        row = {"stream": each.stream, "origin": each.origin, "seq": each.seq or "", "group": each.group}
        rows.append(row | {f"held {region}": each.held.get(region, "") for region in done.regions})
    return rows


def write_audit(done: Audited, as_csv: str, as_json: str) -> None:
    if as_csv:
        names = ["stream", "origin", "seq", "group", *(f"held {region}" for region in done.regions)]
        write_csv(names, rows_of_divergences(done), as_csv)
    if as_json:
        write_json({**vars(done), "divergences": [vars_of(each) for each in done.divergences]}, as_json)


def vars_of(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def table_of_differences(done: TableAudited) -> Table:
    table = Table("stream", "origin", "seq", "what", title="differences", title_justify="left")
    for each in done.differences[:ROWS_SHOWN]:
        table.add_row(each.stream, each.origin, str(each.seq), each.kind)
    if len(done.differences) > ROWS_SHOWN:
        table.caption = f"and {len(done.differences) - ROWS_SHOWN} more"
    return table


def write_table_audit(done: TableAudited, as_csv: str, as_json: str) -> None:
    rows = [vars_of(each) for each in done.differences]
    if as_csv:
        write_csv(["stream", "origin", "seq", "kind"], rows, as_csv)
    if as_json:
        write_json({**vars(done), "differences": rows}, as_json)


# Reports


def table_of_report(rows: list[ReportRow]) -> Table:
    title = f"{sum(row.entries for row in rows):,} entries, {sum(row.size_bytes for row in rows):,} bytes"
    shown = Table("stream", title=title, title_justify="left")
    for name in ("origin", "hour"):
        shown.add_column(name, no_wrap=True)
    for name in ("entries", "bytes", "lag ms", "at most", "conflicts"):
        shown.add_column(name, justify="right", overflow="fold")
    largest = sorted(rows, key=lambda row: -row.entries)[:ROWS_SHOWN]
    for row in sorted(largest, key=lambda row: (row.stream, row.origin, row.hour)):
        counts = (row.entries, row.size_bytes, row.lag_ms, row.lag_ms_max, row.conflicts)
        shown.add_row(row.stream, row.origin, f"{row.hour:%m-%d %H:00}", *(f"{count:,}" for count in counts))
    if len(rows) > ROWS_SHOWN:
        shown.caption = f"the largest {ROWS_SHOWN} of {len(rows)} rows"
    return shown


def write_report(rows: list[ReportRow], as_csv: str, as_json: str) -> None:
    from crdtstream.spark.jobs.report import ReportRow

    each = [asdict(row) for row in rows]
    if as_csv:
        write_csv([field.name for field in fields(ReportRow)], each, as_csv)
    if as_json:
        write_json(each, as_json)
