"""The backups of the shards of a region: `shard-000`, `shard-001`, ... in one directory, each a backup by itself.

Each says which shard it is, and of how many, so the directories of several machines belong together wherever they lie,
and no other file is needed. Those of a region are taken at the same time, not at one moment.

A command that failed in the middle is repeated: what is whole is kept, what was not finished is taken again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from crdtstream.admin.backups import (
    NOT_WHOLE,
    BackupElsewhere,
    BackupRefusal,
    Told,
    check_backup,
    check_start,
    code_of,
)
from crdtstream.admin.taking import ShardServer, request_backup
from crdtstream.connections.shards import node_id_of
from crdtstream.observing.access import Access
from crdtstream.protocols.hash_slots import shard_of
from crdtstream.runtime.shard_map_file import UNKNOWN_PLACE, RegionShards, encoded
from crdtstream.runtime.shard_place import ANYWHERE, DirectoryPlace, record_place
from crdtstream.settings.config import ConfigError
from crdtstream.settings.sharding import SHARDS_FILE, directory_of, numbers_in, numbers_of
from crdtstream.storage.backup import (
    DESCRIPTION,
    BackupError,
    Description,
    discard,
    is_of_backup,
    read_description,
    restore_files,
)
from crdtstream.storage.disk import RealDisk

AT_ONCE_MAX = 16
UNFINISHED = ".unfinished-"
TAKEN, KEPT, WHOLE, RESTORED = "taken", "kept", "whole", "restored"
MISSING, ELSEWHERE, FAILED = "missing", "elsewhere", "failed"
# A shard refuses to take a backup because of one that is whole.
HOLDS_BACKUP = "is not empty, it holds a backup:"


@dataclass
class ShardBackup:
    """What became of the backup of one shard; `description` is there unless `problem` says why not."""

    shard: int
    directory: str
    state: str
    description: Description | None = None
    problem: str = ""
    code: int = 0

    def fields(self) -> dict[str, Any]:
        described = self.description.fields() | {"bytes": self.description.size_bytes()} if self.description else {}
        named = {"shard": self.shard, "state": self.state, "directory": self.directory, "problem": self.problem}
        return {**named, **described}


ShardWork = Callable[[ShardBackup], None]


def is_of_shards(directory: str) -> bool:
    """True for the backup of a region of several; a directory that cannot be looked into is reported by its reader."""
    try:
        return bool(numbers_in(os.listdir(directory)))
    except OSError:
        return False


def chosen(text: str | None, count: int) -> list[int]:
    """The shards that `--shard` names; raises BackupRefusal."""
    try:
        return numbers_of(text, count, "--shard") if text else list(range(count))
    except ConfigError as error:
        raise BackupRefusal(str(error)) from error


def places_in(directory: str, numbers: Sequence[int], state: str) -> list[ShardBackup]:
    return [ShardBackup(number, os.path.join(directory, directory_of(number)), state) for number in numbers]


def attempt(row: ShardBackup, work: ShardWork) -> None:
    """Do this for one shard, after nothing has failed there; a failure is that of this shard alone."""
    if row.state in (MISSING, ELSEWHERE, FAILED):
        return
    try:
        work(row)
    except BackupError as error:
        row.state = ELSEWHERE if isinstance(error, BackupElsewhere) else FAILED
        row.description, row.problem, row.code = None, str(error), code_of(error)


# Taking


def take_all(
    servers: Sequence[ShardServer], numbers: Sequence[int], directory: str, access: Access
) -> list[ShardBackup]:
    """Have these shards take their backups at the same time, but for those whose backup is there. Raises BackupRefusal
    if there is nothing to take.
    """
    rows = places_in(directory, numbers, TAKEN)
    for row in rows:
        if os.path.exists(os.path.join(row.directory, DESCRIPTION)):
            row.state = KEPT
    if all(row.state == KEPT for row in rows):
        raise BackupRefusal(
            f"{directory} has a backup of every shard: choose another directory, or check it with --verify"
        )
    with ThreadPoolExecutor(AT_ONCE_MAX) as pool:
        list(pool.map(lambda row: attempt(row, partial(take_one, server=servers[row.shard], access=access)), rows))
    return rows


def take_one(row: ShardBackup, server: ShardServer, access: Access) -> None:
    if row.state == TAKEN:
        remove_unfinished(row.directory)
        row.directory = request_or_find(row, server, access)
    if not os.path.isdir(row.directory):
        above = os.path.dirname(row.directory)
        raise BackupElsewhere(
            f"{server.address} wrote {row.directory}, which this machine does not have: run crdtstream backup"
            f" --verify {above} --shard {row.shard} there"
        )
    found = read_description(row.directory)
    if node_id_of(found.cluster, found.region, found.shard) != server.node_id:
        raise BackupRefusal(
            f"{row.directory} is a backup of {shown(found)}, not of the shard at {server.address}: choose another"
            " directory"
        )
    row.description = found


def request_or_find(row: ShardBackup, server: ShardServer, access: Access) -> str:
    """The directory of the backup; one that an earlier command had taken on another machine is kept."""
    try:
        return request_backup(server.address, access, row.directory)
    except BackupRefusal as refusal:
        if HOLDS_BACKUP in str(refusal) and not os.path.isdir(row.directory):
            return row.directory
        raise


def remove_unfinished(directory: str) -> None:
    """Remove what a shard has left that was killed. It gets another name first: one that is still at work there fails,
    instead of ending with a part of the files.
    """
    try:
        if not os.path.isdir(directory) or not all(map(is_of_backup, os.listdir(directory))):
            return
        aside = tempfile.mkdtemp(prefix=UNFINISHED, dir=os.path.dirname(directory))
        os.rename(directory, aside)
        discard(aside)
        os.rmdir(aside)
    except OSError as error:
        raise BackupRefusal(
            f"cannot remove {directory}, a backup that was not finished: {error.strerror}; remove it, and repeat the"
            " command"
        ) from error


# Reading


def described(directory: str, shard: str | None) -> list[ShardBackup]:
    """The backups of these shards, or of all; raises BackupRefusal for numbers that the region does not have, and
    BackupError if no directory says how many there are.
    """
    present = places_in(directory, numbers_in(os.listdir(directory)), WHOLE)
    for row in present:
        attempt(row, describe)
    first = next((row.description for row in present if row.description), None)
    if first is None:
        raise BackupError(present[0].problem)
    found = {row.shard: row for row in present}
    rows = [found.get(row.shard, row) for row in places_in(directory, chosen(shard, first.shards), MISSING)]
    for row in rows:
        attempt(row, partial(refuse_mixed, first=first))
        if row.state == MISSING:
            row.code, row.problem = NOT_WHOLE, missing_text(directory, row.shard)
    return rows


def describe(row: ShardBackup) -> None:
    row.description = read_description(row.directory)


def missing_text(directory: str, number: int) -> str:
    return (
        f"{directory} has no backup of shard {number}: repeat the backup; or, if it lies on another machine, name the"
        " shards of this one with --shard, and run the command there for the others"
    )


def refuse_mixed(row: ShardBackup, first: Description) -> None:
    found = row.description
    assert found is not None
    if (found.cluster, found.region, found.shards, found.shard) != (
        first.cluster,
        first.region,
        first.shards,
        row.shard,
    ):
        raise BackupError(
            f"{row.directory} is a backup of {shown(found)}, not of shard {row.shard} of {first.shards} of region"
            f" {first.region} of cluster {first.cluster!r}: put it where it belongs"
        )


def shown(found: Description) -> str:
    return f"shard {found.shard} of {found.shards} of region {found.region} of cluster {found.cluster!r}"


def check_shard(row: ShardBackup, told: Told) -> None:
    assert row.description is not None
    check_backup(row.directory, row.description, told)


def directory_with(directory: str, key: bytes) -> str:
    """The backup of the shard that has this key; raises BackupError."""
    rows = described(directory, None)
    row = rows[shard_of(key, len(rows))]
    if row.description is None:
        raise BackupError(f"the key is one of shard {row.shard}: {row.problem}")
    return row.directory


# Restoring


def restore_all(rows: Sequence[ShardBackup], target: str, told: Told) -> None:
    """Put these backups into an empty directory. Its map comes last: without it, no supervisor starts there. Raises
    BackupError.
    """
    try:
        os.makedirs(target, mode=0o700, exist_ok=True)
        for row in rows:
            restored = os.path.join(target, directory_of(row.shard))
            restore_one(row, restored, told)
            with closing(RealDisk(restored)) as disk:
                record_place(disk, DirectoryPlace(ANYWHERE))
                disk.remove_lock()
        assert rows[0].description is not None
        write_map(rows[0].description, target)
    except OSError as error:
        raise BackupError(f"cannot restore to {target}: {error.strerror or error}") from error


def restore_one(row: ShardBackup, target: str, told: Told) -> None:
    assert row.description is not None
    restore_files(row.directory, row.description, target, told)
    check_start(target, row.description)
    told(row.description.size_bytes())
    row.directory, row.state = target, RESTORED


def write_map(description: Description, target: str) -> None:
    disk = RealDisk(target)
    try:
        places = (UNKNOWN_PLACE,) * description.shards
        shards = RegionShards(description.cluster, description.region, description.epoch, places, ())
        disk.replace(SHARDS_FILE, encoded(shards))
        disk.remove_lock()
    finally:
        disk.close()
