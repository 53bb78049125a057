"""One stream of a backup into a running region: what undoes a mistaken DEL, XTRIM or XDEL.

The backup is put into a temporary directory and started there as a region that has no peers: nobody else finds it, and
nothing of it but this stream comes into the cluster. The stream is imported as new writes, because the cluster has
removed the old ones for good.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crdtstream.admin.backups import BackupRefusal
from crdtstream.migration.access import Access as Server
from crdtstream.migration.importing import Import, Imported
from crdtstream.migration.servers import Servers, connect_all
from crdtstream.migration.source import connect
from crdtstream.observing.access import Access
from crdtstream.processes.launching import Launcher
from crdtstream.processes.region import RegionProcess
from crdtstream.processes.waiting import ProcessError
from crdtstream.storage.backup import BackupError, Description, restore_files

PAGE_ENTRIES = 500
TIMEOUT_S = 60.0
# A large backup takes long to read; a process that ends meanwhile ends the wait.
START_S = 24 * 3600.0
REGION = "the region"
COPY = "the copy"


@dataclass(frozen=True)
class StreamToRestore:
    """A stream of a database, its name in the region, and whether its groups replace those that the region has."""

    stream: str
    name: str
    database: int
    replace_groups: bool


def region_at(address: str, database: int, access: Access) -> Servers:
    """Return clients of the Redis ports of the region's shards, or of the TLS ports if an authority is given; raises
    MigrationError.
    """
    scheme = "rediss" if access.authority else "redis"
    return connect_all(
        Server(
            f"{scheme}://{address}/{database}",
            access.user or "",
            access.password or "",
            access.authority or "",
            access.certificate or "",
            access.key or "",
        ),
        REGION,
        TIMEOUT_S,
    )


def restore_stream(
    source: str, description: Description, wanted: StreamToRestore, region: Servers, told: Callable[[int], None]
) -> Imported:
    """Import one stream of the backup; raises BackupError or MigrationError."""
    key, name = os.fsencode(wanted.stream), os.fsencode(wanted.name)
    with (
        tempfile.TemporaryDirectory(prefix="crdtstream-restore-") as directory,
        serving_copy(source, description, Path(directory), told) as copy,
    ):
        alone = connect(Server(f"redis://127.0.0.1:{copy.port}/{wanted.database}"), COPY, TIMEOUT_S)
        if alone.execute_command("TYPE", key) != b"stream":
            raise BackupRefusal(
                f"the backup has no stream {wanted.stream!r} in database {wanted.database}: use an earlier backup"
            )
        return Import(alone, region.of(name), PAGE_ENTRIES, wanted.replace_groups, ignore_count, whole=True).run(
            key, name
        )


def ignore_count(count: int) -> None:
    """The bar counts the bytes of the backup, not the entries of a stream."""


@contextmanager
def serving_copy(
    source: str, description: Description, directory: Path, told: Callable[[int], None]
) -> Iterator[RegionProcess]:
    """A region that serves the backup on loopback, without peers, until the context ends."""
    # A peer, a port or a file of settings that the environment names is that of another region.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("CRDTSTREAM_")}
    copy = RegionProcess(description.region, directory, description.name, Launcher(environment=alone))
    restore_files(source, description, str(copy.data), told)
    # The addresses that other regions announced are on its disk.
    copy.start(cluster=description.cluster, id_mode=description.id_mode, discover_peers=False)
    try:
        copy.await_serving(START_S)
        yield copy
    except ProcessError as error:
        raise BackupError(f"no region serves the backup: {error}") from error
    finally:
        copy.kill()
