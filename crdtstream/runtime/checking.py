"""`serve --check`: finds what would keep a region from starting or from reaching its peers, without starting it.

Nothing is changed: a missing data directory is not created, and of an existing one only the lock is taken.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from crdtstream.config import Config, ConfigError, split_address
from crdtstream.runtime.acl_file import read_users
from crdtstream.runtime.credentials import read_client_credentials, read_credentials, read_web_credentials
from crdtstream.runtime.secret_files import replication_secret, with_password, with_token
from crdtstream.storage.checkpoint import MANIFEST
from crdtstream.storage.disk import DiskError, RealDisk
from crdtstream.storage.recovery import LogError
from crdtstream.storage.restore import read_manifest


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
    return list(dict.fromkeys([*found, *unresolved(config), *directory_problems(config.data)]))


def unresolved(config: Config) -> Iterator[str]:
    for peer in config.peers:
        host, port = split_address(peer)
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            yield f"the peer {peer} cannot be resolved: {error.strerror or error}"


def directory_problems(path: str) -> Iterator[str]:
    if not Path(path).exists():
        parent = next(one for one in Path(path).absolute().parents if one.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            yield f"the data directory {path} cannot be created: this user may not write to {parent}"
        return
    try:
        disk = RealDisk(path)
    except DiskError as error:
        yield str(error)
        return
    try:
        yield from unreadable(disk)
    finally:
        disk.close()


def unreadable(disk: RealDisk) -> Iterator[str]:
    """Report unreadable files and an invalid manifest; only a start reads and verifies everything."""
    for name in sorted(disk.names()):
        try:
            disk.read(name, 0, 1)
            if name == MANIFEST:
                read_manifest(disk)
        except (DiskError, LogError) as error:
            yield str(error)
