"""CRDT.REGIONS, CRDT.VECTOR and CRDT.DIGEST: what operators compare between regions.

While a whole state goes over a link, its row says `transfer`, in which direction, and how much has gone.

An origin is shown as `region.incarnation`. Lag counts effects: what this region holds and a peer has not told to have
applied (or to have on its disk); a peer not heard of lacks everything. Equal digests mean equal replicated state.
"""

from __future__ import annotations

from crdtstream.commands.command import Command
from crdtstream.commands.context import Client, CommandError, Context, Peer, Reply
from crdtstream.core.causality import VersionVector, incarnation_of, region_of
from crdtstream.core.digest import digest_replica, digest_stream
from crdtstream.protocols import replies

LINK_OPEN = "open"
LINK_SELF = "self"
LINK_TRANSFER = "transfer"


def origin_name(slot: int) -> str:
    return f"{region_of(slot)}.{incarnation_of(slot)}"


def vector_text(vector: VersionVector) -> str:
    return ",".join(f"{origin_name(slot)}={counter}" for slot, counter in vector.items())


def origin_text(context: Context) -> str:
    """Empty until this region has an origin."""
    origin = context.origin
    return "" if origin is None else f"{origin_name(origin.slot)}:{origin.nonce:016x}"


def lags_of(context: Context, peer: Peer) -> tuple[int, int]:
    """How many effects the peer has not applied, and has not on its disk."""
    own = context.replica.vector
    if peer.slot == 0:
        return own.total(), own.total()
    progress = context.progress
    return lacking(own, progress.applied_of(peer.slot)), lacking(own, progress.durable_of(peer.slot))


def lacking(own: VersionVector, other: VersionVector) -> int:
    return sum(max(0, counter - other.get(slot)) for slot, counter in own.items())


def regions(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """One map for each region, this one first."""
    own = context.replica.vector
    itself = Peer(context.about.region, context.about.name, "", LINK_SELF, 0, context.replica.slot)
    rows = [region_row(itself, (0, lacking(own, context.durable)), client.protocol)]
    rows += [region_row(peer, lags_of(context, peer), client.protocol) for peer in context.peers]
    return replies.array(rows)


def region_row(peer: Peer, lags: tuple[int, int], protocol: int) -> bytes:
    items = [
        replies.bulk(b"region"),
        replies.integer(peer.region),
        replies.bulk(b"name"),
        replies.bulk(peer.name.encode()),
        replies.bulk(b"origin"),
        replies.bulk(origin_name(peer.slot).encode() if peer.slot else b""),
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
    if peer.transfer is not None:
        items += [replies.bulk(b"transfer"), replies.bulk(peer.transfer.direction.encode())]
        items += [replies.bulk(b"transfer-chunks"), replies.integer(peer.transfer.chunks)]
        items += [replies.bulk(b"transfer-bytes"), replies.integer(peer.transfer.byte_count)]
    return replies.mapping(items, protocol)


def vectors(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """The vector of what is applied here, and of what is on this region's disk."""
    protocol = client.protocol
    items = [
        replies.bulk(b"applied"),
        vector_map(context.replica.vector, protocol),
        replies.bulk(b"durable"),
        vector_map(context.durable, protocol),
    ]
    return replies.mapping(items, protocol)


def vector_map(vector: VersionVector, protocol: int) -> bytes:
    items: list[bytes] = []
    for slot, counter in vector.items():
        items += [replies.bulk(origin_name(slot).encode()), replies.integer(counter)]
    return replies.mapping(items, protocol)


def digest(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """Of everything, or of one key in the selected database, hidden or not; null when that key does not exist."""
    if len(argv) > 2:
        raise CommandError("ERR wrong number of arguments for 'crdt.digest' command")
    if len(argv) == 1:
        return replies.bulk(digest_replica(context.replica).hex().encode())
    stream = context.replica.known((client.database, argv[1]))
    return replies.null_bulk(client.protocol) if stream is None else replies.bulk(digest_stream(stream).hex().encode())


COMMANDS: list[Command] = [
    Command("crdt.regions", 1, ("readonly", "loading"), 0, 0, 0, regions),
    Command("crdt.vector", 1, ("readonly", "loading"), 0, 0, 0, vectors),
    Command("crdt.digest", -1, ("readonly",), 0, 0, 0, digest),
]
