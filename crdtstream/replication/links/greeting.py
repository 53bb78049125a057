"""The greeting of two regions: the content of a Hello, and the reasons why two nodes refuse each other.

Refusals name both regions, never "here" and "there", so that one sentence reads the same in both logs and tells an
operator what to do. Older data, or two processes with one region number, are no reason to refuse: every process is an
origin of its own, so their effects never collide (membership.py decides which of them belongs to the cluster).

Each region speaks a range of versions, and two of them use the highest that both speak. A region that speaks one
version alone does not name the end of its range, as releases before protocol 3 did not.

Vectors are inclusive. What a Hello carries is validated here and in values/wire_values.py before anything uses it.
"""

from __future__ import annotations

from crdtstream.core.values.causality import VersionVector, region_of
from crdtstream.protocols.codec import FORMAT_VERSION, OLDEST_SENT
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.values.bounds import own_bounds
from crdtstream.replication.values.wire_values import (
    WireError,
    check_birth,
    check_bounds,
    check_names,
    check_region_number,
    to_origin,
    to_origins,
    vector_rows,
)
from crdtstream.settings.config import Config
from crdtstream.settings.sharding import number_of

PROTOCOL_VERSION = 5
# The release before spoke this one, and a cluster is upgraded one region at a time.
OLDEST_PROTOCOL = 2
# From this version on an envelope may hold frames.
FRAMES_SINCE = 4
# From this version on parts name their batch.
PARTS_SINCE = 5
COUNT_MAX = (1 << 32) - 1


class Versions:
    """The protocol and formats of batches that a region speaks, each from the lower number to the higher, inclusive."""

    __slots__ = ("format", "protocol")

    def __init__(
        self,
        protocol: tuple[int, int] = (OLDEST_PROTOCOL, PROTOCOL_VERSION),
        format: tuple[int, int] = (OLDEST_SENT, FORMAT_VERSION),
    ) -> None:
        self.protocol = protocol
        self.format = format


OWN_VERSIONS = Versions()


def make_hello(
    config: Config, birth: Birth, vector: VersionVector, direct_origins: list[int], versions: Versions = OWN_VERSIONS
) -> wire.Hello:
    return wire.Hello(
        protocol_version=versions.protocol[0],
        # A region that cannot read what was applied here would stop the link at the first batch that says it.
        format_version=max(versions.format[0], birth.needs_format),
        protocol_version_max=versions.protocol[1],
        format_version_max=versions.format[1],
        cluster=config.cluster,
        name=config.name,
        region=config.region,
        shard=number_of(config),
        shards=config.shards if config.shards > 1 else 0,
        id_mode=config.id_mode,
        origin=birth.origin,
        vector=vector_rows(vector),
        direct_slots=direct_origins,
        births=birth_rows(birth),
        predecessors=birth.predecessors(),
        replaces=bool(config.replace),
        bounds=own_bounds(config.limits),
    )


def birth_rows(birth: Birth) -> list[wire.BirthRow]:
    founders = birth.founders_left()
    origins = sorted({*birth.counts, *founders})
    counts, bound = birth.counts, birth.bounds.of
    rows = []
    for origin in origins:
        described = birth.description_with(origin)
        rows.append(
            wire.BirthRow(
                slot=origin,
                count=counts.get(origin, 0) & COUNT_MAX,
                founder=origin in founders,
                batch_bytes_max=bound(origin),
                name=described.name,
                addresses=dict(described.addresses),
                format_version_max=described.format_version,
            )
        )
    return rows


def named_births(hello: wire.Hello) -> list[wire.BirthRow]:
    """What a Hello tells of origins. A region of a release before names itself alone, and says what it reads there."""
    rows = list(hello.births)
    for row in rows:
        if row.slot == hello.origin:
            row.name = hello.name
            row.format_version_max = row.format_version_max or formats_of(hello)[1]
    return rows


def check_hello(hello: wire.Hello) -> None:
    """Raise WireError for a Hello that is malformed or contradicts itself."""
    check_names([hello.name, hello.cluster, hello.id_mode])
    check_region_number(hello.region)
    to_origins(hello.direct_slots)
    to_origins(row.slot for row in hello.births)
    check_bounds(hello.bounds)
    for row in hello.births:
        check_birth(row)
    for origin in [hello.origin, *to_origins(hello.predecessors)]:
        if region_of(to_origin(origin)) != hello.region:
            raise WireError(f"region {hello.region} greets with an origin of region {region_of(origin)}")


def outgrown(peer_name: str, peer_region: int, format_version: int, needed: int) -> str | None:
    """Return why nothing more is exchanged with a peer that reads this format, once the cluster needs a later one."""
    if format_version >= needed:
        return None
    return (
        f"region {peer_name} ({peer_region}) cannot read batches in format {needed}, which this cluster uses since"
        " groups have properties: upgrade it"
    )


def refusal(own: wire.Hello, peer: wire.Hello) -> str | None:
    """Return why these two regions must not exchange anything, or None; `own` is the Hello that this node would send
    now.
    """
    return _other_version(own, peer) or _other_cluster(own, peer) or _itself(own, peer)


def describe(hello: wire.Hello) -> str:
    return f"region {hello.name} ({hello.region})"


def protocols_of(hello: wire.Hello) -> tuple[int, int]:
    """The protocol versions that its sender speaks."""
    return (hello.protocol_version, max(hello.protocol_version, hello.protocol_version_max))


def formats_of(hello: wire.Hello) -> tuple[int, int]:
    """The formats of batches that its sender speaks."""
    return (hello.format_version, max(hello.format_version, hello.format_version_max))


def agreed(own: tuple[int, int], peer: tuple[int, int]) -> int:
    """The highest version that both speak; 0 if there is none."""
    highest = min(own[1], peer[1])
    return highest if highest >= max(own[0], peer[0]) else 0


def _other_version(own: wire.Hello, peer: wire.Hello) -> str | None:
    if not agreed(protocols_of(own), protocols_of(peer)):
        return (
            f"{describe(own)} speaks protocol version {shown(protocols_of(own))}, {describe(peer)} speaks version"
            f" {shown(protocols_of(peer))}: run crdtstream versions that are at most one release apart"
        )
    if not agreed(formats_of(own), formats_of(peer)):
        return (
            f"{describe(own)} writes batches in format {shown(formats_of(own))}, {describe(peer)} in format"
            f" {shown(formats_of(peer))}: run crdtstream versions that are at most one release apart"
        )
    return None


def shown(versions: tuple[int, int]) -> str:
    low, high = versions
    return str(low) if low == high else f"{low} to {high}"


def _other_cluster(own: wire.Hello, peer: wire.Hello) -> str | None:
    if own.cluster != peer.cluster:
        return (
            f"{describe(own)} belongs to cluster {own.cluster!r}, {describe(peer)} to cluster {peer.cluster!r}: give"
            " both the same --cluster, or remove one from the other's peers"
        )
    if max(own.shards, 1) != max(peer.shards, 1):
        return (
            f"{describe(own)} has {shards_of(own)}, {describe(peer)} has {shards_of(peer)}: give every region of the"
            " cluster the same --shards, which is chosen when the cluster is founded"
        )
    if own.shard != peer.shard:
        return f"{describe(own)} serves shard {own.shard}, {describe(peer)} shard {peer.shard}: connect equal shards"
    if own.id_mode != peer.id_mode:
        return (
            f"{describe(own)} has ID mode {own.id_mode}, {describe(peer)} has {peer.id_mode}: give every region of the"
            " cluster the same --id-mode"
        )
    return None


def shards_of(hello: wire.Hello) -> str:
    return "1 shard" if hello.shards <= 1 else f"{hello.shards} shards"


def _itself(own: wire.Hello, peer: wire.Hello) -> str | None:
    if own.origin != peer.origin:
        return None
    return f"{describe(own)} is connected to itself: remove its own address from its peers"
