"""`python -m fuzz`: search one target or all; exits 1 when a property does not hold, and stores the input."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from fuzz import guided
from fuzz.engine import TARGETS, Failed, replay, search
from fuzz.target import Target

USAGE_ERROR = 2


def main(
    targets: Annotated[list[str] | None, typer.Argument(help=f"Which to search: {', '.join(TARGETS)}; all.")] = None,
    seconds: Annotated[float, typer.Option(help="How long each target is searched.")] = 60.0,
    runs: Annotated[int, typer.Option(help="Try so many inputs instead, however long they take.")] = 0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same inputs.")] = 1,
    guide: Annotated[
        bool, typer.Option("--guided", help="Search with atheris for inputs that reach new code.")
    ] = False,
    replay_file: Annotated[Path | None, typer.Option("--replay", help="Run one stored input.")] = None,
    store: Annotated[Path, typer.Option(help="Directory for inputs that fail.")] = Path(),
) -> None:
    """Search for input that breaks a region."""
    chosen = chosen_of(targets or list(TARGETS))
    if guide and guided.MISSING:
        print(guided.MISSING, file=sys.stderr)
        raise typer.Exit(USAGE_ERROR)
    for target in chosen:
        if replay_file is not None:
            replay(target, replay_file.read_bytes())
        elif guide:
            guided.search(target.name, seed, seconds, store)
        else:
            report(target, seed, seconds, runs, store)


def chosen_of(names: list[str]) -> list[Target]:
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        print(f"no such target: {', '.join(unknown)}; there are: {', '.join(TARGETS)}", file=sys.stderr)
        raise typer.Exit(USAGE_ERROR)
    return [TARGETS[name] for name in names]


def report(target: Target, seed: int, seconds: float, runs: int, store: Path) -> None:
    try:
        tried = search(target, seed, seconds, runs)
    except Failed as failed:
        traceback.print_exception(failed.__cause__)
        print(f"{failed} fails; python -m fuzz {target.name} --replay {failed.store(store)}")
        raise typer.Exit(1) from None
    print(f"{target.name}: {tried} inputs, no failure")


if __name__ == "__main__":
    typer.run(main)
