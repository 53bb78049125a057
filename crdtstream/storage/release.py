"""Which release wrote to a data directory last: a file beside the log that a start names if it cannot read a format.

Nothing depends on it. Releases before 0.2.0 leave it out, and ignore it.
"""

from __future__ import annotations

from crdtstream import __version__
from crdtstream.storage.disk import Disk

RELEASE = "release"
BYTES_MAX = 64


def record_release(disk: Disk) -> None:
    """Record that this release writes here; raises DiskError."""
    if read_release(disk) != __version__:
        disk.replace(RELEASE, __version__.encode())


def read_release(disk: Disk) -> str:
    """Return the release; empty if that is not known."""
    if RELEASE not in disk.names():
        return ""
    text = disk.read(RELEASE, 0, BYTES_MAX).decode("ascii", "replace").strip()
    return text if text.isprintable() else ""
