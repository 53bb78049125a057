"""Tables of members, and the replicas that write them."""

from __future__ import annotations

from crdtstream.core.members import (
    Members,
)
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector

KEY = (0, b"x")
GROUP = b"g"


def creates_of(replica: Replica) -> list[tuple[int, int]]:
    stream = replica.keyspace.known(KEY)
    group = None if stream is None else stream.groups.get(GROUP)
    return [] if group is None else sorted(group.creates)


DURABLE = VersionVector({1: 9, 2: 9, 3: 9})


def stable(
    members: Members, heard: dict[int, VersionVector], own_origin: int = 1, born: list[int] | None = None
) -> int:
    """How much of origin 1 is stable for `own_origin`."""
    return members.stable(own_origin, DURABLE, born or [], lambda origin: heard.get(origin, VersionVector())).get(1)
