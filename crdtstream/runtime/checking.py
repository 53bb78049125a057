"""`serve --check`: finds what would keep a region from starting or from reaching its peers, without starting it.

Nothing is changed: a missing data directory is not created, and of an existing one only the lock is held. Whether a
missing one can be created is tried with another name beside it, because rights alone do not tell that.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from crdtstream.protocols import codec
from crdtstream.replication.origins.birth import check_region
from crdtstream.runtime.acl_file import read_users
from crdtstream.runtime.checking_ports import peer_problems, port_problems
from crdtstream.runtime.tls.credentials import read_client_credentials, read_credentials, read_web_credentials
from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.secrets import replication_secret, with_password, with_token
from crdtstream.storage.checkpoint import MANIFEST, block_file, state_file
from crdtstream.storage.disk import LOCK, DiskError, RealDisk
from crdtstream.storage.recovery import LogError
from crdtstream.storage.restore import read_manifest
from crdtstream.storage.sections import read_version
from crdtstream.storage.segment import FormatUnknown, read_header, segment_names


def problems_of(config: Config) -> list[str]:
    """Return one line for each problem; none if the region can start."""
    files: tuple[Callable[[Config], object], ...] = (
        with_password,
        with_token,
        replication_secret,
        read_users,
        read_credentials,
        read_client_credentials,
        read_web_credentials,
    )
    found: list[str] = []
    for check in files:
        try:
            check(config)
        except ConfigError as error:
            found.append(str(error))
    return list(dict.fromkeys([*found, *port_problems(config), *peer_problems(config), *directory_problems(config)]))


def directory_problems(config: Config) -> Iterator[str]:
    path = Path(config.data)
    try:
        if not path.exists():
            try_to_create(path)
            return
        # The file of another user would stop a start later.
        makes_lock = not os.path.exists(os.path.join(config.data, LOCK))
        disk = RealDisk(config.data)
    except DiskError as error:
        yield str(error)
        return
    except OSError as error:
        yield f"the data directory {path} cannot be created: {error.strerror}; choose another --data"
        return
    try:
        yield from unusable(disk, config)
    finally:
        if makes_lock:
            disk.remove_lock()
        disk.close()


def try_to_create(path: Path) -> None:
    """Raise OSError if the directory cannot be created."""
    parent = next(one for one in (path.absolute(), *path.absolute().parents) if os.path.lexists(one))
    if not parent.exists():
        raise FileNotFoundError(errno.ENOENT, f"{parent} is a link to nothing")
    os.rmdir(tempfile.mkdtemp(prefix=".crdtstream-check-", dir=parent))


def unusable(disk: RealDisk, config: Config) -> Iterator[str]:
    """Report unreadable files, unknown formats, and the data of another region; only a start verifies more."""
    for name in sorted(disk.names()):
        try:
            disk.read(name, 0, 1)
            if name == MANIFEST:
                check_checkpoint(disk, config)
        except (DiskError, LogError, ConfigError, FormatUnknown) as error:
            yield str(error)
    for name in segment_names(disk):
        try:
            read_header(disk, name)
        except (DiskError, FormatUnknown) as error:
            yield str(error)


def check_checkpoint(disk: RealDisk, config: Config) -> None:
    """Raise for a checkpoint that no start can use, as far as its manifest and the beginnings of its files tell."""
    manifest = read_manifest(disk)
    for kind, payload in manifest.records:
        if kind == codec.START:
            check_region(config, codec.decode_start(payload)[0])
    files = [(block_file(number), number) for number, _ in manifest.block_files]
    files += [(state_file(number), number) for number, _ in manifest.state_files]
    for name, number in files:
        read_version(disk, name, number)
