"""`python -m simulations`: one run from its seed, a sweep over many seeds, broken lines, or every short history."""

from __future__ import annotations

import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from simulations import explore as exploring
from simulations.checkers import run_checked
from simulations.history import Violation
from simulations.mutations import chase_all
from simulations.report import Drawing, model, page
from simulations.settings import Settings, draw_settings
from simulations.shrink import shrink as shrunk
from simulations.world import World

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help="The deterministic simulator.")
console = Console(highlight=False)

CHUNK = 10


class Outcome:
    """What one seed gave: the violation, or an empty text."""

    def __init__(self, world: World, violation: str) -> None:
        self.seed = world.seed
        self.violation = violation
        self.injected = sum((machine.happened for machine in world.machines.values()), world.nemesis.injected)
        self.statistics = world.statistics


def run_seed(seed: int) -> Outcome:
    world = World(seed)
    return Outcome(world, failure_of(world))


def failure_of(world: World) -> str:
    """Run it; what does not hold, or nothing."""
    try:
        run_checked(world)
    except Violation as violation:
        return str(violation)
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    return ""


@app.callback(invoke_without_command=True)
def one(
    context: typer.Context,
    seed: Annotated[int, typer.Option(help="The run.")] = 0,
    trace: Annotated[bool, typer.Option("--trace", help="Print every event.")] = False,
    duration_ms: Annotated[int, typer.Option(help="Of the first phase; a run of another length is another run.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Write the space-time diagram to this HTML file.")] = None,
    shrink: Annotated[bool, typer.Option("--shrink", help="Print the shortest scenario that fails so.")] = False,
) -> None:
    """Run one seed; exit 1 and name the invariant when one does not hold."""
    if context.invoked_subcommand is not None:
        return
    drawing = Drawing() if report else None
    settings = draw_settings(Random(seed), duration_ms) if duration_ms else None
    world = World(seed, settings, drawing)
    failure = failure_of(world)
    if report and drawing:
        report.write_text(page(model(world, drawing, failure)), encoding="utf-8")
    if trace:
        sys.stdout.write("\n".join(world.trace) + "\n")
    console.print(summary(world, failure))
    if report:
        console.print(f"diagram: {report}", soft_wrap=True)
    if shrink and failure:
        print_shortest(seed, settings)
    raise typer.Exit(1 if failure else 0)


def print_shortest(seed: int, settings: Settings | None) -> None:
    """The scenario goes to standard output alone, so that it can be sent to a file."""
    found = shrunk(seed, settings)
    if found is None or found.story is None:
        console.print("the violation needs what a scenario cannot say: see simulations/story.py", markup=False)
        return
    console.print(f"{found.steps_before} steps became {len(found.story.steps)} in {found.runs} runs\n", markup=False)
    sys.stdout.write(found.story.replied())


def summary(world: World, failure: str) -> Table:
    settings = world.settings
    table = Table(title=f"seed {world.seed}", title_justify="left", show_header=False)
    table.add_row("regions", f"{settings.regions}, {settings.topology}, {settings.id_mode}")
    table.add_row("kinds of fault", ", ".join(settings.faults) or "none")
    for name, value in world.statistics.items():
        table.add_row(name, str(value))
    table.add_row("result", Text(failure or "all invariants hold"))
    return table


@app.command()
def sweep(
    seeds: Annotated[int, typer.Option(help="How many.", min=1)] = 1000,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
) -> None:
    """Run many seeds; exit 1 when one violates an invariant."""
    began_s = time.monotonic()
    failures: list[Outcome] = []
    faults: dict[str, Row] = {}
    totals: Counter[str] = Counter()
    with ProcessPoolExecutor(workers) as pool, Progress(console=console, disable=not console.is_terminal) as progress:
        outcomes = pool.map(run_seed, range(first, first + seeds), chunksize=CHUNK)
        for outcome in progress.track(outcomes, total=seeds, description="seeds"):
            totals.update(outcome.statistics)
            for fault, times in outcome.injected.items():
                faults.setdefault(fault, Row()).count(times, bool(outcome.violation))
            if outcome.violation:
                failures.append(outcome)
                console.print(f"seed {outcome.seed}: {outcome.violation[:500]}", markup=False, soft_wrap=True)
    took_s = time.monotonic() - began_s
    console.print(by_fault(faults))
    counted = ", ".join(f"{value:,} {name}" for name, value in totals.items())
    console.print(f"{seeds} seeds, {counted}; {len(failures)} violations, {seeds / took_s:.1f} seeds/s")
    raise typer.Exit(1 if failures else 0)


class Row:
    """One kind of fault: how often it happened, in how many runs, and how many of those violate something."""

    def __init__(self) -> None:
        self.runs = self.times = self.violations = 0

    def count(self, times: int, violates: bool) -> None:
        self.runs += 1
        self.times += times
        self.violations += violates


def by_fault(faults: dict[str, Row]) -> Table:
    table = Table(
        "fault",
        "times",
        "runs with it",
        "violations",
        title="by kind of fault, and of what they lead to",
        title_justify="left",
    )
    for fault, row in sorted(faults.items()):
        table.add_row(fault, f"{row.times:,}", f"{row.runs:,}", str(row.violations))
    return table


@app.command()
def mutations(
    seeds: Annotated[int, typer.Option(help="At most, for each mutation.", min=1)] = 300,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    only: Annotated[str, typer.Option(help="Those with this text in their name.")] = "",
) -> None:
    """Break one line after another in a copy of the package, and count the seeds until a checker notices; exit 1 when
    none does, or, from seed 0 on, another than the one that is recorded.
    """
    table = Table("mutation", "found by", "seed", "seeds", title="mutations", title_justify="left")
    missed = others = 0
    for mutation, catch in chase_all(first, seeds, only):
        found = (catch.checker or "nobody") + (", alone" if mutation.alone else "")
        missed += not catch.checker
        if first == 0 and catch.checker not in ("", mutation.checker):
            others += 1
            found += f", not {mutation.checker}"
        table.add_row(mutation.name, found, str(catch.seed) if catch.checker else "", str(catch.seeds))
        console.print(f"{mutation.name}: {found}, {catch.seeds} seeds", markup=False, soft_wrap=True)
    console.print(table)
    console.print(f"{table.row_count - missed} of {table.row_count} found, {others} by another checker than recorded")
    raise typer.Exit(1 if missed or others else 0)


@app.command()
def explore(
    regions: Annotated[int, typer.Option(help="How many.", min=1, max=4)] = 2,
    operations: Annotated[int, typer.Option(help="The longest history.", min=0)] = 4,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
) -> None:
    """Visit every state that a short history can reach; exit 1 with the shortest history that violates an invariant."""
    result = exploring.explore(regions, operations, workers)
    table = Table("operations", "histories", "new states", "s", title=f"{regions} regions", title_justify="left")
    for level in result.levels:
        table.add_row(str(level.operations), f"{level.histories:,}", f"{level.states:,}", f"{level.took_s:.1f}")
    console.print(table)
    console.print(f"{result.histories:,} histories, {result.states:,} distinct states visited")
    if result.violation:
        console.print(result.scenario(), markup=False, soft_wrap=True)
        raise typer.Exit(1)
    console.print("all invariants hold")


if __name__ == "__main__":
    app()
