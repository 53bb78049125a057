"""`crdtstream import` and `crdtstream export`. Exit codes: 0 done, 1 a stream is incomplete, or a group lacks
properties, 2 wrong usage."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from crdtstream.migration.access import Access, AccessError, password_of
from crdtstream.migration.exporting import export_stream
from crdtstream.migration.importing import Import, Imported
from crdtstream.migration.servers import Servers, connect_all
from crdtstream.migration.source import MigrationError

INCOMPLETE = 1
WRONG_USAGE = 2
TIMEOUT_S = 60.0
# Without a terminal, wider than any row; as in `admin/screen.py`, which a client of the public ports must not import.
WIDE_COLUMNS = 1 << 16
# There are no flags for passwords, because ps would show them.
PASSWORD_VARIABLE = "CRDTSTREAM_PASSWORD"
SOURCE_PASSWORD_VARIABLE = "CRDTSTREAM_SOURCE_PASSWORD"

Match = Annotated[str, typer.Option(help="Only keys that match this glob, as in SCAN.")]
PageOption = Annotated[
    int, typer.Option("--page-entries", help="Entries read and written at once.", min=1, max=100_000)
]
TargetOption = Annotated[
    str, typer.Option("--to", help="The region: redis://HOST:PORT/DATABASE, 0 unless given; rediss:// for TLS.")
]
Origin = Annotated[
    str, typer.Argument(metavar="URL", help="redis://HOST:PORT/DATABASE, 0 unless given; rediss:// for TLS.")
]
UserOption = Annotated[str, typer.Option(envvar="CRDTSTREAM_USER", help="User of the region.")]
PasswordFileOption = Annotated[
    Path | None, typer.Option(help=f"File with its password, one line; or the variable {PASSWORD_VARIABLE}.")
]
AuthorityOption = Annotated[
    str, typer.Option("--cacert", help="Authority of the region's TLS port, if not the system's (PEM).")
]
CertificateOption = Annotated[str, typer.Option("--cert", help="Certificate to show to the region (PEM file).")]
KeyOption = Annotated[str, typer.Option("--key", help="Its private key (PEM file).")]
SourceUser = Annotated[str, typer.Option(help="User of the source.")]
SourcePasswordFile = Annotated[
    Path | None, typer.Option(help=f"File with its password, one line; or the variable {SOURCE_PASSWORD_VARIABLE}.")
]
SourceAuthority = Annotated[str, typer.Option("--source-cacert", help="As --cacert, for the source.")]
SourceCertificate = Annotated[str, typer.Option("--source-cert", help="As --cert, for the source.")]
SourceKey = Annotated[str, typer.Option("--source-key", help="As --key, for the source.")]
REGION, SOURCE = "the region", "the source"


def import_streams(
    source: Origin,
    to: TargetOption,
    match: Match = "*",
    page: PageOption = 500,
    replace_groups: Annotated[
        bool, typer.Option("--replace-groups", help="Make groups that the region has as they are in the source.")
    ] = False,
    user: UserOption = "",
    password_file: PasswordFileOption = None,
    cacert: AuthorityOption = "",
    cert: CertificateOption = "",
    key: KeyOption = "",
    source_user: SourceUser = "",
    source_password_file: SourcePasswordFile = None,
    source_cacert: SourceAuthority = "",
    source_cert: SourceCertificate = "",
    source_key: SourceKey = "",
) -> None:
    """Copy streams with their groups and pending entries from a live Redis into a region; a repetition resumes."""
    console = screen()
    done: dict[bytes, Imported] = {}
    try:
        secret = password_of(source_password_file, SOURCE_PASSWORD_VARIABLE)
        access = Access(source, source_user, secret, source_cacert, source_cert, source_key)
        origin = connect_all(access, SOURCE, TIMEOUT_S)
        access = Access(to, user, password_of(password_file, PASSWORD_VARIABLE), cacert, cert, key)
        region = connect_all(access, REGION, TIMEOUT_S)
        keys = origin.stream_keys(match, page)
        with progress_of(console) as progress:
            task = progress.add_task("entries", total=sum(lengths(origin, keys)))
            for name in keys:
                servers = origin.of(name), region.of(name)
                work = Import(*servers, page, replace_groups, lambda count: progress.advance(task, count))
                done[name] = Imported()
                work.run(name, done=done[name])
    except (MigrationError, AccessError) as error:
        fail(console, done, error)
    print_imported(console, done)
    if any(row.unset for row in done.values()):
        raise typer.Exit(INCOMPLETE)


def export_streams(
    source: Origin,
    match: Match = "*",
    page: PageOption = 500,
    out: Annotated[Path | None, typer.Option(help="File to write; standard output unless given.")] = None,
    user: UserOption = "",
    password_file: PasswordFileOption = None,
    cacert: AuthorityOption = "",
    cert: CertificateOption = "",
    key: KeyOption = "",
) -> None:
    """Write the merged streams of a region as Redis protocol, for redis-cli --pipe; duplicate IDs fall away."""
    console = screen()
    if out is None and sys.stdout.isatty():
        console.print("the output is not for a terminal: give --out FILE, or pipe it into redis-cli --pipe")
        raise typer.Exit(WRONG_USAGE)
    try:
        access = Access(source, user, password_of(password_file, PASSWORD_VARIABLE), cacert, cert, key)
        region = connect_all(access, REGION, TIMEOUT_S)
        keys = region.stream_keys(match, page)
        with progress_of(console) as progress, opened(out) as stream:
            task = progress.add_task("entries", total=sum(lengths(region, keys)))
            told = partial(progress.advance, task)
            count = sum(export_stream(region.of(name), name, stream, page, told) for name in keys)
            stream.flush()
    except (MigrationError, AccessError, OSError) as error:
        fail(console, {}, error)
    console.print(f"{len(keys)} streams, {count} entries")


def screen() -> Console:
    """Progress and results; names of streams appear as they are, never as markup or emoji."""
    width = None if sys.stderr.isatty() or "COLUMNS" in os.environ else WIDE_COLUMNS
    return Console(stderr=True, highlight=False, markup=False, emoji=False, width=width)


def lengths(servers: Servers, keys: list[bytes]) -> list[int]:
    return [int(servers.of(key).execute_command("XLEN", key)) for key in keys]


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


def print_imported(console: Console, done: dict[bytes, Imported]) -> None:
    console.print(imported_table(done))
    for row in done.values():
        for text in row.unset:
            console.print(text, soft_wrap=True)
    named = [row.names for row in done.values() if row.names]
    if named:
        console.print(names_left(sum(named), len(named)), soft_wrap=True)


def names_left(adds: int, streams: int) -> str:
    return (
        f"the names of {adds} adds (IDMP) in {streams} streams were not copied: an add that is repeated in the region"
        " adds a second entry, so let producers finish their repeats before they move"
    )


def fail(console: Console, done: dict[bytes, Imported], error: Exception) -> None:
    if done:
        print_imported(console, done)
    console.print(str(error), soft_wrap=True)
    raise typer.Exit(INCOMPLETE)
