"""`crdtstream import` and `crdtstream export`. Exit codes: 0 done, 1 a stream is incomplete, 2 wrong usage."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from crdtstream.migration.exporting import export_stream
from crdtstream.migration.importing import Import, Imported
from crdtstream.migration.source import MigrationError, connect, stream_keys

INCOMPLETE = 1
WRONG_USAGE = 2
TIMEOUT_S = 60.0

Match = Annotated[str, typer.Option(help="Only keys that match this glob, as in SCAN.")]
Page = Annotated[int, typer.Option("--page-entries", help="Entries read and written at once.", min=1, max=100_000)]
Target = Annotated[str, typer.Option("--to", help="The region: redis://[:PASSWORD@]HOST:PORT[/DATABASE].")]
Origin = Annotated[str, typer.Argument(metavar="URL", help="redis://[:PASSWORD@]HOST:PORT[/DATABASE]")]


def import_streams(
    source: Origin,
    to: Target,
    match: Match = "*",
    page: Page = 500,
    replace_groups: Annotated[
        bool, typer.Option("--replace-groups", help="Make groups that the region has as they are in the source.")
    ] = False,
) -> None:
    """Copy streams with their groups and pending entries from a live Redis into a region; a repetition resumes."""
    console = Console(stderr=True, highlight=False)
    done: dict[bytes, Imported] = {}
    try:
        origin, region = connect(source, TIMEOUT_S), connect(to, TIMEOUT_S)
        keys = stream_keys(origin, match, page)
        with progress_of(console) as progress:
            task = progress.add_task("entries", total=sum(lengths(origin, keys)))
            work = Import(origin, region, page, replace_groups, lambda count: progress.advance(task, count))
            for key in keys:
                done[key] = work.run(key)
    except MigrationError as error:
        fail(console, done, error)
    console.print(imported_table(done))


def export_streams(
    source: Origin,
    match: Match = "*",
    page: Page = 500,
    out: Annotated[Path | None, typer.Option(help="File to write; standard output unless given.")] = None,
) -> None:
    """Write the merged streams of a region as Redis protocol, for redis-cli --pipe; duplicate IDs fall away."""
    console = Console(stderr=True, highlight=False)
    if out is None and sys.stdout.isatty():
        console.print("the output is not for a terminal: give --out FILE, or pipe it into redis-cli --pipe")
        raise typer.Exit(WRONG_USAGE)
    try:
        client = connect(source, TIMEOUT_S)
        keys = stream_keys(client, match, page)
        with progress_of(console) as progress, opened(out) as stream:
            task = progress.add_task("entries", total=sum(lengths(client, keys)))
            count = sum(export_stream(client, key, stream, page, lambda n: progress.advance(task, n)) for key in keys)
            stream.flush()
    except (MigrationError, OSError) as error:
        fail(console, {}, error)
    console.print(f"{len(keys)} streams, {count} entries")


def lengths(client: Any, keys: list[bytes]) -> list[int]:
    return [int(client.execute_command("XLEN", key)) for key in keys]


@contextmanager
def opened(path: Path | None) -> Iterator[BinaryIO]:
    """The file, or standard output, which stays open."""
    if path is None:
        yield sys.stdout.buffer
    else:
        with path.open("wb") as out:
            yield out


def progress_of(console: Console) -> Progress:
    """Return a bar where the console is a terminal, and nothing elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


def imported_table(done: dict[bytes, Imported]) -> Table:
    table = Table("stream", "entries", "groups", "kept", "pending", "gone", title="imported", title_justify="left")
    for key, row in done.items():
        counts = (row.entries, row.groups, row.kept, row.pending, row.gone)
        table.add_row(key.decode("utf-8", "backslashreplace"), *map(str, counts))
    return table


def fail(console: Console, done: dict[bytes, Imported], error: Exception) -> None:
    if done:
        console.print(imported_table(done))
    console.print(str(error), markup=False, soft_wrap=True)
    raise typer.Exit(INCOMPLETE)
