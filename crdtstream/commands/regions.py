"""CRDT.REGIONS and CRDT.VECTOR, and CRDT.DIGEST (commands/digests.py): what operators compare between regions.

While a state transfer is running on a link, the peer's row has `transfer` (its direction) and the amount transferred. A
peer without a link has `unlinked-ms` (for how long) and `reason` (why). A configured address from which no region has
answered yet has a row too, with region 0. A region without room for batches of its peers, on its `disk` or in its
`memory`, has `lacking` (which of them) and `lacking-ms` (for how long): they wait. Where a region announces how its
listeners are reached, its row has them: `redis-address`, `http-address`, `replication-address` and so on. With
`hot_bytes_max` the row of this region has `hot-bytes`, what of them cannot be spilled (`unspillable-bytes`), and the
parts of that, as `INFO memory` has them.

An origin is shown as its region number and its random bits in hexadecimal: `2.1f3c08d29a4b71`.

Lag counts effects: those that this region holds and the peer has not reported as applied (`lag`) or as durable
(`durable-lag`). A peer that was never heard from lacks everything, one that was evicted lacks nothing. Equal digests
mean equal replicated state.
"""

from __future__ import annotations

from crdtstream.commands.digests import digest
from crdtstream.connections.client import Client
from crdtstream.connections.cluster import LINK_SELF, PeerStatus, lacking
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import Context, Reply
from crdtstream.core.values.causality import VersionVector, origin_name
from crdtstream.protocols import replies


def vector_text(vector: VersionVector) -> str:
    return ",".join(f"{origin_name(origin)}={counter}" for origin, counter in vector.items())


def origin_text(context: Context) -> str:
    """The name of this region's origin; empty until it has one."""
    origin = context.replica.applied.origin
    return origin_name(origin) if origin else ""


def regions(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.REGIONS: one map for each region, this one first."""
    config, applied, neighbours = context.settings.config, context.replica.applied, context.cluster.neighbours
    itself = PeerStatus(config.region, config.name, "", LINK_SELF, 0, applied.origin)
    itself.lacking, itself.lacking_ms, _, _ = neighbours.waits()
    lags_of, own = context.cluster.lags_of, applied.vector
    shown = [(itself, (0, lacking(own, neighbours.durable())))]
    shown += [(peer, lags_of(own, peer)) for peer in neighbours.peers()]
    rows: list[bytes] = []
    for peer, lags in shown:
        items = region_items(peer, lags, neighbours.addresses_of(peer.region))
        if peer is itself:
            items += hot_items(context)
        rows.append(replies.mapping(items, client.protocol))
    return replies.array(rows)


def hot_items(context: Context) -> list[bytes]:
    """What keeps this region's blocks in memory; nothing where all of them stay there."""
    if not context.limits.hot_bytes_max:
        return []
    walk = context.spilling.walk
    shown = (
        (b"hot-bytes-max", context.limits.hot_bytes_max),
        (b"hot-bytes", walk.hot_bytes()),
        (b"unspillable-bytes", walk.unspillable_bytes()),
        (b"last-blocks-bytes", walk.bound.last),
        (b"unsaved-bytes", walk.unsaved_bytes()),
        (b"trimmed-blocks-bytes", walk.bound.trimmed),
        (b"pending-bytes", walk.bound.pending),
    )
    items: list[bytes] = []
    for name, byte_count in shown:
        items += [replies.bulk(name), replies.integer(byte_count)]
    return items


def region_items(peer: PeerStatus, lags: tuple[int, int], announced: tuple[tuple[str, str], ...]) -> list[bytes]:
    items = [
        replies.bulk(b"region"),
        replies.integer(peer.region),
        replies.bulk(b"name"),
        replies.bulk(peer.name.encode()),
        replies.bulk(b"origin"),
        replies.bulk(origin_name(peer.origin).encode() if peer.origin else b""),
        replies.bulk(b"address"),
        replies.bulk(peer.address.encode()),
        replies.bulk(b"link"),
        replies.bulk(peer.link.encode()),
        replies.bulk(b"silent-ms"),
        replies.integer(peer.silent_ms),
        replies.bulk(b"lag"),
        replies.integer(lags[0]),
        replies.bulk(b"durable-lag"),
        replies.integer(lags[1]),
    ]
    for listener, address in announced:
        items += [replies.bulk(f"{listener.replace('_', '-')}-address".encode()), replies.bulk(address.encode())]
    if peer.transfer is not None:
        items += [replies.bulk(b"transfer"), replies.bulk(peer.transfer.direction.encode())]
        items += [replies.bulk(b"transfer-chunks"), replies.integer(peer.transfer.chunks)]
        items += [replies.bulk(b"transfer-bytes"), replies.integer(peer.transfer.byte_count)]
    if peer.lacking:
        items += [replies.bulk(b"lacking"), replies.bulk(peer.lacking.encode("utf-8", "replace"))]
        items += [replies.bulk(b"lacking-ms"), replies.integer(peer.lacking_ms)]
    if peer.unlinked_ms >= 0:
        items += [replies.bulk(b"unlinked-ms"), replies.integer(peer.unlinked_ms)]
        items += [replies.bulk(b"reason"), replies.bulk(peer.reason.encode("utf-8", "replace"))]
    return items


def vectors(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.VECTOR: the vector of what is applied here, and of what is durable on this region's disk."""
    protocol = client.protocol
    items = [
        replies.bulk(b"applied"),
        vector_map(context.replica.applied.vector, protocol),
        replies.bulk(b"durable"),
        vector_map(context.cluster.neighbours.durable(), protocol),
    ]
    return replies.mapping(items, protocol)


def vector_map(vector: VersionVector, protocol: int) -> bytes:
    items: list[bytes] = []
    for origin, counter in vector.items():
        items += [replies.bulk(origin_name(origin).encode()), replies.integer(counter)]
    return replies.mapping(items, protocol)


COMMANDS: list[Command] = [
    Command(
        "crdt.regions",
        regions,
        arity=1,
        flags="readonly loading",
        since="0.1.0",
        group="server",
        summary="Returns the regions of the cluster as this one sees them.",
    ),
    Command(
        "crdt.vector",
        vectors,
        arity=1,
        flags="readonly loading",
        since="0.1.0",
        group="server",
        summary="Returns the vectors of what this region has applied, and of what is durable on its disk.",
    ),
    Command(
        "crdt.digest",
        digest,
        arity=-1,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(1, "RO access"),
        since="0.1.0",
        group="server",
        summary="Returns a digest of the replicated state, of all or of one key.",
        syntax="[key]",
    ),
]
