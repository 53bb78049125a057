"""The disk as INFO and the log of events show it: what there is, what is needed, and what would free it."""

from __future__ import annotations

from crdtstream.commands.members import UNLINKED
from crdtstream.connections.cluster import PeerStatus
from crdtstream.connections.context import Context

# Peers that keep up are some messages behind; no eviction would free much of the log.
HELD_BYTES_MIN = 1 << 20


def disk_fields(context: Context) -> list[tuple[str, object]]:
    """`disk_needed_bytes` have to be free for writes to go on, and `disk_remedy` says how; the log keeps
    `log_held_bytes` for the peer that lacks most.
    """
    volume, full = context.standing.volume, not context.standing.writable
    return [
        ("disk_full", int(full)),
        ("disk_free_bytes", volume.free_bytes),
        ("disk_needed_bytes", volume.needed_bytes),
        ("disk_reserve_bytes", volume.reserve_bytes),
        ("disk_remedy", remedy(context) if full else ""),
        ("log_bytes", volume.log_bytes),
        ("log_held_bytes", max([held for held, _ in holders(context)], default=0)),
    ]


def holders(context: Context) -> list[tuple[int, PeerStatus]]:
    """The peers for which the log is kept, each with the bytes, those with most first."""
    cluster, applied = context.cluster, context.replica.applied
    found = [(cluster.held_back(applied, peer.origin), peer) for peer in cluster.neighbours.peers()]
    return sorted([row for row in found if row[0]], key=_held, reverse=True)


def _held(row: tuple[int, PeerStatus]) -> int:
    return row[0]


def remedy(context: Context) -> str:
    """What would free space, for people; without commas, which would make it several values of INFO."""
    for held, peer in holders(context):
        if held < HELD_BYTES_MIN:
            break
        name = peer.name or str(peer.region)
        if peer.link == UNLINKED:
            return (
                f"the log keeps {held} bytes for region {name}: bring it back or evict it (CRDT.EVICT {name}) or set"
                " log_retention_bytes"
            )
        return f"the log keeps {held} bytes for region {name} until it has caught up: wait or free space on the volume"
    return "free space on the volume or remove data (XTRIM or DEL): a checkpoint then frees what it took"
