"""`python -m simulations`: one run from its seed, a sweep over many seeds, broken lines, or all short histories."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from simulations import explore as exploring
from simulations.draw import named
from simulations.mutations import chase_all
from simulations.report import Drawing, model, page
from simulations.settings import Settings, draw_settings
from simulations.shard_refusals import SHARDS
from simulations.sharded import Run, Sharded, draw_run
from simulations.shrink import shrink as shrunk
from simulations.sweeping import Fault, Outcome, Swept, failure_of, on_processes

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help="The deterministic simulator.")
console = Console(highlight=False)


@app.callback(invoke_without_command=True)
def one(
    context: typer.Context,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    trace: Annotated[bool, typer.Option("--trace", help="Print every event.")] = False,
    duration_ms: Annotated[
        int, typer.Option(help="Duration of the first phase; a different duration is a different run.")
    ] = 0,
    partitioned: Annotated[
        bool | None, typer.Option(help="With or without a partitioned stream, whatever the seed says.")
    ] = None,
    properties: Annotated[
        bool | None, typer.Option(help="With or without properties of groups, whatever the seed says.")
    ] = None,
    sharded: Annotated[
        bool | None, typer.Option(help="With several shards in each region or one, whatever the seed says.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the space-time diagram to this HTML file, one for each shard."),
    ] = None,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Print the shortest scenario with the same failure.")
    ] = False,
) -> None:
    """Run one seed; exit 1 and name the invariant if one does not hold."""
    if context.invoked_subcommand is not None:
        return
    settings = draw_settings(Random(seed), duration_ms) if duration_ms else None
    run = draw_run(seed, settings, partitioned, properties, sharded=sharded)
    drawings = drawings_of(run) if report else []
    failure = failure_of(run)
    if trace:
        sys.stdout.write("\n".join(run.trace) + "\n")
    console.print(summary(run, failure))
    if report:
        draw(report, run, drawings, failure)
    if shrink and failure:
        print_shortest(seed, settings, run)
    raise typer.Exit(1 if failure else 0)


def drawings_of(run: Run) -> list[Drawing]:
    """Let each shard of a run be drawn."""
    drawings = []
    for world in run.worlds:
        drawings.append(Drawing())
        world.watch(drawings[-1])
    return drawings


def draw(report: Path, run: Run, drawings: list[Drawing], failure: str) -> None:
    """Write one diagram for each shard."""
    for world, drawing in zip(run.worlds, drawings, strict=True):
        path = report.with_stem(f"{report.stem}-shard-{world.shard}") if len(drawings) > 1 else report
        path.write_text(page(model(world, drawing, failure)), encoding="utf-8")
        console.print(f"diagram: {path}", soft_wrap=True)


def print_shortest(seed: int, settings: Settings | None, run: Run) -> None:
    """Print the scenario alone to standard output, so that it can be redirected to a file. It has one shard."""
    found = None if isinstance(run, Sharded) else shrunk(seed, settings)
    if found is None or found.reproducer is None:
        console.print("the violation cannot be reproduced by a scenario: see simulations/reproducer.py", markup=False)
        return
    steps = len(found.reproducer.steps)
    console.print(f"{found.steps_before} steps became {steps} in {found.runs} runs\n", markup=False)
    sys.stdout.write(found.reproducer.replied())


def summary(run: Run, failure: str) -> Table:
    settings = run.settings
    table = Table(title=named(run.seed), title_justify="left", show_header=False)
    shards = f", {SHARDS} shards each" if isinstance(run, Sharded) else ""
    table.add_row("regions", f"{settings.regions}, {settings.topology}, {settings.id_mode}{shards}")
    table.add_row("kinds of fault", ", ".join(settings.faults) or "none")
    for name, value in run.statistics.items():
        table.add_row(name, str(value))
    table.add_row("result", Text(failure or "all invariants hold"))
    return table


@app.command()
def sweep(
    seeds: Annotated[int, typer.Option(help="Number of seeds.", min=1)] = 1000,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    workers: Annotated[int, typer.Option(help="Number of processes.", min=1)] = 2,
    partitioned: Annotated[
        bool | None, typer.Option(help="With or without a partitioned stream, whatever the seeds say.")
    ] = None,
    properties: Annotated[
        bool | None, typer.Option(help="With or without properties of groups, whatever the seeds say.")
    ] = None,
    sharded: Annotated[
        bool | None, typer.Option(help="With several shards in each region or one, whatever the seeds say.")
    ] = None,
    spark: Annotated[str, typer.Option(help="Run the seeds on this Spark master: local[2], spark://HOST:PORT.")] = "",
    out: Annotated[
        Path, typer.Option(help="With --spark: Parquet of outcomes, with the traces of failed runs.")
    ] = Path("sweep.parquet"),
) -> None:
    """Run many seeds; exit 1 if one violates an invariant."""
    began_s = time.monotonic()
    swept = Swept()
    with Progress(console=console, disable=not console.is_terminal or bool(spark)) as progress:
        local = on_processes(workers, first, seeds, partitioned, properties, sharded)
        outcomes = on_spark(spark, first, seeds, out) if spark else local
        for outcome in progress.track(outcomes, total=seeds, description="seeds"):
            swept.count(outcome)
            if outcome.violation:
                console.print(f"{named(outcome.seed)}: {outcome.violation[:500]}", markup=False, soft_wrap=True)
    took_s = time.monotonic() - began_s
    console.print(by_fault(swept.faults))
    counted = ", ".join(f"{value:,} {name}" for name, value in swept.totals.items())
    console.print(f"{seeds} seeds, {counted}; {swept.violations} violations, {seeds / took_s:.1f} seeds/s")
    raise typer.Exit(1 if swept.violations else 0)


def on_spark(master: str, first: int, seeds: int, out: Path) -> Iterator[Outcome]:
    """Run the sweep on Spark, which is an optional extra and imported only here."""
    from simulations.spark import sweep

    if out.exists():
        raise typer.BadParameter(f"{out} exists: name a directory that does not", param_hint="--out")
    return sweep(master, first, seeds, out)


def by_fault(faults: dict[str, Fault]) -> Table:
    table = Table(
        "fault",
        "times",
        "runs with it",
        "violations",
        title="by kind of fault, and of their consequences",
        title_justify="left",
    )
    for name, fault in sorted(faults.items()):
        table.add_row(name, f"{fault.times:,}", f"{fault.runs:,}", str(fault.violations))
    return table


@app.command()
def mutations(
    seeds: Annotated[int, typer.Option(help="Maximum number of seeds for each mutation.", min=1)] = 300,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    only: Annotated[str, typer.Option(help="Only mutations with this text in their name.")] = "",
    workers: Annotated[int, typer.Option(help="Number of processes.", min=1)] = 1,
) -> None:
    """Break one line after another in a copy of the package, and count the seeds until a checker notices. Exit 1 if
    none does, or, from seed 0 on, if it is not the recorded checker.
    """
    table = Table("mutation", "found by", "seed", "seeds", title="mutations", title_justify="left")
    missed = others = 0
    for mutation, catch in chase_all(first, seeds, only, workers):
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
    regions: Annotated[int, typer.Option(help="Number of regions.", min=1, max=4)] = 2,
    operations: Annotated[int, typer.Option(help="Length of the longest history.", min=0)] = 4,
    workers: Annotated[int, typer.Option(help="Number of processes.", min=1)] = 2,
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
