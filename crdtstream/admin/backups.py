"""What a backup must be: whole, and what a region starts from; and the errors of the commands, by their exit codes."""

from __future__ import annotations

import os
from collections.abc import Callable

from crdtstream import __version__
from crdtstream.core.digest import digest_replica
from crdtstream.core.entries.packed_block import BlockDamaged
from crdtstream.core.values.causality import origin_name
from crdtstream.protocols.columns import CodecError
from crdtstream.region.node import Node
from crdtstream.settings.config import Config, ConfigError, Limits
from crdtstream.storage.backup import BackupError, Description, Frozen, check_files
from crdtstream.storage.disk import DiskError
from crdtstream.storage.recovery import LogError
from crdtstream.storage.restore import open_storage
from crdtstream.storage.segment import FormatUnknown

NOT_WHOLE = 1
REFUSED = 2
NO_ANSWER = 3
SEGMENT_BYTES = 1 << 20

Told = Callable[[int], None]


class BackupRefusal(BackupError):
    """A wrong use, not a wrong backup."""


class BackupUnanswered(BackupError):
    """The region did not answer."""


class BackupElsewhere(BackupUnanswered):
    """It wrote the backup, on another machine."""


def code_of(error: BackupError) -> int:
    if isinstance(error, BackupUnanswered):
        return NO_ANSWER
    return REFUSED if isinstance(error, BackupRefusal) else NOT_WHOLE


def check_backup(directory: str, description: Description, told: Told) -> None:
    """Read every file twice: its hash, and a start from all of them."""
    check_files(directory, description, told)
    check_start(directory, description)
    told(description.size_bytes())


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


def refuse_another(description: Description, cluster: str | None) -> None:
    if cluster is not None and cluster != description.cluster:
        raise BackupRefusal(
            f"the backup is of cluster {description.cluster!r}, not of {cluster!r}: use a backup of that cluster"
        )


def refuse_one_of_several(description: Description, directory: str) -> None:
    """One shard is not a region."""
    if description.shards > 1:
        raise BackupRefusal(
            f"{directory} is the backup of shard {description.shard} of {description.shards} alone: name the directory"
            " above it, which has all of them"
        )


def refuse_filled(target: str) -> None:
    if os.path.isdir(target) and os.listdir(target):
        raise BackupRefusal(f"{target} is not empty: give a directory that is empty or absent")
