"""`python -m nemesis`: breaks the environment of three real regions and reports the results; exits with 1 if anything
is wrong.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from crdtstream.processes.launching import end_cleanly_at_signals
from nemesis.checker import KINDS
from nemesis.cluster import PACKETS, RELAYS, ROOT
from nemesis.faults import FAULTS, NEEDS_NAMESPACES
from nemesis.network import reason_for_none
from nemesis.run import Row, rounds

USAGE_ERROR = 2
FAILURE = 1
ANOMALIES_SHOWN = 10
WIDTH = 190
SUMMED = ("perished", "undone")

progress = Console(stderr=True)


class Fsync(StrEnum):
    """The policies to run: one, or one after the other."""

    ALWAYS = "always"
    EVERYSEC = "everysec"
    NO = "no"
    BOTH = "both"


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    seconds: Annotated[float, typer.Option(min=0, help="Duration for each policy; a round is never cut short.")] = 300,
    fault_s: Annotated[float, typer.Option(min=0, help="Duration of a fault, plus or minus half of it.")] = 8,
    seed: Annotated[
        int | None, typer.Option(help="Determines order and victims of faults, and the clients' commands.")
    ] = None,
    fsync: Annotated[
        Fsync, typer.Option(help="Policy of the regions; `both` runs always, then everysec.")
    ] = Fsync.BOTH,
    faults: Annotated[str, typer.Option(help="Faults by name, separated by commas; all by default.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    loopback: Annotated[
        bool, typer.Option("--loopback", help="Use relays instead of namespaces; fewer faults.")
    ] = False,
    source: Annotated[Path, typer.Option(help="The checkout that the regions run, perhaps a broken one.")] = ROOT,
    keep: Annotated[Path | None, typer.Option(help="Directory for the records of failed rounds.")] = None,
) -> None:
    """Run three regions in network namespaces, on small disks, under load and faults."""
    end_cleanly_at_signals()
    chosen = [name.strip() for name in faults.split(",")] if faults else list(FAULTS)
    unknown = [name for name in chosen if name not in FAULTS]
    if unknown:
        progress.print(f"no fault {unknown[0]!r}; there are: {', '.join(FAULTS)}")
        raise typer.Exit(USAGE_ERROR)
    kind, chosen = kind_of(loopback, chosen)
    number = random.randrange(1 << 32) if seed is None else seed
    records = keep or Path(tempfile.gettempdir()) / f"nemesis-{number}"
    policies = [Fsync.ALWAYS, Fsync.EVERYSEC] if fsync is Fsync.BOTH else [fsync]
    rows = []
    try:
        for policy in policies:
            for row in rounds(policy.value, chosen, seconds, fault_s, number, records, kind, source):
                progress.print(line_of(row), markup=False, highlight=False)
                rows.append(row)
    except KeyboardInterrupt:
        progress.print("interrupted")
    show(rows, number, as_json)
    sound = bool(rows) and all(row.is_sound for row in rows)
    if not sound:
        progress.print(f"records: {records}", markup=False)
    raise typer.Exit(0 if sound else FAILURE)


def kind_of(loopback: bool, chosen: list[str]) -> tuple[str, list[str]]:
    """Return how the regions are connected here, and which of the faults that permits."""
    reason = "" if loopback else reason_for_none()
    if not loopback and not reason:
        return PACKETS, chosen
    if reason:
        progress.print(f"no network namespaces, which need root on Linux: {reason}", markup=False)
    left = [name for name in chosen if name not in NEEDS_NAMESPACES]
    progress.print(f"on loopback: {', '.join(left) or 'nothing to do'}", markup=False)
    if not left:
        raise typer.Exit(USAGE_ERROR)
    return RELAYS, left


def line_of(row: Row) -> str:
    figures = f"{row.operations} operations, healed in {row.healed_s:.1f} s"
    return f"{row.fsync}: {row.fault} ({row.where}): {figures}: {'sound' if row.is_sound else 'WRONG'}"


def show(rows: list[Row], seed: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"seed": seed, "rows": [row.row() for row in rows]}, indent=1))
        return
    console = Console(width=WIDTH)
    console.print(table_of(rows, seed))
    for row in rows:
        for text in [*map(str, row.anomalies[:ANOMALIES_SHOWN]), *row.problems]:
            console.print(f"{row.fsync}: {row.fault}: {text}", markup=False, highlight=False)


def table_of(rows: list[Row], seed: int) -> Table:
    """One row for each policy and fault: sums over its rounds, and the longest of its times."""
    table = Table(title=f"nemesis, seed {seed}")
    for heading in ("fsync", "fault"):
        table.add_column(heading)
    for heading in ("rounds", "seconds", "written", "operations", "healed s", "agreed s", *SUMMED, *KINDS):
        table.add_column(heading, justify="right")
    table.add_column("digests")
    for fsync, fault in dict.fromkeys((row.fsync, row.fault) for row in rows):
        table.add_row(fsync, fault, *cells_of([row for row in rows if (row.fsync, row.fault) == (fsync, fault)]))
    return table


def cells_of(rounds: list[Row]) -> Iterator[str]:
    yield str(len(rounds))
    yield f"{sum(each.seconds for each in rounds):.1f}"
    yield str(sum(each.written for each in rounds))
    yield str(sum(each.operations for each in rounds))
    yield f"{max(each.healed_s for each in rounds):.1f}"
    yield f"{max(each.agreed_s for each in rounds):.1f}"
    yield str(sum(each.perished for each in rounds))
    yield str(sum(each.undone for each in rounds))
    yield from (str(sum(each.counts()[kind] for each in rounds)) for kind in KINDS)
    yield "agree" if all(each.agree for each in rounds) else "DIFFER"


if __name__ == "__main__":
    app()
