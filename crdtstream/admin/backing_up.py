"""`crdtstream backup` and `crdtstream restore`.

Exit codes: 0 done and checked, 1 the backup is not whole, or the stream is not
complete, 2 wrong usage, or the region or the tool refused, for example
because the target is not empty or the stream is not in the backup, 3 the region did not answer.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from crdtstream import __version__
from crdtstream.admin.access import (
    AuthorityOption,
    CertificateOption,
    KeyFile,
    PasswordFileOption,
    UserOption,
    node_problem,
    password_of,
)
from crdtstream.admin.restoring import BackupRefusal, StreamToRestore, region_at, restore_stream
from crdtstream.admin.screen import screen
from crdtstream.core.digest import digest_replica
from crdtstream.core.entries.packed_block import BlockDamaged
from crdtstream.core.values.causality import origin_name
from crdtstream.migration.importing import Imported
from crdtstream.migration.source import MigrationError
from crdtstream.observing.access import Access
from crdtstream.protocols.columns import CodecError
from crdtstream.region.node import Node
from crdtstream.settings.config import Config, ConfigError, Limits
from crdtstream.storage.backup import (
    BackupError,
    Description,
    Frozen,
    check_files,
    read_description,
    restore_files,
)
from crdtstream.storage.disk import DiskError
from crdtstream.storage.recovery import LogError
from crdtstream.storage.restore import open_storage
from crdtstream.storage.segment import FormatUnknown

NOT_WHOLE = 1
REFUSED = 2
NO_ANSWER = 3
CONNECT_S = 5.0
SEGMENT_BYTES = 1 << 20

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Told = Callable[[int], None]


def back_up(
    node: Annotated[str | None, typer.Option(help="HOST:PORT of the region's Redis port.")] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="New directory, below the region's --backup-directory and on the region's machine."),
    ] = None,
    verify: Annotated[Path | None, typer.Option(help="Instead: check this backup, without a region.")] = None,
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
    if node is not None:
        with console.status("the region takes the backup"):
            access = Access(user, password_of(password_file), cacert, cert, key)
            directory = taken(console, node, access, directory)
    try:
        description = check_backup(console, directory)
    except BackupError as error:
        fail(console, str(error), NOT_WHOLE)
    print_backup(directory, description, as_json)


def restore(
    backup: Annotated[Path, typer.Argument(help="Directory of a backup.")],
    data: Annotated[Path | None, typer.Option(help="Empty or absent data directory.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Refuse a backup of another cluster.")] = None,
    all_regions: Annotated[
        bool, typer.Option("--all-regions", help="Say how to go back to this backup in all regions, not in this one.")
    ] = False,
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
    if stream is None or into is None:
        restore_region(console, source, os.path.abspath(str(data)), cluster, all_regions, as_json)
        return
    wanted = StreamToRestore(stream, name or stream, database, replace_groups)
    access = Access(user, password_of(password_file), cacert, cert, key)
    print_stream(wanted, into, bring_back(console, source, cluster, wanted, into, access), as_json)


def restore_region(
    console: Console, source: str, target: str, cluster: str | None, all_regions: bool, as_json: bool
) -> None:
    try:
        description = read_description(source)
        refuse_another(description, cluster)
        refuse_filled(target)
    except BackupError as error:
        fail(console, str(error), NOT_WHOLE if not is_refusal(error) else REFUSED)
    try:
        with progress_of(console, "restoring", 2 * description.size_bytes()) as told:
            restore_files(source, description, target, told)
            check_start(target, description)
            told(description.size_bytes())
    except BackupError as error:
        fail(console, str(error), NOT_WHOLE)
    print_backup(target, description, as_json, advice(description, target, all_regions))


def bring_back(
    console: Console, source: str, cluster: str | None, wanted: StreamToRestore, into: str, access: Access
) -> Imported:
    """Import one stream of the backup into a running region."""
    problem = node_problem(into)
    if problem:
        fail(console, problem, REFUSED)
    try:
        region = region_at(into, wanted.database, access)
    except MigrationError as error:
        fail(console, str(error), NO_ANSWER)
    try:
        description = read_description(source)
        refuse_another(description, cluster)
        with progress_of(console, "restoring", description.size_bytes()) as told:
            return restore_stream(source, description, wanted, region, told)
    except BackupError as error:
        fail(console, str(error), NOT_WHOLE if not is_refusal(error) else REFUSED)
    except MigrationError as error:
        fail(console, str(error), NOT_WHOLE)


# Taking


def taken(console: Console, node: str, access: Access, directory: str) -> str:
    """Have the region take the backup; return its directory as the region names it."""
    # Imported only here: a region starts without it, and sooner.
    import redis

    problem = node_problem(node)
    if problem:
        fail(console, problem, REFUSED)
    host, _, port = node.rpartition(":")
    try:
        # A process that is suspended would be waited for without end.
        with closing(client_of(host, int(port), access, CONNECT_S)) as client:
            client.execute_command("PING")
        # A backup takes as long as it takes.
        with closing(client_of(host, int(port), access, None)) as client:
            fields = client.execute_command("CRDT.BACKUP", directory)
    except redis.ResponseError as error:
        fail(console, f"{node}: {error}", REFUSED)
    except redis.RedisError as error:
        fail(console, f"{node} did not answer: {error}", NO_ANSWER)
    found = os.fsdecode(dict(zip(fields[::2], fields[1::2], strict=True))[b"directory"])
    if not os.path.isdir(found):
        text = f"the region wrote {found}, which this machine does not have: run crdtstream backup --verify there"
        fail(console, text, NO_ANSWER)
    return found


def client_of(host: str, port: int, access: Access, timeout_s: float | None) -> Any:
    """Return a client that makes no second attempt."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    client: Any = redis.Redis(
        host=host.strip("[]"),
        port=port,
        **access.arguments(),
        socket_connect_timeout=CONNECT_S,
        socket_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )
    client.response_callbacks.clear()
    return client


# Checking


def check_backup(console: Console, directory: str) -> Description:
    """Read every file twice: its hash, and a start from all of them."""
    description = read_description(directory)
    with progress_of(console, "checking", 2 * description.size_bytes()) as told:
        check_files(directory, description, told)
        check_start(directory, description)
        told(description.size_bytes())
    return description


def check_start(directory: str, description: Description) -> None:
    """Start a region from these files, without changing them; it must hold what the backup says. Blocks stay on disk
    until the digest reads them, one after the other.
    """
    config = Config(
        name=description.name,
        region=description.region,
        cluster=description.cluster,
        id_mode=description.id_mode,
        data=directory,
        limits=Limits(hot_bytes_max=1),
    )
    node, disk = Node(config, description.taken_ms), Frozen(directory, description)
    try:
        log, _ = open_storage(disk, node, salt=1, segment_bytes_max=SEGMENT_BYTES, with_sums=False)
        digest = digest_replica(node.replica).hex()
    except FormatUnknown as error:
        taken_by = f"release {description.release} took the backup, and this is {__version__}"
        raise BackupError(f"no region can start from {directory}: {error}; {taken_by}") from error
    except (LogError, DiskError, ConfigError, CodecError, BlockDamaged) as error:
        raise BackupError(f"no region can start from {directory}: {error}") from error
    vector = {origin_name(origin): counter for origin, counter in node.replica.applied.vector.items()}
    found = (log.last_position, vector, digest)
    if found != (description.position, description.vector, description.digest):
        raise BackupError(
            f"{directory} holds another state than it says: position {found[0]}, digest {found[2]}, instead of"
            f" {description.position}, {description.digest}; use another backup"
        )


def is_refusal(error: BackupError) -> bool:
    return isinstance(error, BackupRefusal)


def refuse_another(description: Description, cluster: str | None) -> None:
    if cluster is not None and cluster != description.cluster:
        raise BackupRefusal(
            f"the backup is of cluster {description.cluster!r}, not of {cluster!r}: use a backup of that cluster"
        )


def refuse_filled(target: str) -> None:
    if os.path.isdir(target) and os.listdir(target):
        raise BackupRefusal(f"{target} is not empty: give a directory that is empty or absent")


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
        fields = {"directory": directory, **asdict(description), "bytes": description.size_bytes(), "next": next_steps}
        typer.echo(json.dumps(fields, ensure_ascii=False, indent=2))
        return
    at = datetime.fromtimestamp(description.taken_ms / 1000, UTC).isoformat(timespec="seconds")
    typer.echo(f"{directory}: region {description.name} ({description.region}) of cluster {description.cluster}, {at}")
    typer.echo(f"{len(description.files)} files, {description.size_bytes()} bytes, {entries} effects; a region starts")
    typer.echo(f"digest {description.digest}")
    if next_steps:
        typer.echo(f"\n{next_steps}")


def print_stream(wanted: StreamToRestore, into: str, done: Imported, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"stream": wanted.name, **asdict(done)}, ensure_ascii=False))
        return
    typer.echo(f"{into} has stream {wanted.name!r}: {done.entries} entries, {done.groups} groups came back")
    if done.kept:
        typer.echo(
            f"{done.kept} groups that the region has are as they were: --replace-groups makes them as in the backup"
        )


def advice(description: Description, target: str, all_regions: bool) -> str:
    named = {"name": description.name, "region": str(description.region), "cluster": description.cluster}
    named |= {"id-mode": description.id_mode, "data": target}
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
