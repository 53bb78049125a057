"""Why this region takes no change of a partitioned stream now."""

from __future__ import annotations

from typing import Final

from crdtstream.partitions.values import UNWRITABLE, Refused
from crdtstream.status.availability import Standing

FULL_DISK: Final = "the disk of this region is full: free space"


def require_serving(standing: Standing) -> None:
    if standing.loading:
        raise Refused(UNWRITABLE, f"this region does not serve yet: {standing.loading}")
    if standing.paused:
        raise Refused(UNWRITABLE, "clients of this region are paused (CLIENT PAUSE): try again")


def require_removing(standing: Standing) -> None:
    """What frees room works at the memory limit, and on a full disk out of its reserve."""
    require_serving(standing)
    if not standing.may_remove():
        raise Refused(UNWRITABLE, FULL_DISK)


def require_writable(standing: Standing) -> None:
    require_serving(standing)
    if standing.memory_short:
        raise Refused(UNWRITABLE, "this region uses more memory than memory_bytes_max: remove data or raise the limit")
    if not standing.writable:
        raise Refused(UNWRITABLE, FULL_DISK)
