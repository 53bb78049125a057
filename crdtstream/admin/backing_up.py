"""`crdtstream backup` and `crdtstream restore`.

Exit codes: 0 done and checked, 1 the backup is not whole, or the stream is not
complete, 2 wrong usage, or the region or the tool refused, for example
because the target is not empty or the stream is not in the backup, 3 the region did not answer.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from crdtstream.admin.access import (
    AuthorityOption,
    CertificateOption,
    KeyFile,
    PasswordFileOption,
    UserOption,
    node_problem,
    password_of,
)
from crdtstream.admin.backups import (
    NO_ANSWER,
    NOT_WHOLE,
    REFUSED,
    BackupElsewhere,
    BackupRefusal,
    BackupUnanswered,
    Told,
    check_backup,
    check_start,
    code_of,
    refuse_another,
    refuse_filled,
    refuse_one_of_several,
)
from crdtstream.admin.restoring import StreamToRestore, region_at, restore_stream
from crdtstream.admin.screen import screen
from crdtstream.admin.shard_backups import (
    FAILED,
    ShardBackup,
    attempt,
    check_shard,
    chosen,
    described,
    directory_with,
    is_of_shards,
    restore_all,
    take_all,
)
from crdtstream.admin.taking import request_backup, shards_at
from crdtstream.migration.app import names_left
from crdtstream.migration.importing import Imported
from crdtstream.migration.source import MigrationError
from crdtstream.observing.access import Access
from crdtstream.settings.sharding import ranges_of
from crdtstream.storage.backup import BackupError, Description, read_description, restore_files

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ShardOption = Annotated[
    str | None, typer.Option(help="Only these shards of a region of several, as 0-3, that are on this machine.")
]
REPEAT = "Repeat the command: a backup that is whole is kept, and the others are taken."


def back_up(
    node: Annotated[str | None, typer.Option(help="HOST:PORT of the region's Redis port.")] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="New directory, below the region's --backup-directory and on the region's machine."),
    ] = None,
    verify: Annotated[Path | None, typer.Option(help="Instead: check this backup, without a region.")] = None,
    shard: ShardOption = None,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    cacert: AuthorityOption = None,
    cert: CertificateOption = None,
    key: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Take a backup of a running region, and check it: every file, and that a region starts from it."""
    console = screen(stderr=True)
    if (verify is None) == (node is None or to is None) or (verify is not None and (node or to)):
        fail(console, "give --node HOST:PORT and --to DIRECTORY, or --verify DIRECTORY alone", REFUSED)
    directory = os.path.abspath(str(verify or to))
    with failures_told(console):
        if node is not None:
            access = Access(user, password_of(password_file), cacert, cert, key)
            back_up_region(console, node, access, directory, shard, as_json)
        elif is_of_shards(directory):
            rows = described(directory, shard)
            check_shards(console, rows)
            print_shards(console, directory, rows, as_json)
        else:
            refuse_shard(shard)
            print_backup(directory, check_region(console, directory), as_json)


def restore(
    backup: Annotated[Path, typer.Argument(help="Directory of a backup.")],
    data: Annotated[Path | None, typer.Option(help="Empty or absent data directory.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Refuse a backup of another cluster.")] = None,
    all_regions: Annotated[
        bool, typer.Option("--all-regions", help="Say how to go back to this backup in all regions, not in this one.")
    ] = False,
    shard: ShardOption = None,
    stream: Annotated[
        str | None, typer.Option(help="Instead: bring back this stream alone, into a running region.")
    ] = None,
    into: Annotated[str | None, typer.Option(help="HOST:PORT of that region's Redis port.")] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="KEY", help="Its name there, if it is to have another one.")
    ] = None,
    database: Annotated[int, typer.Option(help="Database of the stream.", min=0)] = 0,
    replace_groups: Annotated[
        bool, typer.Option("--replace-groups", help="Make groups that the region has as they are in the backup.")
    ] = False,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    cacert: AuthorityOption = None,
    cert: CertificateOption = None,
    key: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Put a backup into an empty data directory, and say how to start from it; or bring one stream of it back."""
    console = screen(stderr=True)
    source = os.path.abspath(str(backup))
    if (stream is None) != (into is None) or (stream is None) == (data is None):
        fail(console, "give --data DIRECTORY alone, or --stream KEY and --into HOST:PORT", REFUSED)
    with failures_told(console):
        if stream is None or into is None:
            target = os.path.abspath(str(data))
            put_back = restore_shards if is_of_shards(source) else restore_region
            put_back(console, source, target, cluster, all_regions, shard, as_json)
            return
        refuse_shard(shard)
        wanted = StreamToRestore(stream, name or stream, database, replace_groups)
        access = Access(user, password_of(password_file), cacert, cert, key)
        done = bring_back(console, source, cluster, wanted, into, access)
        print_stream(wanted, into, done, as_json)
        if done.unset:
            raise typer.Exit(NOT_WHOLE)


@contextmanager
def failures_told(console: Console) -> Iterator[None]:
    try:
        yield
    except BackupError as error:
        fail(console, str(error), code_of(error))


def refuse_shard(shard: str | None) -> None:
    if shard is not None:
        raise BackupRefusal("--shard names shards of a region of several, to back up or to restore: leave it out")


# Taking and checking


def back_up_region(
    console: Console, node: str, access: Access, directory: str, shard: str | None, as_json: bool
) -> None:
    servers = shards_at(node, access)
    with console.status("the region takes the backup"):
        if servers:
            rows = take_all(servers, chosen(shard, len(servers)), directory, access)
        else:
            refuse_shard(shard)
            directory = taken(node, access, directory)
    if not servers:
        print_backup(directory, check_region(console, directory), as_json)
        return
    check_shards(console, rows)
    print_shards(console, directory, rows, as_json, REPEAT if any(row.state == FAILED for row in rows) else "")


def taken(node: str, access: Access, directory: str) -> str:
    """Have a region of one shard take the backup; return its directory as the region names it."""
    found = request_backup(node, access, directory)
    if not os.path.isdir(found):
        raise BackupElsewhere(
            f"the region wrote {found}, which this machine does not have: run crdtstream backup --verify there"
        )
    description = read_description(found)
    if description.shards > 1:
        raise BackupRefusal(
            f"{found} is the backup of shard {description.shard} of {description.shards} alone, since the user may not"
            " ask for the others: give it +info +cluster, and choose another directory"
        )
    return found


def check_region(console: Console, directory: str) -> Description:
    description = read_description(directory)
    with progress_of(console, "checking", 2 * description.size_bytes()) as told:
        check_backup(directory, description, told)
    return description


def check_shards(console: Console, rows: Sequence[ShardBackup]) -> None:
    with progress_of(console, "checking", 2 * bytes_of(rows)) as told:
        for row in rows:
            attempt(row, partial(check_shard, told=told))


def bytes_of(rows: Sequence[ShardBackup]) -> int:
    return sum(row.description.size_bytes() for row in rows if row.description)


# Restoring


def restore_region(
    console: Console,
    source: str,
    target: str,
    cluster: str | None,
    all_regions: bool,
    shard: str | None,
    as_json: bool,
) -> None:
    refuse_shard(shard)
    description = read_description(source)
    refuse_another(description, cluster)
    refuse_one_of_several(description, source)
    refuse_filled(target)
    with progress_of(console, "restoring", 2 * description.size_bytes()) as told:
        restore_files(source, description, target, told)
        check_start(target, description)
        told(description.size_bytes())
    print_backup(target, description, as_json, advice(description, target, all_regions))


def restore_shards(
    console: Console,
    source: str,
    target: str,
    cluster: str | None,
    all_regions: bool,
    shard: str | None,
    as_json: bool,
) -> None:
    """All of them are there, or nothing is restored."""
    rows = described(source, shard)
    if any(row.problem for row in rows):
        print_shards(console, source, rows, as_json)
    description = rows[0].description
    assert description is not None
    refuse_another(description, cluster)
    refuse_filled(target)
    with progress_of(console, "restoring", 2 * bytes_of(rows)) as told:
        restore_all(rows, target, told)
    here = "" if shard is None else ranges_of(row.shard for row in rows)
    print_shards(console, target, rows, as_json, advice(description, target, all_regions, here))


def bring_back(
    console: Console, source: str, cluster: str | None, wanted: StreamToRestore, into: str, access: Access
) -> Imported:
    """Import one stream of the backup into a running region."""
    problem = node_problem(into)
    if problem:
        raise BackupRefusal(problem)
    try:
        region = region_at(into, wanted.database, access)
    except MigrationError as error:
        raise BackupUnanswered(str(error)) from error
    if is_of_shards(source):
        source = directory_with(source, os.fsencode(wanted.stream))
    description = read_description(source)
    refuse_another(description, cluster)
    with progress_of(console, "restoring", description.size_bytes()) as told:
        try:
            return restore_stream(source, description, wanted, region, told)
        except MigrationError as error:
            fail(console, str(error), NOT_WHOLE)


# Output


@contextmanager
def progress_of(console: Console, what: str, byte_count: int) -> Iterator[Told]:
    """A bar where the console is a terminal, and nothing elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=byte_count)
        yield lambda count: progress.advance(task, count)


def print_backup(directory: str, description: Description, as_json: bool, next_steps: str = "") -> None:
    entries = sum(description.vector.values())
    if as_json:
        fields = {"directory": directory, **description.fields(), "bytes": description.size_bytes(), "next": next_steps}
        typer.echo(json.dumps(fields, ensure_ascii=False, indent=2))
        return
    whose = f"region {description.name} ({description.region}) of cluster {description.cluster}"
    typer.echo(f"{directory}: {whose}, {moment_of(description)}")
    typer.echo(f"{len(description.files)} files, {description.size_bytes()} bytes, {entries} effects; a region starts")
    typer.echo(f"digest {description.digest}")
    if next_steps:
        typer.echo(f"\n{next_steps}")


def print_shards(
    console: Console, directory: str, rows: Sequence[ShardBackup], as_json: bool, next_steps: str = ""
) -> None:
    """Print what became of each shard, and end with an exit code if that is not well."""
    if as_json:
        whole = not any(row.problem for row in rows)
        fields = {"directory": directory, "whole": whole, "backups": [row.fields() for row in rows], "next": next_steps}
        typer.echo(json.dumps(fields, ensure_ascii=False, indent=2))
    else:
        for row in rows:
            typer.echo(f"shard {row.shard}: {row.state}{summary_of(row.description)}")
        if next_steps:
            typer.echo(f"\n{next_steps}")
    for row in rows:
        if row.problem:
            console.print(f"crdtstream: shard {row.shard}: {row.problem}", soft_wrap=True)
    codes = {row.code for row in rows}
    code = next((code for code in (NOT_WHOLE, REFUSED, NO_ANSWER) if code in codes), 0)
    if code:
        raise typer.Exit(code)


def summary_of(description: Description | None) -> str:
    if description is None:
        return ""
    whose = f"region {description.name} ({description.region}) of cluster {description.cluster}"
    entries = sum(description.vector.values())
    return (
        f", {whose}, {moment_of(description)}, {len(description.files)} files, {description.size_bytes()} bytes,"
        f" {entries} effects, digest {description.digest}"
    )


def moment_of(description: Description) -> str:
    return datetime.fromtimestamp(description.taken_ms / 1000, UTC).isoformat(timespec="seconds")


def print_stream(wanted: StreamToRestore, into: str, done: Imported, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"stream": wanted.name, **asdict(done)}, ensure_ascii=False))
        return
    typer.echo(f"{into} has stream {wanted.name!r}: {done.entries} entries, {done.groups} groups came back")
    if done.kept:
        typer.echo(
            f"{done.kept} groups that the region has are as they were: --replace-groups makes them as in the backup"
        )
    for text in done.unset:
        typer.echo(text)
    if done.names:
        typer.echo(names_left(done.names, 1))


def advice(description: Description, target: str, all_regions: bool, shard: str = "") -> str:
    named = {"name": description.name, "region": str(description.region), "cluster": description.cluster}
    named |= {"id-mode": description.id_mode, "data": target}
    if description.shards > 1:
        named |= {"shards": str(description.shards), **({"shard": shard} if shard else {})}
    words = [word for name, value in named.items() for word in (f"--{name}", value)]
    start = f"crdtstream serve {shlex.join(words)} --peer HOST:PORT ..."
    if not all_regions:
        return (
            f"Start it: {start}\nThe region serves the older state at once, as a new origin, and catches up from its"
            " peers. No other process of this region may run."
        )
    return (
        "A single region with this state would take the newer one from its peers, so:\n"
        "1. Stop all regions.\n"
        f"2. Start this one: {start}\n"
        "3. Start each other region with an empty data directory; it takes the state of this one.\n"
        "Keep the old data directories until the result is what you want: what was written since the backup is in them"
        " alone."
    )


def fail(console: Console, text: str, code: int) -> NoReturn:
    console.print(f"crdtstream: {text}", soft_wrap=True)
    raise typer.Exit(code)
